/* What an attempt sends: the delivery contract on the wire. */
#include "../support/pool_fixture.h"
#include "base/clock.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct pool_fixture *f;
static struct task *t;

static void setup(void)
{
    f = pool_fixture_create(NULL);
    t = pool_fixture_task(f, NULL);
}

static void teardown(void)
{
    task_destroy(&t);
    pool_fixture_destroy(&f);
}

TestSuite(pool_request, .init = setup, .fini = teardown, .timeout = 60);

/* Send the task, which must arrive; the request. */
static const struct receiver_request *sent(void)
{
    int before = receiver_count(f->receiver);
    const struct webhook_result *result = pool_fixture_send(f, t);

    cr_assert_eq(result->status, 200, "%d %s", result->status, result->error);
    return receiver_request(f->receiver, before);
}

static void expect_header(const struct receiver_request *q, const char *name, const char *value)
{
    char text[512];

    cr_expect_eq(receiver_header_count(q, name), value != NULL, "%s in\n%s", name, q->bytes);
    cr_expect_str_eq(receiver_header(q, name, text, sizeof(text)), value != NULL ? value : "", "%s", name);
}

Test(pool_request, an_attempt_carries_its_id_number_queue_and_due_time)
{
    const struct receiver_request *q = sent();

    expect_header(q, "webhook-id", "task-1");
    expect_header(q, "Duepost-Attempt", "3");
    expect_header(q, "Duepost-Queue", "lane-1");
    expect_header(q, "Duepost-Due", "2025-11-30T18:00:00.123Z");
    expect_header(q, "User-Agent", "duepost/1.2.3");
    expect_header(q, "webhook-signature", NULL);
}

Test(pool_request, the_timestamp_is_the_time_of_the_attempt_by_the_clock_of_redis)
{
    char text[32];
    int64_t offset_us = INT64_C(2000000000) * 1000000 - clock_mono_us();

    cr_assert_eq(pool_start(f->pool, t, 1, offset_us, false, t), ERR_OK);
    pool_fixture_wait(f, 1);
    receiver_header(receiver_request(f->receiver, 0), "webhook-timestamp", text, sizeof(text));
    cr_expect(strcmp(text, "2000000000") == 0 || strcmp(text, "2000000001") == 0, "%s", text);
}

Test(pool_request, what_libcurl_or_a_browser_would_add_is_not_sent)
{
    const struct receiver_request *q = sent();

    expect_header(q, "Expect", NULL);
    expect_header(q, "Accept-Encoding", NULL);
    expect_header(q, "Cookie", NULL);
    expect_header(q, "Authorization", NULL);
    expect_header(q, "Content-Type", NULL);
    expect_header(q, "Content-Length", "0");
    expect_header(q, "Transfer-Encoding", NULL);
}

struct body_case {
    enum task_method method;
    enum task_body_kind kind;
    char line[32];
    char length[8]; /* "": no Content-Length */
    char type[32];  /* "": no Content-Type */
};

