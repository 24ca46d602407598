#include "http/admit_priv.h"
#include "http/query_priv.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Admission.
 *
 * Where the answer is sent matters as much as the answer. libmicrohttpd takes one only before the body (and closes the
 * connection after it) or after all of it. So a fault found in the head waits for the end of a body that is small
 * enough, and the connection lives on; with `Expect: 100-continue` it is told at once, and the client does not send the
 * body; and a body over the limit is not waited for at all (answer_on_socket() is for that). */

#define POINTER_SIZE 200

static size_t parameter_count(const char *target)
{
    const char *query = strchr(target, '?');
    size_t count = query != NULL;

    for (const char *c = query; c && *c; c++)
        count += *c == '&';
    return count;
}

bool admit_target(struct request *r)
{
    size_t count = parameter_count(r->target);
    size_t bytes = strlen(r->target) + count * FIELD_BYTES;
    char detail[160];

    if (bytes <= TARGET_MAX_BYTES)
        return true;
    (void)snprintf(detail, sizeof(detail),
                   "A request target may have %zu bytes, of which a parameter takes %zu more than its text; it has %zu",
                   TARGET_MAX_BYTES, FIELD_BYTES, bytes);
    reply_problem(&r->reply, ERR_TARGET_TOO_LONG, detail);
    return false;
}

bool admit_size(struct request *r, size_t head_bytes, size_t header_count)
{
    size_t bytes = head_bytes + (header_count + parameter_count(r->target)) * FIELD_BYTES;
    char detail[160];

    if (bytes <= HEAD_MAX_BYTES)
        return true;
    if (r->reply.status == 401 || r->reply.status == 403)
        return false;
    (void)snprintf(detail, sizeof(detail),
                   "A request's head may have %zu bytes, of which a header, parameter or cookie takes %zu more than "
                   "its text; it has %zu",
                   HEAD_MAX_BYTES, FIELD_BYTES, bytes);
    r->reply.allow = NULL;
    reply_problem(&r->reply, ERR_HEAD_TOO_LARGE, detail);
    return false;
}

static enum err check_query(struct request *r)
{
    enum err err = ERR_OK;
    struct faults faults;

    if (r->match.route->flags & ROUTE_QUERY)
        return ERR_OK;
    faults_init(&faults);
    query_read(r->match.query, NULL, 0, &faults);
    if (faults.count > 0) {
        err = ERR_INVALID_QUERY;
        reply_problem_faults(&r->reply, err, "parameter", &faults);
    }
    faults_deinit(&faults);
    return err;
}

static enum err check_route(struct request *r, enum err found)
{
    if (found == ERR_METHOD_NOT_ALLOWED) {
        reply_problem(&r->reply, found, "This path has other methods, see Allow");
        r->reply.allow = r->match.allow;
    } else if (found != ERR_OK) {
        reply_problem(&r->reply, found, "No call has this path");
    }
    return found == ERR_OK ? check_query(r) : found;
}

void admit_refuse_body(struct request *r, enum err err)
{
    char detail[80];

    if (err == ERR_NOMEM) {
        reply_problem(&r->reply, err, "There was no memory for this request");
        return;
    }
    (void)snprintf(detail, sizeof(detail), "A request's body may have %zu bytes", request_body_max(r));
    reply_problem(&r->reply, ERR_TOO_BIG, detail);
}

static bool is_too_big(const struct request *r)
{
    return r->head.body_bytes > 0 && (uint64_t)r->head.body_bytes > request_body_max(r);
}

