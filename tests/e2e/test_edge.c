/* What reaches a listener that anyone can talk to: odd JSON, odd HTTP, odd times. Each is one row of a table or one
 * sentence; the real binary answers. How single members are refused is in test_requests.c, the framing of requests in
 * tests/integration/test_http.c. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include "../support/wire.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define ARRIVE_MS 10000
#define LIMIT_BYTES 1048576
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define HOST "Host: x\r\n"
#define JSON "Content-Type: application/json\r\n"
#define TASK "{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}"

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(edge, .init = setup, .fini = teardown, .timeout = 300);

static int port(void)
{
    return (int)strtol(strrchr(w->gateway->url, ':') + 1, NULL, 10);
}

static json_int_t created(void)
{
    return json_integer_at(client_get(w->api, "/stats")->json, "totals.created");
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

/* `members` stand beside a good url. */
static void expect_refused(const char *members)
{
    const struct reply *r = client_post_task(w->api, "{\"url\":\"http://127.0.0.1:9/\",%s}", members);

    cr_expect_eq(r->status, 400, "%.80s: %d %.200s", members, r->status, r->body);
    cr_expect_not_null(r->json, "%.80s: the problem is no JSON: %.200s", members, r->body);
}

Test(edge, text_that_is_no_utf8_is_refused_wherever_it_stands)
{
    static const char *const rows[] = {
        "\"payload\":\"\\udc00\"",
        "\"payload\":\"\\ud800x\"",
        "\"payload\":\"\\ud800\\ud800\"",
        "\"payload\":{\"\\ud800\":1}",
        "\"payload\":\"\xc0\xaf\"",
        "\"payload\":\"\xf4\x90\x80\x80\"",
        "\"payload\":\"\xe2\x82\"",
        "\"body\":\"\xc3\x28\"",
        "\"headers\":{\"X\":\"\xc3\x28\"}",
        "\"headers\":{\"X\":\"\\ud800\"}",
        "\"headers\":{\"\xed\xa0\x80\":\"1\"}",
        "\"queue\":\"\xc0\xaf\"",
        "\"id\":\"\xc3\x28\"",
        "\"\xed\xa0\x80\":1",
        "\"\\udc00\":1",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i]);
    cr_expect_eq(created(), 0);
}

Test(edge, numbers_that_no_double_holds_are_refused_wherever_they_stand)
{
    static const char *const rows[] = {
        "\"payload\":[1e400]",
        "\"payload\":{\"a\":{\"b\":-1e999}}",
        "\"payload\":Infinity",
        "\"payload\":[nan]",
        "\"delay\":1e400",
        "\"delay\":1e308",
        "\"delay\":100000000000000000000",
        "\"run_at\":1e400",
        "\"run_at\":9223372036854775807",
        "\"run_at\":-1",
        "\"retry\":{\"multiplier\":1e308}",
        "\"retry\":{\"multiplier\":1e400}",
        "\"retry\":{\"jitter\":NaN}",
        "\"retry\":{\"max_attempts\":1000000000}",
        "\"retry\":{\"max_attempts\":18446744073709551617}",
        "\"retry\":{\"schedule\":[9223372036854775808]}",
        "\"timeout\":1e400",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i]);
    cr_expect_eq(created(), 0);
}

static void expect_deep_refused(const char *before, const char *after)
{
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 200);
    size_t n = strlen(before);

    memcpy(text, before, n);
    memset(text + n, '[', DEPTH);
    memset(text + n + DEPTH, ']', DEPTH);
    (void)snprintf(text + n + 2 * DEPTH, 100, "%s", after);
    expect_refused(text);
    text[n + DEPTH] = '\0'; /* and when it does not end */
    expect_refused(text);
    free(text);
}

Test(edge, deep_nesting_is_refused_wherever_it_stands)
{
    expect_deep_refused("\"payload\":", "");
    expect_deep_refused("\"headers\":{\"X\":", "}");
    expect_deep_refused("\"headers\":", "");
    expect_deep_refused("\"retry\":{\"schedule\":", "}");
    expect_deep_refused("\"nobody\":", "");
    cr_expect_eq(created(), 0);
}