ParameterizedTestParameters(pool_request, each_method_and_kind_of_body_has_its_form)
{
    static struct body_case cases[] = {
        {TASK_METHOD_POST, TASK_BODY_NONE, "POST /hook HTTP/1.1\r\n", "0", ""},
        {TASK_METHOD_PUT, TASK_BODY_NONE, "PUT /hook HTTP/1.1\r\n", "0", ""},
        {TASK_METHOD_PATCH, TASK_BODY_NONE, "PATCH /hook HTTP/1.1\r\n", "0", ""},
        {TASK_METHOD_GET, TASK_BODY_NONE, "GET /hook HTTP/1.1\r\n", "", ""},
        {TASK_METHOD_DELETE, TASK_BODY_NONE, "DELETE /hook HTTP/1.1\r\n", "", ""},
        {TASK_METHOD_POST, TASK_BODY_PAYLOAD, "POST /hook HTTP/1.1\r\n", "5", "application/json"},
        {TASK_METHOD_PUT, TASK_BODY_PAYLOAD, "PUT /hook HTTP/1.1\r\n", "5", "application/json"},
        {TASK_METHOD_PATCH, TASK_BODY_PAYLOAD, "PATCH /hook HTTP/1.1\r\n", "5", "application/json"},
        {TASK_METHOD_GET, TASK_BODY_PAYLOAD, "GET /hook HTTP/1.1\r\n", "5", "application/json"},
        {TASK_METHOD_DELETE, TASK_BODY_PAYLOAD, "DELETE /hook HTTP/1.1\r\n", "5", "application/json"},
        {TASK_METHOD_POST, TASK_BODY_TEXT, "POST /hook HTTP/1.1\r\n", "5", "text/plain; charset=utf-8"},
        {TASK_METHOD_POST, TASK_BODY_BYTES, "POST /hook HTTP/1.1\r\n", "5", "application/octet-stream"},
    };

    return cr_make_param_array(struct body_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct body_case *c, pool_request, each_method_and_kind_of_body_has_its_form)
{
    const struct receiver_request *q = NULL;

    t->method = c->method;
    if (c->kind != TASK_BODY_NONE)
        pool_fixture_set_body(t, c->kind, "[1.10", 5);
    q = sent();
    cr_expect_eq(strncmp(q->bytes, c->line, strlen(c->line)), 0, "%s", q->bytes);
    expect_header(q, "Content-Length", c->length[0] != '\0' ? c->length : NULL);
    expect_header(q, "Content-Type", c->type[0] != '\0' ? c->type : NULL);
    cr_expect_str_eq(q->bytes + q->head_bytes, c->kind != TASK_BODY_NONE ? "[1.10" : "");
}

Test(pool_request, one_handle_sends_all_methods_in_turn_without_leftovers)
{
    static const enum task_method methods[] = {TASK_METHOD_PUT, TASK_METHOD_GET, TASK_METHOD_POST, TASK_METHOD_DELETE,
                                               TASK_METHOD_POST};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        bool has_body = i % 2 == 0;
        t->method = methods[i];
        pool_fixture_set_body(t, has_body ? TASK_BODY_TEXT : TASK_BODY_NONE, "abc", has_body ? 3 : 0);
        const struct receiver_request *q = sent();
        cr_expect_eq(strncmp(q->bytes, task_method_name(methods[i]), 3), 0, "%s", q->bytes);
        expect_header(q, "Content-Length", has_body ? "3" : NULL);
        expect_header(q, "Content-Type", has_body ? "text/plain; charset=utf-8" : NULL);
    }
    cr_expect_eq(receiver_connection_count(f->receiver), 1);
}

Test(pool_request, bytes_arrive_as_they_are)
{
    static const char body[] = "\0\xff\r\n\r\n\x1b{\"id\":12345678901234567890,\"x\":1.10}\0";
    const struct receiver_request *q = NULL;

    pool_fixture_set_body(t, TASK_BODY_BYTES, "", 0);
    free(t->body);
    t->body = malloc(sizeof(body));
    memcpy(t->body, body, sizeof(body));
    t->body_bytes = sizeof(body);
    q = sent();
    cr_assert_eq(q->bytes_count - q->head_bytes, sizeof(body));
    cr_expect_eq(memcmp(q->bytes + q->head_bytes, body, sizeof(body)), 0);
}

Test(pool_request, an_empty_text_is_a_body_with_its_type)
{
    pool_fixture_set_body(t, TASK_BODY_TEXT, "", 0);
    const struct receiver_request *q = sent();
    expect_header(q, "Content-Length", "0");
    expect_header(q, "Content-Type", "text/plain; charset=utf-8");
}

Test(pool_request, a_large_body_is_sent_whole_without_asking_first)
{
    size_t n = (size_t)3 * 1024 * 1024;
    char *body = malloc(n);

    memset(body, 'x', n);
    pool_fixture_set_body(t, TASK_BODY_TEXT, body, n);
    const struct receiver_request *q = sent();
    expect_header(q, "Expect", NULL);
    cr_assert_eq(q->bytes_count - q->head_bytes, n);
    cr_expect_eq(memcmp(q->bytes + q->head_bytes, body, n), 0);
    free(body);
}

Test(pool_request, the_tasks_headers_replace_the_defaults)
{
    pool_fixture_set_body(t, TASK_BODY_PAYLOAD, "{}", 2);
    pool_fixture_add_header(t, "content-type", "application/cloudevents+json");
    pool_fixture_add_header(t, "USER-AGENT", "shop/1");
    pool_fixture_add_header(t, "Accept", "text/html");
    pool_fixture_add_header(t, "X-Order", "  17 : 4;5  ");
    const struct receiver_request *q = sent();
    expect_header(q, "Content-Type", "application/cloudevents+json");
    expect_header(q, "User-Agent", "shop/1");
    expect_header(q, "Accept", "text/html");
    cr_expect_not_null(strstr(q->bytes, "\r\nX-Order:   17 : 4;5"), "%s", q->bytes);
}

Test(pool_request, a_header_with_an_empty_value_is_sent)
{
    pool_fixture_add_header(t, "X-Empty", "");
    pool_fixture_add_header(t, "X-Blank", "  ");
    pool_fixture_add_header(t, "X-After", "1");
    const struct receiver_request *q = sent();
    cr_expect_not_null(strstr(q->bytes, "\r\nX-Empty:\r\n"), "%s", q->bytes);
    cr_expect_not_null(strstr(q->bytes, "\r\nX-Blank:\r\n"), "%s", q->bytes);
    expect_header(q, "X-After", "1");
}

