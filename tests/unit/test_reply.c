#include "http/reply_priv.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define CAP 4096

static const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s ? s : "(none)";
}

static json_t *body_of(const struct reply *r)
{
    json_t *body = json_loadb(r->body.data, r->body.len, 0, NULL);

    cr_assert_not_null(body, "not JSON: %s", r->body.data);
    return body;
}

static const char *header_of(const struct reply *r, const char *name)
{
    struct reply_header headers[REPLY_HEADERS_MAX];
    size_t n = reply_headers(r, headers);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(headers[i].name, name) == 0)
            return headers[i].value;
    }
    return "(none)";
}

Test(reply, every_problem_has_one_shape)
{
    for (enum err err = ERR_INVALID; err < ERR_COUNT; err++) {
        struct reply r;
        json_t *body = NULL;

        reply_init(&r, CAP);
        reply_problem(&r, err, "What happened");
        reply_finish(&r);
        body = body_of(&r);
        cr_expect_eq(r.status, err_status(err));
        cr_expect_str_eq(header_of(&r, "Content-Type"), "application/problem+json");
        cr_expect_str_eq(text_of(body, "type"), "about:blank");
        cr_expect_str_eq(text_of(body, "title"), err_title(err));
        cr_expect_eq(json_integer_value(json_object_get(body, "status")), err_status(err));
        cr_expect_str_eq(text_of(body, "detail"), "What happened");
        cr_expect_str_eq(text_of(body, "code"), err_code(err));
        cr_expect_eq(json_object_size(body), 5);
        cr_expect_str_eq(header_of(&r, "Retry-After"), err_status(err) == 503 ? "1" : "(none)");
        cr_expect_str_eq(header_of(&r, "WWW-Authenticate"),
                         err_status(err) == 401 ? "Bearer realm=\"duepost\"" : "(none)");
        json_decref(body);
        reply_deinit(&r);
    }
}

Test(reply, a_conflict_names_the_state)
{
    for (enum task_state state = TASK_SCHEDULED; state < TASK_STATE_COUNT; state++) {
        struct reply r;
        json_t *body = NULL;

        reply_init(&r, CAP);
        reply_problem_state(&r, ERR_STATE_CONFLICT, "No", task_state_name(state));
        body = body_of(&r);
        cr_expect_eq(r.status, 409);
        cr_expect_str_eq(text_of(body, "state"), task_state_name(state));
        json_decref(body);
        reply_deinit(&r);
    }
}

Test(reply, faults_are_listed_under_their_key)
{
    static const char *const keys[] = {"pointer", "parameter"};

    for (size_t i = 0; i < COUNT(keys); i++) {
        struct reply r;
        struct faults faults;
        json_t *body = NULL;
        json_t *errors = NULL;

        reply_init(&r, CAP);
        faults_init(&faults);
        faults_add(&faults, "/a\"b", "is \"odd\"");
        faults_add(&faults, "", "is bad");
        reply_problem_faults(&r, ERR_INVALID, keys[i], &faults);
        body = body_of(&r);
        errors = json_object_get(body, "errors");
        cr_assert_eq(json_array_size(errors), 2);
        cr_expect_str_eq(text_of(json_array_get(errors, 0), keys[i]), "/a\"b");
        cr_expect_str_eq(text_of(json_array_get(errors, 0), "detail"), "is \"odd\"");
        cr_expect_str_eq(text_of(json_array_get(errors, 1), keys[i]), "");
        cr_expect_str_eq(text_of(body, "detail"), "2 faults, see errors");
        json_decref(body);
        faults_deinit(&faults);
        reply_deinit(&r);
    }
}

Test(reply, the_only_fault_is_the_detail)
{
    static const struct {
        const char *key;
        const char *pointer;
        const char *detail;
    } rows[] = {{"pointer", "/url", "/url: is required"},
                {"pointer", "", "The body: is required"},
                {"parameter", "limit", "limit: is required"},
                {"parameter", "", "A parameter without a name: is required"}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct reply r;
        struct faults faults;
        json_t *body = NULL;

        reply_init(&r, CAP);
        faults_init(&faults);
        faults_add(&faults, rows[i].pointer, "is required");
        reply_problem_faults(&r, ERR_INVALID, rows[i].key, &faults);
        body = body_of(&r);
        cr_expect_str_eq(text_of(body, "detail"), rows[i].detail);
        json_decref(body);
        faults_deinit(&faults);
        reply_deinit(&r);
    }
}

Test(reply, faults_that_are_not_listed_are_counted)
{
    struct reply r;
    struct faults faults;
    json_t *body = NULL;

    reply_init(&r, 100000);
    faults_init(&faults);
    for (int i = 0; i < FAULTS_MAX + 5; i++)
        faults_add(&faults, "/x", "is bad");
    reply_problem_faults(&r, ERR_INVALID, "pointer", &faults);
    body = body_of(&r);
    cr_expect_eq(json_array_size(json_object_get(body, "errors")), FAULTS_MAX);
    cr_expect_str_eq(text_of(body, "detail"), "105 faults, see errors for the first 100");
    json_decref(body);
    faults_deinit(&faults);
    reply_deinit(&r);
}

Test(reply, an_answer_over_its_cap_becomes_a_problem)
{
    struct reply r;
    struct buf *out = NULL;
    json_t *body = NULL;

    reply_init(&r, 300);
    out = reply_json(&r, 200);
    for (int i = 0; i < 400; i++)
        buf_putc(out, 'x');
    reply_finish(&r);
    body = body_of(&r);
    cr_expect_eq(r.status, 500);
    cr_expect_str_eq(text_of(body, "code"), "internal");
    json_decref(body);
    reply_deinit(&r);
}

Test(reply, a_later_answer_replaces_an_earlier_one)
{
    struct reply r;
    json_t *body = NULL;

    reply_init(&r, CAP);
    reply_problem(&r, ERR_UNAVAILABLE, "No");
    buf_puts(reply_json(&r, 200), "{\"status\":\"ok\"}");
    body = body_of(&r);
    cr_expect_eq(r.status, 200);
    cr_expect_eq(json_object_size(body), 1);
    cr_expect_str_eq(header_of(&r, "Content-Type"), "application/json");
    cr_expect_str_eq(header_of(&r, "Retry-After"), "(none)");
    reply_empty(&r, 204);
    cr_expect_eq(r.body.len, 0);
    cr_expect_str_eq(header_of(&r, "Content-Type"), "(none)");
    json_decref(body);
    reply_deinit(&r);
}

Test(reply, the_wire_form_is_a_whole_answer_that_closes)
{
    struct reply r;
    struct buf wire;
    char length[64];

    reply_init(&r, CAP);
    buf_init(&wire, CAP);
    reply_problem(&r, ERR_TOO_BIG, "Too much");
    (void)snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n\r\n{", r.body.len);
    reply_put_wire(&r, "Content Too Large", &wire);
    cr_expect_eq(strncmp(wire.data, "HTTP/1.1 413 Content Too Large\r\nDate: ", 38), 0, "%s", wire.data);
    cr_expect_not_null(strstr(wire.data, " GMT\r\n"));
    cr_expect_not_null(strstr(wire.data, "\r\nContent-Type: application/problem+json\r\n"));
    cr_expect_not_null(strstr(wire.data, "\r\nConnection: close\r\n"));
    cr_expect_not_null(strstr(wire.data, length), "%s", wire.data);
    cr_expect_not_null(strstr(wire.data, "\"code\":\"body_too_large\"}\n"));
    buf_deinit(&wire);
    reply_deinit(&r);
}