Test(edge, digits_and_escapes_of_a_payload_arrive_as_they_were_on_every_attempt)
{
    static const char *const payloads[] = {
        "{\"id\":15947634569000323,\"f\":0.1234567890123456}",
        "{\"p\":0.1,\"q\":1e2,\"r\":1.0,\"u\":\"a\\/b\",\"e\":\"\\u00e9\",\"s\":\"\\ud83d\\ude00\"}",
        "[ -0, -0.0, 1E+2, 123456789012345678901234567890.10 ]",
        "\"\\u0000\\u001f \\\\ \\\"\"",
        "null",
        "\"\xf0\x9f\x98\x80\"",
    };

    for (size_t i = 0; i < COUNT(payloads); i++) {
        char path[16];
        (void)snprintf(path, sizeof(path), "/raw-%zu", i);
        SINK_SCRIPT(w->sink, path, {.status = 500}, {.status = 200});
        const struct reply *r =
            client_post_task(w->api, "{\"url\":\"%s\",\"payload\":  %s  ,\"retry\":{\"initial\":1,\"max\":1}}",
                             sink_url(w->sink, path), payloads[i]);
        cr_assert_eq(r->status, 201, "%s: %s", payloads[i], r->body);
        for (size_t attempt = 1; attempt <= 2; attempt++)
            cr_expect_str_eq(sink_wait(w->sink, path, attempt, ARRIVE_MS)->body, payloads[i]);
    }
}

/* --- HTTP ------------------------------------------------------------------------------------------------------- */

Test(edge, unusual_methods_and_targets_change_nothing)
{
    static const struct {
        const char *line;
        int status;
        const char *allow; /* NULL: none */
    } rows[] = {
        {"post /tasks", 405, "GET, HEAD, POST, OPTIONS"},
        {"GeT /stats", 405, "GET, HEAD, OPTIONS"},
        {"PUT /tasks", 405, "GET, HEAD, POST, OPTIONS"},
        {"DELETE /tasks", 405, "GET, HEAD, POST, OPTIONS"},
        {"POST /tasks/a", 405, "GET, HEAD, PATCH, DELETE, OPTIONS"},
        {"PATCH /stats", 405, "GET, HEAD, OPTIONS"},
        {"TRACE /stats", 405, "GET, HEAD, OPTIONS"},
        {"TRACE /", 404, NULL},
        {"CONNECT /tasks", 405, "GET, HEAD, POST, OPTIONS"},
        {"OPTIONS *", 204, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
        {"OPTIONS /tasks", 204, "GET, HEAD, POST, OPTIONS"},
        {"GET *", 405, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
        {"DELETE /tasks/a%00b", 404, NULL},
        {"DELETE /tasks/a%2", 404, NULL},
        {"DELETE /tasks/%61", 204, NULL}, /* the same as /tasks/a: it is there */
        {"DELETE //tasks/b", 404, NULL},
        {"DELETE /tasks/../tasks/b", 404, NULL},
        {"DELETE /tasks/b/", 404, NULL},
        {"DELETE /tasks/b%2f", 404, NULL},
        {"DELETE /tasks/B", 404, NULL},
        {"DELETE http://x/tasks/nobody", 404, NULL},
    };

    cr_assert_eq(client_post_task(w->api, "{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}")->status,
                 201);
    cr_assert_eq(client_post_task(w->api, "{\"id\":\"b\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}")->status,
                 201);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct wire *wire = wire_dial(port());
        wire_printf(wire, "%s HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", rows[i].line);
        const struct wire_answer *a = wire_read(wire, true);
        cr_expect_eq(a->status, rows[i].status, "%s: %d %s", rows[i].line, a->status, a->body);
        const char *allow = wire_header(wire, "Allow");
        cr_expect((!allow && !rows[i].allow) || (allow && rows[i].allow && strcmp(allow, rows[i].allow) == 0),
                  "%s: Allow is %s", rows[i].line, allow ? allow : "missing");
        wire_hang_up(&wire);
    }
    cr_expect_eq(created(), 2);
    cr_expect_str_eq(json_text_at(client_get_task(w->api, "b")->json, "state"), "scheduled");
}

Test(edge, head_is_get_without_its_body)
{
    static const char *const paths[] = {"/tasks/a", "/tasks/nobody", "/healthz",
                                        "/readyz",  "/openapi.yaml", "/nowhere"};

    cr_assert_eq(client_post_task(w->api, "{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}")->status,
                 201);
    for (size_t i = 0; i < COUNT(paths); i++) {
        const struct reply *get = client_get(w->api, paths[i]);
        const struct reply *head = client_request(w->api, &(struct client_request){.method = "HEAD", .path = paths[i]});
        cr_expect_eq(head->status, get->status, "%s", paths[i]);
        cr_expect_eq(head->body_bytes, 0, "%s", paths[i]);
        cr_expect_str_eq(reply_header(head, "content-length"), reply_header(get, "content-length"), "%s", paths[i]);
        cr_expect_str_eq(reply_header(head, "content-type"), reply_header(get, "content-type"), "%s", paths[i]);
    }
}

Test(edge, a_body_must_say_that_it_is_json)
{
    static const char *const headers[] = {"", "Content-Type:\r\n", "Content-Type: text/json\r\n",
                                          "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
                                          "Content-Type: application/json\r\nContent-Type: application/json\r\n"};

    for (size_t i = 0; i < COUNT(headers); i++) {
        struct wire *wire = wire_dial(port());
        wire_printf(wire, "POST /tasks HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n%s\r\n" TASK, strlen(TASK),
                    headers[i]);
        cr_expect_eq(wire_read(wire, true)->status, 415, "%s", headers[i]);
        wire_hang_up(&wire);
    }
    cr_expect_eq(created(), 0);
}

/* Bytes behind a body are a next request, and these are none. */
Test(edge, what_follows_a_body_is_never_taken_for_a_part_of_it)
{
    struct wire *wire = wire_dial(port());
    char *rest = malloc(LIMIT_BYTES + 1);

    memset(rest, '{', LIMIT_BYTES);
    rest[LIMIT_BYTES] = '\0';
    wire_printf(wire, "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n" TASK, strlen(TASK));
    (void)wire_try_send(wire, rest, LIMIT_BYTES);
    cr_expect_eq(wire_read(wire, true)->status, 201);
    (void)wire_try_send(wire, rest, LIMIT_BYTES);
    WAIT_UNTIL(!wire_try_send(wire, rest, 1), ARRIVE_MS);
    wire_hang_up(&wire);
    free(rest);
    cr_expect_eq(created(), 1);
}

static long gateway_kib(const char *field)
{
    char path[64], line[256];
    long kib = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)proc_pid(w->gateway->proc));
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtol(line + strlen(field), NULL, 10);
    }
    cr_assert_eq(fclose(f), 0);
    return kib;
}

