#include "../support/http_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Requests, right and wrong, one by one. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

TestSuite(http, .init = http_set_up, .fini = http_tear_down);

/* ---- what is wrong with a request ---- */

struct fault_row {
    const char *request;
    int status;
    const char *code;
    bool may_be_library; /* newer versions of libmicrohttpd refuse it themselves, with a body of their own */
};

static void expect_faults(const struct fault_row *rows, size_t count, bool is_kept)
{
    int port = http_start_plain();

    for (size_t i = 0; i < count; i++) {
        struct wire *w = NULL;
        const struct wire_answer *a = wire_ask(port, rows[i].request, &w);

        if (rows[i].may_be_library && !a->json)
            cr_expect_geq(a->status, 400, "row %zu", i);
        else
            http_expect_problem(w, a, rows[i].status, rows[i].code);
        if (is_kept) {
            wire_puts(w, GET_HEALTH);
            cr_expect_eq(wire_read(w, true)->status, 200, "the connection goes on, row %zu", i);
        } else {
            cr_expect(wire_is_closed(w, 1000), "the connection ends, row %zu", i);
        }
        wire_hang_up(&w);
    }
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 0, "nothing is stored");
    cr_expect_eq(store_fake_count(http_store(), STORE_CANCEL), 0);
}

Test(http, a_fault_is_told_and_the_connection_goes_on)
{
    static const struct fault_row rows[] = {
        {POST(JSON "Content-Length: 1\r\n", "{"), 400, "invalid_json", false},
        {POST(JSON "Content-Length: 0\r\n", ""), 400, "invalid_json", false},
        {POST(JSON "Content-Length: 2\r\n", "{}"), 400, "invalid_request", false},
        {POST(JSON "Content-Length: 7\r\n", "{\"a\":1}"), 400, "invalid_request", false},
        {POST(JSON "Transfer-Encoding: chunked\r\n", "1\r\n{\r\n0\r\n\r\n"), 400, "invalid_json", false},
        {POST("Content-Length: 49\r\n", TASK), 415, "unsupported_media_type", false},
        {POST("Content-Type: text/plain\r\nContent-Length: 49\r\n", TASK), 415, "unsupported_media_type", false},
        {POST(JSON "Content-Encoding: gzip\r\nContent-Length: 49\r\n", TASK), 415, "unsupported_media_type", false},
        {POST(JSON "Expect: 200-ok\r\nContent-Length: 49\r\n", TASK), 417, "expectation_failed", false},
        {ASK("GET", "/"), 404, "not_found", false},
        {ASK("GET", "/tasks/"), 404, "not_found", false},
        {ASK("GET", "/tasks/%00"), 404, "not_found", false},
        {ASK("GET", "/tasks/a%00b"), 404, "not_found", false},
        {ASK("GET", "/tasks/%zz"), 404, "not_found", false},
        {ASK("GET", "/healthz%00"), 404, "not_found", false},
        {ASK("TRACE", "/"), 404, "not_found", false},
        {ASK("GET", "/tasks/a%2Fb"), 404, "task_not_found", false},
        {ASK("GET", "/tasks/-x"), 404, "task_not_found", false},
        {ASK("GET", "/tasks/unknown"), 404, "task_not_found", false},
        {ASK("DELETE", "/tasks/-x"), 404, "task_not_found", false},
        {ASK("PUT", "/tasks"), 405, "method_not_allowed", false},
        {ASK("GeT", "/stats"), 405, "method_not_allowed", false},
        {ASK("post", "/tasks"), 405, "method_not_allowed", false},
        {ASK("POST", "/tasks/abc"), 405, "method_not_allowed", false},
        {ASK("TRACE", "/tasks"), 405, "method_not_allowed", false},
        {ASK("GET", "/stats?verbose=1"), 400, "invalid_query", false},
        {ASK("POST", "/tasks?a"), 400, "invalid_query", false},
        {"GET /stats HTTP/1.1\r\n" HOST JSON "Content-Length: 7\r\n\r\n{\"a\":1}", 400, "invalid_request", false},
        {"GET /stats HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n[]", 400, "invalid_request", false},
        {"GET /stats HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{]", 400, "invalid_json", false},
        {"GET /stats HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\n{\"a\":1}", 415, "unsupported_media_type", false},
        {"DELETE /tasks/a HTTP/1.1\r\n" HOST "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", 415,
         "unsupported_media_type", false},
    };

    expect_faults(rows, COUNT(rows), true);
}