Test(pool_request, no_header_value_can_begin_a_new_line)
{
    pool_fixture_add_header(t, "X-A", "1\r\nX-Injected: 2\r\n\r\nGET /other HTTP/1.1");
    pool_fixture_add_header(t, "X-B\r\nX-Injected: 3", "\n");
    const struct receiver_request *q = sent();
    expect_header(q, "X-Injected", NULL);
    expect_header(q, "X-A", "1  X-Injected: 2    GET /other HTTP/1.1");
    cr_expect_eq(receiver_count(f->receiver), 1);
}

Test(pool_request, many_and_long_headers_arrive)
{
    char value[8001];
    char name[16];
    char text[sizeof(value)];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (int i = 0; i < 96; i++) {
        (void)snprintf(name, sizeof(name), "X-%d", i);
        pool_fixture_add_header(t, name, "small");
    }
    pool_fixture_add_header(t, "X-Long", value);
    const struct receiver_request *q = sent();
    cr_expect_str_eq(receiver_header(q, "X-Long", text, sizeof(text)), value);
    expect_header(q, "X-0", "small");
    expect_header(q, "X-95", "small");
    expect_header(q, "webhook-id", "task-1");
}

Test(pool_request, path_and_query_are_sent_as_given)
{
    char url[128];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/a/../b/./%%2e%%2E//c;d?x=1&y=%%20%%2F?z",
                   receiver_port(f->receiver));
    free(t->url);
    t->url = strdup(url);
    const struct receiver_request *q = sent();
    cr_expect_eq(strncmp(q->bytes, "POST /a/../b/./%2e%2E//c;d?x=1&y=%20%2F?z HTTP/1.1\r\n", 52), 0, "%s", q->bytes);
}

Test(pool_request, cookies_of_an_answer_are_not_sent_back)
{
    receiver_script_bytes(f->receiver, "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n");
    (void)sent();
    expect_header(sent(), "Cookie", NULL);
}

/* The environment and the files of a user must not change a delivery. */
Test(pool_request, proxies_and_netrc_of_the_environment_are_ignored)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    struct receiver *proxy = receiver_create();
    char home[] = "/tmp/duepost-netrc-XXXXXX";
    char path[64];
    FILE *netrc = NULL;

    cr_assert_not_null(mkdtemp(home));
    (void)snprintf(path, sizeof(path), "%s/.netrc", home);
    netrc = fopen(path, "w");
    cr_assert_not_null(netrc);
    cr_assert_geq(fputs("default login someone password secret\n", netrc), 0);
    cr_assert_eq(fclose(netrc), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_assert_eq(setenv(names[i], receiver_url(proxy), 1), 0);
    cr_assert_eq(setenv("HOME", home, 1), 0);

    expect_header(sent(), "Authorization", NULL);
    cr_expect_eq(receiver_connection_count(proxy), 0);
    receiver_destroy(&proxy);
    cr_expect_eq(unlink(path), 0);
    cr_expect_eq(rmdir(home), 0);
}

static void signed_setup(void)
{
    f = pool_fixture_create(&(struct pool_fixture_opts){.secrets = POOL_FIXTURE_SECRET "," POOL_FIXTURE_OTHER_SECRET});
    t = pool_fixture_task(f, NULL);
}

TestSuite(pool_signed, .init = signed_setup, .fini = teardown, .timeout = 60);

static void expect_signed_by(const struct receiver_request *q, const char *secret)
{
    struct signature_secrets one;
    char signature[256], timestamp[32];
    size_t bad = 0;

    cr_assert_eq(signature_secrets_parse(secret, &one, &bad), ERR_OK);
    receiver_header(q, "webhook-signature", signature, sizeof(signature));
    receiver_header(q, "webhook-timestamp", timestamp, sizeof(timestamp));
    cr_expect(signature_verify(&one, signature, "task-1", timestamp, q->bytes + q->head_bytes,
                               q->bytes_count - q->head_bytes),
              "%s", signature);
    signature_secrets_deinit(&one);
}

Test(pool_signed, the_signature_is_right_by_each_active_secret)
{
    pool_fixture_set_body(t, TASK_BODY_PAYLOAD, "{\"a\":1}", 7);
    const struct receiver_request *q = sent();
    expect_signed_by(q, POOL_FIXTURE_SECRET);
    expect_signed_by(q, POOL_FIXTURE_OTHER_SECRET);
    cr_expect_eq(receiver_header_count(q, "webhook-signature"), 1);
}

Test(pool_signed, an_empty_body_is_signed_too)
{
    expect_signed_by(sent(), POOL_FIXTURE_SECRET);
}