Test(edge, endless_bodies_take_no_memory_beyond_the_limit)
{
    enum { CLIENTS = 20, PIECES = 48, PIECE = 65536 };
    struct wire *wires[CLIENTS];
    char *piece = malloc(PIECE);
    long before_kib = gateway_kib("Private_Dirty:");

    memset(piece, 'x', PIECE);
    for (size_t i = 0; i < CLIENTS; i++) {
        wires[i] = wire_dial(port());
        wire_puts(wires[i], "POST /tasks HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n10000000\r\n");
    }
    for (size_t n = 0; n < PIECES; n++)
        for (size_t i = 0; i < CLIENTS; i++)
            (void)wire_try_send(wires[i], piece, PIECE);
    for (size_t i = 0; i < CLIENTS; i++) {
        cr_expect_eq(wire_read(wires[i], true)->status, 413);
        wire_hang_up(&wires[i]);
    }
    long growth_kib = gateway_kib("Private_Dirty:") - before_kib;
    if (wait_scaled_ms(1) == 1) /* a sanitizer's allocator keeps what was freed */
        cr_expect_lt(growth_kib, CLIENTS * LIMIT_BYTES / 1024, "%ld KiB more", growth_kib);
    free(piece);
    cr_expect_eq(created(), 0);
    cr_expect_eq(client_get(w->api, "/readyz")->status, 200);
}