static bool only_reads(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* ERR_OK, ERR_UNAUTHORIZED or ERR_FORBIDDEN, with one sentence in *detail. */
static enum err check_token(const struct request *r, const char *method, const char **detail)
{
    enum head_access access = HEAD_ACCESS_FULL;

    if (!r->match.is_public)
        access = head_access(&r->head, r->env->opts.tokens, r->env->opts.read_tokens);
    if (access == HEAD_ACCESS_NONE) {
        *detail = "Send a valid token as Authorization: Bearer TOKEN";
        return ERR_UNAUTHORIZED;
    }
    if (access == HEAD_ACCESS_READ && !only_reads(method)) {
        *detail = "This token is good for GET and HEAD only";
        return ERR_FORBIDDEN;
    }
    return ERR_OK;
}

/* What must be answered whatever the request says, and ends the connection. */
static enum err check_connection(struct request *r, const char *method, bool is_excess)
{
    const char *detail = NULL;
    const char *framing_detail = NULL;
    enum err framing = head_check_framing(&r->head, &framing_detail);
    enum err err = check_token(r, method, &detail);

    if (is_excess) {
        err = ERR_TOO_MANY_CONNECTIONS;
        detail = "This gateway has as many connections as it takes";
    } else if (r->env->is_stopping) {
        err = ERR_SHUTTING_DOWN;
        detail = "This gateway takes no more requests";
    } else if (err == ERR_OK) {
        err = framing;
        detail = framing_detail;
    }
    if (err != ERR_OK)
        reply_problem(&r->reply, err, detail);
    r->reply.must_close = framing != ERR_OK || is_excess || r->env->is_stopping;
    return err;
}

static enum err check_call(struct request *r, enum err found)
{
    const char *detail = NULL;
    enum err err = ERR_OK;

    if (head_expects_something_else(&r->head)) {
        err = ERR_EXPECTATION_FAILED;
        reply_problem(&r->reply, err, "Expect can only be 100-continue");
        return err;
    }
    err = check_route(r, found);
    if (err != ERR_OK)
        return err;
    if (is_too_big(r)) {
        err = ERR_TOO_BIG;
        admit_refuse_body(r, err);
        return err;
    }
    err = (r->match.route->flags & ROUTE_BODY) ? head_check_json(&r->head, &detail)
                                               : head_check_encoding(&r->head, &detail);
    if (err != ERR_OK)
        reply_problem(&r->reply, err, detail);
    return err;
}

enum admit admit_head(struct request *r, const char *method, bool is_excess)
{
    enum err found = route_find(method, r->target, &r->match);
    enum err err = check_connection(r, method, is_excess);

    if (err == ERR_OK)
        err = check_call(r, found);
    if (err == ERR_OK)
        return ADMIT_BODY;
    if (r->reply.must_close || (r->head.body_bytes != 0 && head_expects_continue(&r->head)))
        return ADMIT_ANSWER_NOW;
    return is_too_big(r) ? ADMIT_REFUSE_BODY : ADMIT_ANSWER_LATER;
}

/* The body is not empty: name its members as faults, or say that it is not JSON. */
static void refuse_members(struct request *r)
{
    struct faults faults;
    json_error_t where;
    enum err err = ERR_INVALID;
    const char *name = NULL;
    json_t *member = NULL;
    json_t *body = json_loadb(r->body, r->body_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);

    faults_init(&faults);
    if (!body) {
        err = ERR_INVALID_JSON;
        faults_add(&faults, "", "is not valid JSON");
    } else if (!json_is_object(body)) {
        faults_add(&faults, "", "must be empty or {}");
    } else {
        json_object_foreach(body, name, member)
        {
            char pointer[POINTER_SIZE];

            faults_add(&faults, fault_pointer(pointer, sizeof(pointer), "", name, strlen(name)),
                       "is no member of this call");
        }
    }
    if (faults.count > 0)
        reply_problem_faults(&r->reply, err, "pointer", &faults);
    faults_deinit(&faults);
    json_decref(body);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool admit_no_body(struct request *r)
{
    const char *detail = NULL;
    size_t at = 0;
    enum err err = ERR_OK;

    while (at < r->body_bytes && is_blank(r->body[at]))
        at++;
    if (at == r->body_bytes)
        return true;
    refuse_members(r);
    if (r->reply.status == 0)
        return true;
    err = head_check_json(&r->head, &detail);
    if (err != ERR_OK)
        reply_problem(&r->reply, err, detail);
    return false;
}