Test(http, doubtful_framing_is_refused_and_the_connection_ends)
{
    static const struct fault_row rows[] = {
        {POST(JSON "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, "bad_framing", false},
        {POST(JSON "Content-Length: 5\r\nContent-Length: 6\r\n", "12345"), 400, "bad_framing", false},
        {POST(JSON "Content-Length: 49\r\nContent-Length: 49\r\n", TASK), 400, "bad_framing", false},
        {POST(JSON "Content-Length: 9223372036854775808\r\n", "1"), 400, "bad_framing", false},
        {POST(JSON "Content-Length : 49\r\n", TASK), 400, "bad_framing", true},
        {POST(JSON "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 400, "bad_framing", true},
        {POST(JSON "Transfer-Encoding: gzip\r\n", "x"), 400, "bad_framing", true},
        {POST(JSON "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, "bad_framing",
         false},
        {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_framing", false},
        {"GET /healthz HTTP/1.1\r\n\r\n", 400, "bad_framing", true},
        {"GET /nowhere HTTP/1.1\r\n\r\n", 400, "bad_framing", true},
    };

    expect_faults(rows, COUNT(rows), false);
}

Test(http, what_the_library_refuses_itself_ends_the_connection_too)
{
    static const char *const values[] = {"-1", "+5", "5, 5", "0x5", "", "18446744073709551617"};
    int port = http_start_plain();

    for (size_t i = 0; i < COUNT(values); i++) {
        struct wire *w = wire_dial(port);

        wire_printf(w, "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: %s\r\n\r\n12345", values[i]);
        cr_expect(wire_read(w, false)->status >= 400, "%s", values[i]);
        WAIT_UNTIL(!wire_try_send(w, "x", 1), 2000);
        wire_hang_up(&w);
    }
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 0);
}

Test(http, every_fault_of_a_body_has_its_pointer)
{
    int port = http_start_plain();
    struct wire *w = wire_dial(port);
    const struct wire_answer *a = NULL;
    const char *body = "{\"delay\":-1,\"retry\":{\"max_attempts\":0},\"x/y\":1}";
    static const char *const pointers[] = {"/delay", "/retry/max_attempts", "/x~1y", "/url"};

    wire_printf(w, "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    a = wire_read(w, true);
    http_expect_problem(w, a, 400, "invalid_request");
    cr_assert_eq(json_array_size(json_object_get(a->json, "errors")), COUNT(pointers), "%s", a->body);
    for (size_t i = 0; i < COUNT(pointers); i++) {
        const json_t *e = json_array_get(json_object_get(a->json, "errors"), i);
        char quoted[64];

        (void)snprintf(quoted, sizeof(quoted), "\"pointer\":\"%s\"", pointers[i]);
        cr_expect_not_null(strstr(a->body, quoted), "%s", a->body);
        cr_expect_not_null(json_object_get(e, "detail"));
    }
    wire_hang_up(&w);
}

Test(http, a_wrong_query_names_each_parameter)
{
    struct wire *w = NULL;
    const struct wire_answer *a = wire_ask(http_start_plain(), ASK("GET", "/stats?a=1&&b"), &w);
    const json_t *errors = json_object_get(a->json, "errors");

    http_expect_problem(w, a, 400, "invalid_query");
    cr_assert_eq(json_array_size(errors), 2);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(errors, 0), "parameter")), "a");
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(errors, 1), "parameter")), "b");
    wire_hang_up(&w);
}

/* ---- tasks ---- */

