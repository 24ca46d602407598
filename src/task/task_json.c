#include "task/task_json.h"

#include "base/mem.h"
#include "base/parse.h"
#include "task/headers_priv.h"
#include "task/member_priv.h"
#include "task/retry_priv.h"
#include "task/scan_priv.h"
#include "task/signature.h"
#include "task/syntax_priv.h"
#include "task/target.h"
#include "task/task_json_priv.h"
#include <stdlib.h>
#include <string.h>

/* Reading the body of POST /tasks and of PATCH /tasks/{id}, in two passes.
 *
 * First jansson (syntax_priv.h) decides whether the bytes are JSON at all: syntax, UTF-8, surrogates, numbers. Its tree
 * is thrown away, since it would have lost what we promise to keep (the digits of numbers, escapes, blanks in the
 * payload) and what we must see (duplicates, fractions in integers). Then the scanner walks the members in the text and
 * each is read by one row of the table below. Nothing stops at the first fault: a client learns all of them at once.
 *
 * A row reads one member only. What concerns several (required, excluding each other) is checked at the end from the
 * set of those given. Faults make the half-read task go away, so readers may leave it in any state. */

enum task_member {
    MEMBER_URL = 0,
    MEMBER_DELAY,
    MEMBER_RUN_AT,
    MEMBER_ID,
    MEMBER_QUEUE,
    MEMBER_METHOD,
    MEMBER_HEADERS,
    MEMBER_PAYLOAD,
    MEMBER_BODY,
    MEMBER_BODY_BASE64,
    MEMBER_TIMEOUT,
    MEMBER_RETRY,
    MEMBER_DURABILITY,
    MEMBER_EXPIRES_IN,
    MEMBER_EXPIRES_AT,
    MEMBER_ON_SUCCESS,
    MEMBER_ON_FAILURE,
    MEMBER_COUNT /* number of members, not one of them */
};

struct reader {
    struct member_ctx ctx;
    const struct task_json_opts *opts;
    struct task *task;
    unsigned given; /* bit i: the member of row i was given */
    bool is_patch;  /* of a task that is there: some members cannot change, none is required */
};

static void read_target(struct reader *r, const struct member *m, char **url)
{
    static const struct cidr_list nothing_allowed = {0};
    char detail[TARGET_DETAIL_SIZE];
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return;
    const struct cidr_list *allow_net = r->opts->allow_net ? r->opts->allow_net : &nothing_allowed;

    if (!target_check(s, n, allow_net, url, detail))
        faults_add(r->ctx.faults, m->pointer, "%s", detail);
}

static void read_url(struct reader *r, const struct member *m)
{
    read_target(r, m, &r->task->url);
}

static void read_on_success(struct reader *r, const struct member *m)
{
    read_target(r, m, &r->task->on_success);
}

static void read_on_failure(struct reader *r, const struct member *m)
{
    read_target(r, m, &r->task->on_failure);
}

static void read_delay(struct reader *r, const struct member *m)
{
    r->task->is_due_absolute = false;
    (void)member_duration(m, 0, PARSE_MAX_DELAY_MS, &r->task->due_ms);
}

static void read_run_at(struct reader *r, const struct member *m)
{
    r->task->is_due_absolute = true;
    (void)member_time(m, &r->task->due_ms);
}

static void read_id(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return;
    if (task_id_is_valid(s, n))
        r->task->id = xstrndup(s, n);
    else
        faults_add(r->ctx.faults, m->pointer,
                   "must be 1 to %d letters, digits or one of . _ : -, and begin with a letter or digit", TASK_ID_MAX);
}

static void read_queue(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return;
    if (!task_queue_is_valid(s, n)) {
        faults_add(r->ctx.faults, m->pointer,
                   "must be 1 to %d lower-case letters, digits or one of . _ -, and begin with a letter or digit",
                   TASK_QUEUE_MAX);
        return;
    }
    free(r->task->queue);
    r->task->queue = xstrndup(s, n);
}

static void read_method(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (member_string(m, &s, &n) && !task_method_from_name(s, n, &r->task->method))
        faults_add(r->ctx.faults, m->pointer, "must be GET, POST, PUT, PATCH or DELETE");
}

static void read_headers(struct reader *r, const struct member *m)
{
    headers_read(m, r->task);
}

/* Take a copy as the task's body. With two body members the task has a fault anyway, but the first copy must not leak.
 */
static void set_body(struct reader *r, enum task_body_kind kind, const char *s, size_t n)
{
    free(r->task->body);
    r->task->body = member_copy(&r->ctx, s, n);
    r->task->body_bytes = r->task->body ? n : 0;
    r->task->body_kind = kind;
}

static void read_payload(struct reader *r, const struct member *m)
{
    set_body(r, TASK_BODY_PAYLOAD, m->value.raw, m->value.bytes);
}

static void read_body(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (member_string(m, &s, &n))
        set_body(r, TASK_BODY_TEXT, s, n);
}