Test(edge, thousands_of_connections_are_all_served)
{
    struct rlimit files;
    size_t count = 2000;
    struct wire **wires = calloc(count, sizeof(*wires));

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < count + 500)
        count = files.rlim_max / 4;
    for (size_t i = 0; i < count; i++)
        wires[i] = wire_dial(port());
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++)
            wire_printf(wires[i], "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n" TASK,
                        strlen(TASK));
        for (size_t i = 0; i < count; i++)
            cr_assert_eq(wire_read(wires[i], true)->status, 201, "connection %zu, request %d", i, round);
    }
    cr_expect_eq(created(), (json_int_t)(3 * count));
    for (size_t i = 0; i < count; i++)
        wire_hang_up(&wires[i]);
    free(wires);
    cr_expect_eq(client_get(w->api, "/readyz")->status, 200);
}

/* --- times ------------------------------------------------------------------------------------------------------ */

Test(edge, the_gateways_own_zone_changes_no_time)
{
    static const struct {
        const char *given, *shown;
    } rows[] = {
        {"2035-01-01T00:00:00+05:30", "2034-12-31T18:30:00.000Z"},
        {"2034-12-31T18:30:00Z", "2034-12-31T18:30:00.000Z"},
        {"2035-03-11T02:30:00-05:00", "2035-03-11T07:30:00.000Z"}, /* an hour that New York skips */
        {"2035-11-04T01:30:00-04:00", "2035-11-04T05:30:00.000Z"}, /* and one it has twice */
        {"2035-11-04T01:30:00-05:00", "2035-11-04T06:30:00.000Z"},
        {"2036-02-29T23:59:59.9999+14:00", "2036-02-29T10:00:00.000Z"},
        {"2035-06-30T23:59:60Z", "2035-07-01T00:00:00.000Z"}, /* a leap second is the next second */
        {"2035-12-31T15:59:60-08:00", "2036-01-01T00:00:00.000Z"},
    };
    static const char *const zones[] = {"TZ=Asia/Kolkata", "TZ=America/New_York", "TZ=Pacific/Kiritimati"};

    for (size_t z = 0; z < COUNT(zones); z++) {
        const char *const env[] = {zones[z], NULL};
        struct gateway *g = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(w->redis), .env = env});
        for (size_t i = 0; i < COUNT(rows); i++) {
            const struct reply *r =
                client_post_task(g->api, "{\"url\":\"http://127.0.0.1:9/\",\"run_at\":\"%s\"}", rows[i].given);
            cr_assert_eq(r->status, 201, "%s", r->body);
            const struct reply *get = client_get_task(g->api, json_text_at(r->json, "id"));
            cr_expect_str_eq(json_text_at(get->json, "run_at"), rows[i].shown, "%s in %s", rows[i].given, zones[z]);
        }
        gateway_destroy(&g);
    }
}

Test(edge, what_became_overdue_without_a_gateway_is_delivered_at_its_start)
{
    cr_assert_eq(client_post_task(w->api, "{\"url\":\"%s\",\"delay\":300}", sink_url(w->sink, "/overdue"))->status,
                 201);
    gateway_kill(w->gateway);
    gateway_destroy(&w->gateway);
    long long due_ms = wait_wall_ms() + 500;
    WAIT_UNTIL(wait_wall_ms() > due_ms, ARRIVE_MS);
    cr_assert_eq(sink_count(w->sink, "/overdue"), 0);
    w->gateway = gateway_run(redis_fixture_url(w->redis), NULL);
    w->api = w->gateway->api;
    sink_wait(w->sink, "/overdue", 1, 3000); /* nothing else is asked of it meanwhile */
}

Test(edge, lost_connections_before_the_due_time_make_nothing_late)
{
    int64_t due_us = 0, next_cut_ms = wait_mono_ms() + 500;
    const struct reply *r = client_post_task(w->api, "{\"url\":\"%s\",\"delay\":2500}", sink_url(w->sink, "/cut"));

    cr_assert_eq(r->status, 201);
    due_us = json_time_at(r->json, "run_at") * 1000;
    for (int i = 0; i < 3; i++, next_cut_ms += 600) {
        WAIT_UNTIL(wait_mono_ms() >= next_cut_ms, ARRIVE_MS);
        redis_fixture_run(w->redis, "CLIENT KILL TYPE normal SKIPME yes");
    }
    int64_t late_us = sink_wait(w->sink, "/cut", 1, ARRIVE_MS)->arrived_us - due_us;
    cr_expect(late_us >= 0 && late_us < wait_scaled_ms(1000) * 1000, "%lld us late", (long long)late_us);
}