static const struct wire_answer *post_id(struct wire *w, const char *id, const char *more)
{
    char body[256];

    (void)snprintf(body, sizeof(body), "{\"id\":\"%s\",\"url\":\"http://127.0.0.1:9000/hook\",\"delay\":\"1h\"%s}", id,
                   more);
    wire_printf(w, "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    return wire_read(w, true);
}

Test(http, a_task_is_created_and_shown)
{
    struct wire *w = wire_dial(http_start_plain());
    const struct wire_answer *a = post_id(w, "t:1", ",\"payload\":{\"x\":1.10}");

    cr_expect_eq(a->status, 201);
    cr_expect_str_eq(wire_header(w, "Location"), "/tasks/t:1");
    cr_expect_str_eq(wire_header(w, "Content-Type"), "application/json");
    cr_expect_str_eq(http_text(a, "state"), "scheduled");
    cr_expect_null(json_object_get(a->json, "payload"));
    wire_puts(w, ASK("GET", "/tasks/t%3A1"));
    a = wire_read(w, true);
    cr_expect_eq(a->status, 200);
    cr_expect_str_eq(http_text(a, "id"), "t:1");
    cr_expect_not_null(strstr(a->body, "\"payload\":{\"x\":1.10}"), "%s", a->body);
    wire_hang_up(&w);
}

Test(http, a_repeated_create_shows_the_task_and_another_one_conflicts)
{
    struct wire *w = wire_dial(http_start_plain());
    const struct wire_answer *a = post_id(w, "t1", "");

    cr_expect_eq(a->status, 201);
    cr_assert(store_fake_set_state(http_store(), "t1", TASK_DELIVERED));
    a = post_id(w, "t1", "");
    cr_expect_eq(a->status, 200);
    cr_expect_str_eq(http_text(a, "state"), "delivered");
    a = post_id(w, "t1", ",\"payload\":1");
    http_expect_problem(w, a, 409, "id_conflict");
    cr_expect_str_eq(http_text(a, "state"), "delivered");
    wire_hang_up(&w);
}

Test(http, a_task_without_an_id_gets_one)
{
    int port = http_start_plain();
    char ids[2][64];

    for (int i = 0; i < 2; i++) {
        struct wire *w = NULL;
        const struct wire_answer *a = wire_ask(port, POST_TASK, &w);

        cr_expect_eq(a->status, 201);
        (void)snprintf(ids[i], sizeof(ids[i]), "%s", http_text(a, "id"));
        cr_expect_eq(strlen(ids[i]), 12);
        wire_hang_up(&w);
    }
    cr_expect_str_neq(ids[0], ids[1]);
}

Test(http, delete_answers_by_the_state_of_the_task)
{
    static const struct {
        enum task_state state;
        int status;
    } rows[] = {
        {TASK_SCHEDULED, 204}, {TASK_READY, 204}, {TASK_DELIVERING, 202}, {TASK_CANCELLED, 204},
        {TASK_DELIVERED, 409}, {TASK_DEAD, 409},  {TASK_EXPIRED, 409},
    };
    struct wire *w = wire_dial(http_start_plain());

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *name = task_state_name(rows[i].state);
        const struct wire_answer *a = NULL;

        cr_assert_eq(post_id(w, name, "")->status, 201);
        cr_assert(store_fake_set_state(http_store(), name, rows[i].state));
        for (int again = 0; again < 2; again++) {
            wire_printf(w, "DELETE /tasks/%s HTTP/1.1\r\n" HOST "\r\n", name);
            a = wire_read(w, true);
            cr_expect_eq(a->status, rows[i].status, "%s: %d", name, a->status);
        }
        if (rows[i].status == 202)
            cr_expect(json_is_true(json_object_get(a->json, "cancel_requested")));
        if (rows[i].status == 204)
            cr_expect_eq(a->body_bytes, 0);
        if (rows[i].status == 409)
            cr_expect_str_eq(http_text(a, "state"), name);
    }
    wire_hang_up(&w);
}

/* ---- HTTP ---- */

Test(http, head_is_get_without_the_body)
{
    static const char *const targets[] = {"/healthz", "/readyz", "/openapi.yaml", "/tasks/t1", "/tasks/none", "/tasks"};
    struct wire *w = wire_dial(http_start_plain());

    cr_assert_eq(post_id(w, "t1", "")->status, 201);
    for (size_t i = 0; i < COUNT(targets); i++) {
        char length[32];
        char type[64];
        int status = 0;

        wire_printf(w, "GET %s HTTP/1.1\r\n" HOST "\r\n", targets[i]);
        status = wire_read(w, true)->status;
        (void)snprintf(length, sizeof(length), "%s", wire_header(w, "Content-Length"));
        (void)snprintf(type, sizeof(type), "%s", wire_header(w, "Content-Type"));
        wire_printf(w, "HEAD %s HTTP/1.1\r\n" HOST "\r\n", targets[i]);
        cr_expect_eq(wire_read(w, false)->status, status, "%s", targets[i]);
        cr_expect_str_eq(wire_header(w, "Content-Length"), length, "%s", targets[i]);
        cr_expect_str_eq(wire_header(w, "Content-Type"), type, "%s", targets[i]);
    }
    wire_hang_up(&w);
}