static void read_body_base64(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;
    size_t decoded_bytes = 0;

    if (!member_string(m, &s, &n))
        return;
    if (!parse_base64(s, n, NULL, &decoded_bytes)) {
        faults_add(r->ctx.faults, m->pointer, "must be standard base64 with padding");
        return;
    }
    set_body(r, TASK_BODY_BYTES, s, n); /* room enough: decoded bytes are fewer */
    if (r->task->body && parse_base64(s, n, (unsigned char *)r->task->body, &decoded_bytes)) {
        r->task->body[decoded_bytes] = '\0';
        r->task->body_bytes = decoded_bytes;
    }
}

static void read_timeout(struct reader *r, const struct member *m)
{
    r->task->is_timeout_given = true;
    (void)member_duration(m, TASK_TIMEOUT_MIN_MS, TASK_TIMEOUT_MAX_MS, &r->task->timeout_ms);
}

static void read_retry(struct reader *r, const struct member *m)
{
    retry_read(m, &r->task->retry);
}

static void read_durability(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (member_string(m, &s, &n) && !task_durability_from_name(s, n, &r->task->durability))
        faults_add(r->ctx.faults, m->pointer, "must be memory, fsync or replica");
}

static void read_expires_in(struct reader *r, const struct member *m)
{
    r->task->has_expiry = true;
    r->task->is_expiry_relative = true;
    (void)member_duration(m, 1, PARSE_MAX_DELAY_MS, &r->task->expires_ms);
}

/* A time that has passed is fine: the task expires at once. */
static void read_expires_at(struct reader *r, const struct member *m)
{
    r->task->has_expiry = true;
    r->task->is_expiry_relative = false;
    (void)member_time(m, &r->task->expires_ms);
}

static const struct {
    const char *name;
    void (*read)(struct reader *r, const struct member *m);
} members[MEMBER_COUNT] = {
    [MEMBER_URL] = {"url", read_url},
    [MEMBER_DELAY] = {"delay", read_delay},
    [MEMBER_RUN_AT] = {"run_at", read_run_at},
    [MEMBER_ID] = {"id", read_id},
    [MEMBER_QUEUE] = {"queue", read_queue},
    [MEMBER_METHOD] = {"method", read_method},
    [MEMBER_HEADERS] = {"headers", read_headers},
    [MEMBER_PAYLOAD] = {"payload", read_payload},
    [MEMBER_BODY] = {"body", read_body},
    [MEMBER_BODY_BASE64] = {"body_base64", read_body_base64},
    [MEMBER_TIMEOUT] = {"timeout", read_timeout},
    [MEMBER_RETRY] = {"retry", read_retry},
    [MEMBER_DURABILITY] = {"durability", read_durability},
    [MEMBER_EXPIRES_IN] = {"expires_in", read_expires_in},
    [MEMBER_EXPIRES_AT] = {"expires_at", read_expires_at},
    [MEMBER_ON_SUCCESS] = {"on_success", read_on_success},
    [MEMBER_ON_FAILURE] = {"on_failure", read_on_failure},
};

static bool is_given(const struct reader *r, enum task_member which)
{
    return r->given & 1u << which;
}

static size_t find_member(const char *name, size_t n)
{
    size_t i = 0;

    while (i < MEMBER_COUNT && !(strlen(members[i].name) == n && memcmp(members[i].name, name, n) == 0))
        i++;
    return i;
}

/* What a task keeps from its creation on. */
static bool is_fixed(enum task_member which)
{
    return which == MEMBER_ID || which == MEMBER_QUEUE || which == MEMBER_DURABILITY;
}

static void read_member(struct reader *r, const struct scan_value *name, const struct scan_value *value)
{
    char pointer[MEMBER_POINTER_SIZE];
    struct member m = {.ctx = &r->ctx, .pointer = pointer, .value = *value};
    const char *s = NULL;
    size_t n = 0;

    if (scan_string(name, r->ctx.scratch, &s, &n) != ERR_OK) {
        r->ctx.err = ERR_NOMEM;
        return;
    }
    size_t which = find_member(s, n);

    (void)fault_pointer(pointer, sizeof(pointer), "", s, n);
    if (which == MEMBER_COUNT) {
        faults_add(r->ctx.faults, pointer, "is not a member of a task");
        return;
    }
    if (is_given(r, (enum task_member)which)) {
        faults_add(r->ctx.faults, pointer, "is given more than once");
        return;
    }
    r->given |= 1u << which;
    if (r->is_patch && is_fixed((enum task_member)which))
        faults_add(r->ctx.faults, pointer, "cannot be changed");
    else if (value->depth + 1 > SYNTAX_NESTING_MAX) /* the body's own braces are the first level */
        faults_add(r->ctx.faults, pointer, "must not make the body nest more than %d levels", SYNTAX_NESTING_MAX);
    else
        members[which].read(r, &m);
}

/* A fault at each of these when more than one was given. */
static void check_exclusive(struct reader *r, const enum task_member *set, size_t count, const char *detail)
{
    size_t given_count = 0;

    for (size_t i = 0; i < count; i++)
        given_count += is_given(r, set[i]);
    for (size_t i = 0; i < count && given_count > 1; i++) {
        char pointer[MEMBER_POINTER_SIZE];
        const char *name = members[set[i]].name;

        if (is_given(r, set[i]))
            faults_add(r->ctx.faults, fault_pointer(pointer, sizeof(pointer), "", name, strlen(name)), "%s", detail);
    }
}

static void check_together(struct reader *r)
{
    static const enum task_member times[] = {MEMBER_DELAY, MEMBER_RUN_AT};
    static const enum task_member expiries[] = {MEMBER_EXPIRES_IN, MEMBER_EXPIRES_AT};
    static const enum task_member bodies[] = {MEMBER_PAYLOAD, MEMBER_BODY, MEMBER_BODY_BASE64};

    if (!is_given(r, MEMBER_URL) && !r->is_patch)
        faults_add(r->ctx.faults, "/url", "is required");
    check_exclusive(r, times, 2, "only one of delay and run_at can be given");
    check_exclusive(r, expiries, 2, "only one of expires_in and expires_at can be given");
    check_exclusive(r, bodies, 3, "only one of payload, body and body_base64 can be given");
}

void task_json_global_init(void)
{
    syntax_global_init();
}

/* Read the members of `body` into r->task. ERR_INVALID with faults, ERR_NOMEM. */
static enum err read_members(struct reader *r, const struct scan_value *body)
{
    struct scan_value name, value;
    struct scan scan;

    if (body->kind != SCAN_OBJECT) {
        faults_add(r->ctx.faults, "", "must be a JSON object");
        return ERR_INVALID;
    }
    scan_begin(&scan, body);
    while (r->ctx.err == ERR_OK && scan_next_member(&scan, &name, &value))
        read_member(r, &name, &value);
    check_together(r);
    if (r->ctx.err != ERR_OK)
        return r->ctx.err;
    return r->ctx.faults->count > 0 ? ERR_INVALID : ERR_OK;
}

enum err task_json_read(const struct scan_value *value, const struct task_json_opts *opts, struct faults *faults,
                        struct task **out)
{
    struct buf scratch;
    struct reader r = {.ctx = {.faults = faults, .scratch = &scratch, .err = ERR_OK}, .opts = opts};

    buf_init(&scratch, value->bytes);
    r.task = task_create();
    r.task->durability = opts->durability;
    enum err err = read_members(&r, value);

    if (err != ERR_OK)
        task_destroy(&r.task);
    *out = r.task;
    buf_deinit(&scratch);
    return err;
}

void task_json_digest(struct task *t, const char *json, size_t n)
{
    if (!t->id)
        return;
    t->has_digest = true;
    signature_digest(json, n, t->digest);
}

/* The value that the whole text is. */
static enum err read_root(const char *json, size_t n, struct faults *faults, struct scan_value *out)
{
    enum err err = syntax_check(json, n, faults);

    if (err == ERR_OK && !scan_root(json, n, out))
        err = ERR_INTERNAL; /* JSON has a value */
    return err;
}

enum err task_json_parse(const char *json, size_t n, const struct task_json_opts *opts, struct faults *faults,
                         struct task **out)
{
    struct scan_value body;
    enum err err = read_root(json, n, faults, &body);

    *out = NULL;
    if (err == ERR_OK)
        err = task_json_read(&body, opts, faults, out);
    if (err == ERR_OK)
        task_json_digest(*out, json, n);
    return err;
}

enum err task_json_parse_patch(const char *json, size_t n, const struct task_json_opts *opts, struct faults *faults,
                               struct task_patch *out)
{
    struct buf scratch;
    struct reader r = {.ctx = {.faults = faults, .scratch = &scratch, .err = ERR_OK}, .opts = opts, .is_patch = true};
    struct scan_value body;
    enum err err = read_root(json, n, faults, &body);

    task_patch_init(out);
    if (err != ERR_OK)
        return err;
    buf_init(&scratch, n);
    r.task = out->values;
    err = read_members(&r, &body);
    buf_deinit(&scratch);
    out->has_due = is_given(&r, MEMBER_DELAY) || is_given(&r, MEMBER_RUN_AT);
    out->has_method = is_given(&r, MEMBER_METHOD);
    out->has_headers = is_given(&r, MEMBER_HEADERS);
    out->has_body = is_given(&r, MEMBER_PAYLOAD) || is_given(&r, MEMBER_BODY) || is_given(&r, MEMBER_BODY_BASE64);
    out->has_timeout = is_given(&r, MEMBER_TIMEOUT);
    out->has_retry = is_given(&r, MEMBER_RETRY);
    return err;
}