Test(http, options_and_405_tell_the_methods)
{
    static const struct {
        const char *request;
        int status;
        const char *allow;
    } rows[] = {
        {ASK("OPTIONS", "/tasks"), 204, "GET, HEAD, POST, OPTIONS"},
        {ASK("OPTIONS", "/tasks/a"), 204, "GET, HEAD, PATCH, DELETE, OPTIONS"},
        {ASK("OPTIONS", "*"), 204, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
        {ASK("PUT", "/healthz"), 405, "GET, HEAD, OPTIONS"},
    };
    int port = http_start_plain();

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct wire *w = NULL;

        cr_expect_eq(wire_ask(port, rows[i].request, &w)->status, rows[i].status, "row %zu", i);
        cr_expect_str_eq(wire_header(w, "Allow"), rows[i].allow, "row %zu", i);
        wire_hang_up(&w);
    }
}

Test(http, good_requests_in_every_spelling_are_taken)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {POST("content-type: Application/JSON;charset=\"UTF-8\"\r\ncontent-length: 49\r\n", TASK), 201},
        {POST(JSON "Content-Encoding: identity\r\nContent-Length: 49\r\n", TASK), 201},
        {POST(JSON "Transfer-Encoding: chunked\r\n",
              "21\r\n{\"url\":\"http://127.0.0.1:9000/hoo\r\n10\r\nk\",\"delay\":\"1h\"}"
              "\r\n0\r\nX-Trailer: y\r\n\r\n"),
         201},
        {POST(JSON "Expect: 100-continue\r\nContent-Length: 49\r\n", ""), 100},
        {"GET /healthz HTTP/1.0\r\n\r\n", 200},
        {"GET http://elsewhere:1/healthz HTTP/1.1\r\n" HOST "\r\n", 200},
        {"GET /%68ealthz? HTTP/1.1\r\n" HOST "\r\n", 200},
        {"GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n {} ", 200},
        {"DELETE /tasks/none HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}", 404},
        {"\r\nGET /healthz HTTP/1.1\r\n" HOST "\r\n", 200},
    };
    int port = http_start_plain();

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(http_ask(port, rows[i].request), rows[i].status, "row %zu", i);
}

Test(http, pipelined_requests_are_answered_in_order)
{
    struct wire *w = wire_dial(http_start_plain());

    wire_puts(w, GET_HEALTH POST_TASK ASK("GET", "/nowhere") POST_TASK GET_HEALTH);
    cr_expect_eq(wire_read(w, true)->status, 200);
    cr_expect_eq(wire_read(w, true)->status, 201);
    cr_expect_eq(wire_read(w, true)->status, 404);
    cr_expect_eq(wire_read(w, true)->status, 201);
    cr_expect_eq(wire_read(w, true)->status, 200);
    wire_hang_up(&w);
}

Test(http, a_client_that_closed_its_half_gets_its_answer)
{
    int port = http_start_plain();

    store_fake_set_mode(http_store(), STORE_FAKE_HOLDS);
    for (int i = 0; i < 10; i++) {
        struct wire *w = wire_dial(port);

        store_fake_set_mode(http_store(), STORE_FAKE_HOLDS);
        wire_puts(w, POST_TASK);
        wire_half_close(w);
        WAIT_UNTIL(store_fake_count(http_store(), STORE_CREATE) == (size_t)i + 1, 2000);
        store_fake_set_mode(http_store(), STORE_FAKE_UP);
        cr_expect_eq(wire_read(w, true)->status, 201);
        cr_expect(wire_is_closed(w, 3000));
        wire_hang_up(&w);
    }
}

Test(http, half_a_body_stores_nothing_and_its_connection_ends)
{
    struct wire *w = wire_dial(http_start_plain());

    wire_puts(w, POST(JSON "Content-Length: 500\r\n", TASK));
    wire_half_close(w);
    cr_expect(wire_is_closed(w, 3000));
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 0);
    wire_hang_up(&w);
}

Test(http, a_client_that_leaves_while_the_store_works_harms_nobody)
{
    int port = http_start_plain();

    store_fake_set_mode(http_store(), STORE_FAKE_HOLDS);
    for (int i = 0; i < 20; i++) {
        struct wire *w = wire_dial(port);

        wire_puts(w, POST_TASK);
        if (i % 2 == 0) /* some leave at once, some when their operation is with the store */
            WAIT_UNTIL(store_fake_count(http_store(), STORE_CREATE) > (size_t)i / 2, 2000);
        wire_hang_up(&w);
    }
    store_fake_set_mode(http_store(), STORE_FAKE_UP);
    cr_expect_eq(http_ask(port, POST_TASK), 201);
}

/* ---- large bodies ---- */

static void post_bytes(struct wire *w, size_t n)
{
    char *pad = malloc(n);

    cr_assert_not_null(pad);
    memset(pad, ' ', n);
    memcpy(pad, TASK, strlen(TASK));
    wire_printf(w, "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n", n);
    (void)wire_try_send(w, pad, n);
    free(pad);
}

Test(http, nul_bytes_are_no_empty_body)
{
    static const char request[] = "DELETE /tasks/unknown HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n\0";
    struct wire *w = wire_dial(http_start_plain());

    cr_assert(wire_try_send(w, request, sizeof(request))); /* with the NUL that ends the text */
    http_expect_problem(w, wire_read(w, true), 400, "invalid_json");
    wire_hang_up(&w);
    cr_expect_eq(store_fake_count(http_store(), STORE_CANCEL), 0);
}

Test(http, a_body_at_the_limit_is_taken_and_one_byte_more_is_not)
{
    int port = http_start_plain();
    struct wire *w = wire_dial(port);
    const struct wire_answer *a = NULL;

    post_bytes(w, HTTP_MAX_BODY);
    cr_expect_eq(wire_read(w, true)->status, 201);
    post_bytes(w, HTTP_MAX_BODY + 1);
    a = wire_read(w, true);
    http_expect_problem(w, a, 413, "body_too_large");
    cr_expect_not_null(strstr(http_text(a, "detail"), "4096"));
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 1);
}

Test(http, a_large_declared_body_is_refused_before_it_comes)
{
    int port = http_start_plain();
    struct wire *w = wire_dial(port);

    wire_puts(w, POST(JSON "Content-Length: 1000000000\r\n", ""));
    http_expect_problem(w, wire_read(w, true), 413, "body_too_large");
    wire_hang_up(&w);
    w = wire_dial(port);
    wire_puts(w, POST(JSON "Expect: 100-continue\r\nContent-Length: 1000000000\r\n", ""));
    http_expect_problem(w, wire_read(w, true), 413, "body_too_large");
    cr_expect(wire_is_closed(w, 1000), "no 100 follows");
    wire_hang_up(&w);
}

Test(http, an_endless_chunked_body_is_refused_while_it_comes)
{
    struct wire *w = wire_dial(http_start_plain());
    char piece[65536];
    size_t sent = 0;

    memset(piece, 'x', sizeof(piece));
    wire_puts(w, POST(JSON "Transfer-Encoding: chunked\r\n", "10000000\r\n"));
    while (sent < 64 * sizeof(piece) && wire_try_send(w, piece, sizeof(piece)))
        sent += sizeof(piece);
    http_expect_problem(w, wire_read(w, true), 413, "body_too_large");
    cr_expect(wire_is_closed(w, 1000));
    WAIT_UNTIL(!wire_try_send(w, piece, sizeof(piece)), 10000); /* it is read away for two seconds, not for ever */
    wire_hang_up(&w);
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 0);
}

Test(http, expect_100_continue_is_answered_at_once)
{
    int port = http_start_plain();
    struct wire *w = wire_dial(port);

    wire_puts(w, POST(JSON "Expect: 100-continue\r\nContent-Length: 49\r\n", ""));
    cr_expect_eq(wire_read(w, true)->status, 100);
    wire_puts(w, TASK);
    cr_expect_eq(wire_read(w, true)->status, 201);
    wire_hang_up(&w);
    w = wire_dial(port);
    wire_puts(w, POST("Expect: 100-continue\r\nContent-Length: 49\r\n", ""));
    http_expect_problem(w, wire_read(w, true), 415, "unsupported_media_type");
    cr_expect(wire_is_closed(w, 1000), "a fault is told instead of 100");
    wire_hang_up(&w);
}
