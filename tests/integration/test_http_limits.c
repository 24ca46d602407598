#include "../support/http_fixture.h"
#include "base/clock.h"
#include "base/thread.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What does not depend on one request alone: tokens, the store's troubles, many connections, start and stop. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define WITH(TOKEN, METHOD, TARGET) METHOD " " TARGET " HTTP/1.1\r\n" HOST "Authorization: " TOKEN "\r\n\r\n"

TestSuite(http_limits, .init = http_set_up, .fini = http_tear_down);

/* ---- tokens ---- */

static int start_with_tokens(void)
{
    static const char *const tokens[] = {"sesame", "second", NULL};
    static const char *const read_tokens[] = {"reader", NULL};
    struct server_opts opts = http_opts();

    opts.tokens = tokens;
    opts.read_tokens = read_tokens;
    return http_start(&opts);
}

Test(http_limits, a_wrong_token_comes_before_any_other_fault)
{
    static const char *const requests[] = {
        ASK("GET", "/stats"),
        ASK("GET", "/nowhere"),
        ASK("GET", "/healthz/"),
        ASK("PUT", "/tasks"),
        ASK("OPTIONS", "/tasks"),
        ASK("OPTIONS", "*"),
        ASK("GET", "/stats?a=1"),
        ASK("GET", "/tasks/unknown"),
        POST("Content-Length: 1\r\n", "{"),
        POST(JSON "Expect: 200-ok\r\nContent-Length: 1\r\n", "{"),
        POST(JSON "Content-Length: 1000000000\r\n", ""),
        POST(JSON "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        WITH("Bearer wrong", "GET", "/stats"),
        WITH("Basic sesame", "GET", "/stats"),
        WITH("", "GET", "/stats"),
    };
    int port = start_with_tokens();

    for (size_t i = 0; i < COUNT(requests); i++) {
        struct wire *w = NULL;
        const struct wire_answer *a = wire_ask(port, requests[i], &w);

        http_expect_problem(w, a, 401, "unauthorized");
        cr_expect_str_eq(wire_header(w, "WWW-Authenticate"), "Bearer realm=\"duepost\"", "row %zu", i);
        wire_hang_up(&w);
    }
    cr_expect_eq(store_fake_count(http_store(), STORE_STATS), 0);
}

Test(http_limits, a_right_token_or_a_public_path_is_let_in)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {WITH("Bearer sesame", "GET", "/stats"), 200},
        {WITH("bearer second", "GET", "/stats"), 200},
        {WITH("Bearer sesame", "GET", "/nowhere"), 404},
        {ASK("GET", "/healthz"), 200},
        {ASK("GET", "/readyz"), 200},
        {ASK("HEAD", "/openapi.yaml"), 200},
        {ASK("OPTIONS", "/healthz"), 204},
        {ASK("PUT", "/healthz"), 405},
    };
    int port = start_with_tokens();

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(http_ask(port, rows[i].request), rows[i].status, "row %zu", i);
}

Test(http_limits, a_token_that_only_reads_changes_nothing)
{
    static const char *const refused[] = {
        WITH("Bearer reader", "DELETE", "/tasks/x"),
        WITH("Bearer reader", "PUT", "/tasks"),
        WITH("Bearer reader", "PATCH", "/nowhere"),
        WITH("Bearer reader", "get", "/stats"),
        POST(JSON "Authorization: Bearer reader\r\nContent-Length: 49\r\n", TASK),
        POST(JSON "Authorization: Bearer reader\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    };
    int port = start_with_tokens();

    for (size_t i = 0; i < COUNT(refused); i++) {
        struct wire *w = NULL;

        const struct wire_answer *a = wire_ask(port, refused[i], &w);
        http_expect_problem(w, a, 403, "forbidden");
        wire_hang_up(&w);
    }
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 0);
    cr_expect_eq(store_fake_count(http_store(), STORE_CANCEL), 0);
    cr_expect_eq(http_ask(port, WITH("Bearer reader", "GET", "/stats")), 200);
    cr_expect_eq(http_ask(port, WITH("Bearer reader", "GET", "/tasks/x")), 404);
    cr_expect_eq(http_ask(port, WITH("Bearer reader", "PUT", "/healthz")), 405);
}

/* ---- the calls for operators, and a store in trouble ---- */

Test(http_limits, the_contract_is_served_as_it_is)
{
    struct wire *w = NULL;
    const struct wire_answer *a = wire_ask(http_start_plain(), ASK("GET", "/openapi.yaml"), &w);

    cr_expect_str_eq(a->body, "openapi: 3.1.0\n");
    cr_expect_str_eq(wire_header(w, "Content-Type"), "application/yaml");
    wire_hang_up(&w);
}

Test(http_limits, stats_join_the_store_and_the_process)
{
    static const char *const members[] = {"version",     "now",   "uptime_ms", "tasks", "totals",
                                          "lateness_ms", "mover", "workers",   "redis", "queues"};
    int port = http_start_plain();
    struct wire *w = NULL;
    const struct wire_answer *a = NULL;
    const json_t *queue = NULL;

    cr_assert_eq(http_ask(port, POST_TASK), 201);
    a = wire_ask(port, ASK("GET", "/stats"), &w);
    cr_assert_eq(a->status, 200);
    for (size_t i = 0; i < COUNT(members); i++)
        cr_expect_not_null(json_object_get(a->json, members[i]), "%s", members[i]);
    cr_expect_eq(json_object_size(a->json), COUNT(members));
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(a->json, "tasks"), "scheduled")), 1);
    cr_expect(json_is_null(json_object_get(json_object_get(a->json, "tasks"), "oldest_overdue_ms")));
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(a->json, "totals"), "created")), 1);
    cr_expect(json_is_true(json_object_get(json_object_get(a->json, "redis"), "up")));
    cr_expect_eq(json_real_value(json_object_get(json_object_get(a->json, "redis"), "rtt_ms")), 0.125);
    queue = json_object_get(json_object_get(a->json, "queues"), "default");
    cr_expect_eq(json_integer_value(json_object_get(queue, "scheduled")), 1);
    cr_expect(json_is_false(json_object_get(queue, "paused")));
    wire_hang_up(&w);
}

Test(http_limits, without_a_store_stats_answer_within_a_second_with_nulls)
{
    int port = http_start_plain();
    int64_t start_ms = wait_mono_ms();
    struct wire *w = NULL;
    const struct wire_answer *a = NULL;

    store_fake_set_mode(http_store(), STORE_FAKE_DOWN);
    a = wire_ask(port, ASK("GET", "/stats"), &w);
    cr_expect_lt(wait_mono_ms() - start_ms, wait_scaled_ms(1000));
    cr_expect_eq(a->status, 200);
    cr_expect(json_is_false(json_object_get(json_object_get(a->json, "redis"), "up")));
    cr_expect(json_is_null(json_object_get(json_object_get(a->json, "redis"), "version")));
    cr_expect(json_is_null(json_object_get(a->json, "tasks")));
    cr_expect(json_is_null(json_object_get(a->json, "totals")));
    cr_expect(json_is_null(json_object_get(a->json, "queues")));
    cr_expect_str_eq(http_text(a, "version"), "0.0.1");
    wire_hang_up(&w);
}

Test(http_limits, readiness_needs_the_store_and_the_rest_of_the_process)
{
    static const struct {
        enum store_fake_mode mode;
        const char *unready;
        int status;
        size_t reasons;
    } rows[] = {
        {STORE_FAKE_UP, "", 200, 0},
        {STORE_FAKE_UP, "\"a\",\"b\"", 503, 2},
        {STORE_FAKE_BROKEN, "", 503, 1},
        {STORE_FAKE_BROKEN, "\"a\"", 503, 2},
    };
    int port = http_start_plain();

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct wire *w = NULL;
        const struct wire_answer *a = NULL;

        store_fake_set_mode(http_store(), rows[i].mode);
        http_set_unready(rows[i].unready);
        a = wire_ask(port, ASK("GET", "/readyz"), &w);
        cr_expect_eq(a->status, rows[i].status, "row %zu", i);
        cr_expect_str_eq(http_text(a, "status"), rows[i].status == 200 ? "ready" : "unready", "row %zu", i);
        cr_expect_eq(json_array_size(json_object_get(a->json, "reasons")), rows[i].reasons, "row %zu", i);
        cr_expect_eq(wire_header(w, "Retry-After") != NULL, rows[i].status == 503, "row %zu", i);
        cr_expect_str_eq(wire_header(w, "Content-Type"), "application/json", "row %zu", i);
        wire_hang_up(&w);
    }
}

Test(http_limits, without_a_store_every_call_answers_within_two_seconds_and_the_process_lives)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {POST_TASK, 503},
        {ASK("GET", "/tasks/a"), 503},
        {ASK("DELETE", "/tasks/a"), 503},
        {ASK("GET", "/readyz"), 503},
        {ASK("GET", "/healthz"), 200},
    };
    int port = http_start_plain();
    int64_t start_ms = wait_mono_ms();
    struct wire *wires[COUNT(rows)];

    store_fake_set_mode(http_store(), STORE_FAKE_DOWN);
    for (size_t i = 0; i < COUNT(rows); i++) {
        wires[i] = wire_dial(port);
        wire_puts(wires[i], rows[i].request);
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct wire_answer *a = wire_read(wires[i], true);

        cr_expect_eq(a->status, rows[i].status, "row %zu: %s", i, a->body);
        cr_expect_lt(wait_mono_ms() - start_ms, wait_scaled_ms(2000), "row %zu", i);
        if (i < 3)
            http_expect_problem(wires[i], a, 503, "store_unavailable");
        wire_hang_up(&wires[i]);
    }
    store_fake_set_mode(http_store(), STORE_FAKE_UP);
    cr_expect_eq(http_ask(port, POST_TASK), 201, "all is well again");
}

Test(http_limits, an_error_nobody_expected_is_a_500_without_details)
{
    static const char *const requests[] = {POST_TASK, ASK("GET", "/tasks/a"), ASK("DELETE", "/tasks/a")};
    int port = http_start_plain();

    store_fake_set_mode(http_store(), STORE_FAKE_BROKEN);
    for (size_t i = 0; i < COUNT(requests); i++) {
        struct wire *w = NULL;

        const struct wire_answer *a = wire_ask(port, requests[i], &w);
        http_expect_problem(w, a, 500, "internal");
        wire_hang_up(&w);
    }
}

/* ---- connections ---- */

Test(http_limits, all_of_many_clients_at_once_are_answered)
{
    static const int counts[] = {64, 128, 256, 512};
    int port = http_start_plain();
    struct wire *wires[512];
    size_t expected = 0;

    for (size_t row = 0; row < COUNT(counts); row++) {
        store_fake_set_mode(http_store(), STORE_FAKE_HOLDS);
        for (int i = 0; i < counts[row]; i++) {
            wires[i] = wire_dial(port);
            wire_puts(wires[i], POST_TASK);
        }
        expected += (size_t)counts[row];
        WAIT_UNTIL(store_fake_count(http_store(), STORE_CREATE) == expected, 1500);
        store_fake_set_mode(http_store(), STORE_FAKE_UP);
        for (int i = 0; i < counts[row]; i++) {
            cr_expect_eq(wire_read(wires[i], true)->status, 201, "%d of %d", i, counts[row]);
            wire_hang_up(&wires[i]);
        }
    }
}

Test(http_limits, one_connection_too_many_is_told_so_until_another_ends)
{
    struct server_opts opts = http_opts();
    struct wire *kept[3];
    struct wire *w = NULL;
    int port = 0;

    opts.connection_max = COUNT(kept);
    port = http_start(&opts);
    for (size_t i = 0; i < COUNT(kept); i++)
        cr_assert_eq(wire_ask(port, GET_HEALTH, &kept[i])->status, 200);
    for (int i = 0; i < 200; i++) { /* more than the library would ever accept at once */
        w = NULL;
        const struct wire_answer *a = wire_ask(port, GET_HEALTH, &w);
        http_expect_problem(w, a, 503, "too_many_connections");
        cr_expect(wire_is_closed(w, 1000));
        wire_hang_up(&w);
    }
    wire_puts(kept[1], GET_HEALTH);
    cr_expect_eq(wire_read(kept[1], true)->status, 200, "the others are not disturbed");
    wire_hang_up(&kept[0]);
    WAIT_UNTIL(http_ask(port, GET_HEALTH) == 200, 3000);
    wire_hang_up(&kept[1]);
    wire_hang_up(&kept[2]);
}

/* ---- start and stop ---- */

Test(http_limits, an_address_that_cannot_be_used_is_one_line)
{
    struct server_opts opts = http_opts();
    static const struct {
        const char *host;
        bool is_taken;
    } rows[] = {{"127.0.0.1", true}, {"192.0.2.1", false}, {"no such host", false}};
    int port = http_start_plain();

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct server *second = NULL;
        char detail[SERVER_DETAIL_SIZE];

        opts.host = rows[i].host;
        opts.port = rows[i].is_taken ? port : 0;
        cr_expect_eq(server_create(&opts, &second, detail), ERR_IO, "row %zu", i);
        cr_expect_null(second, "row %zu", i);
        cr_expect_not_null(strstr(detail, rows[i].host), "%s", detail);
        cr_expect_null(strchr(detail, '\n'));
    }
}

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    bool result = fd != -1 && bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;

    if (fd != -1)
        (void)close(fd);
    return result;
}

Test(http_limits, every_kind_of_address_can_be_listened_on)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "0.0.0.0", "::"};
    struct server_opts opts = http_opts();

    for (size_t i = 0; i < COUNT(hosts); i++) {
        if (strcmp(hosts[i], "::") == 0 && !has_ipv6())
            continue;
        opts.host = hosts[i];
        cr_expect_eq(http_ask(http_start(&opts), GET_HEALTH), 200, "%s", hosts[i]);
        http_stop(clock_mono_ms());
    }
}

struct stopping {
    int64_t deadline_mono_ms;
    atomic_bool is_done;
};

static void stop(void *ctx)
{
    struct stopping *s = ctx;

    http_stop(s->deadline_mono_ms);
    atomic_store(&s->is_done, true);
}

Test(http_limits, stopping_finishes_what_is_under_way_and_refuses_the_rest)
{
    int port = http_start_plain();
    struct stopping s = {.deadline_mono_ms = clock_mono_ms() + 20000};
    struct thread *t = NULL;
    struct wire *waiting[20];
    struct wire *uploading = wire_dial(port);
    struct wire *idle = NULL;
    struct wire *late = NULL;

    cr_assert_eq(wire_ask(port, GET_HEALTH, &idle)->status, 200);
    cr_assert_eq(wire_ask(port, GET_HEALTH, &late)->status, 200);
    wire_puts(uploading, POST(JSON "Expect: 100-continue\r\nContent-Length: 49\r\n", ""));
    cr_assert_eq(wire_read(uploading, true)->status, 100);
    store_fake_set_mode(http_store(), STORE_FAKE_HOLDS);
    for (size_t i = 0; i < COUNT(waiting); i++) {
        waiting[i] = wire_dial(port);
        wire_puts(waiting[i], POST_TASK);
    }
    WAIT_UNTIL(store_fake_count(http_store(), STORE_CREATE) == COUNT(waiting), 2000);
    cr_assert_eq(thread_start("stop", stop, &s, &t), ERR_OK);
    WAIT_UNTIL(wire_is_refused(port), 2000);
    wire_puts(late, POST_TASK);
    http_expect_problem(late, wire_read(late, true), 503, "shutting_down");
    cr_expect(wire_is_closed(late, 1000));
    cr_expect_not(atomic_load(&s.is_done));
    wire_puts(uploading, TASK);
    store_fake_set_mode(http_store(), STORE_FAKE_UP);
    cr_expect_eq(wire_read(uploading, true)->status, 201);
    for (size_t i = 0; i < COUNT(waiting); i++)
        cr_expect_eq(wire_read(waiting[i], true)->status, 201, "client %zu", i);
    thread_join(&t);
    cr_expect_lt(clock_mono_ms(), s.deadline_mono_ms, "it does not wait for nothing");
    cr_expect(wire_is_closed(idle, 1000));
    for (size_t i = 0; i < COUNT(waiting); i++)
        wire_hang_up(&waiting[i]);
    wire_hang_up(&uploading);
    wire_hang_up(&idle);
    wire_hang_up(&late);
}

Test(http_limits, stopping_without_a_store_ends_soon_after_its_deadline)
{
    int port = http_start_plain();
    int64_t start_ms = wait_mono_ms();
    struct wire *waiting[20];
    struct wire *half = wire_dial(port);

    store_fake_set_mode(http_store(), STORE_FAKE_DOWN);
    wire_puts(half, POST(JSON "Content-Length: 49\r\n", "{"));
    for (size_t i = 0; i < COUNT(waiting); i++) {
        waiting[i] = wire_dial(port);
        wire_puts(waiting[i], POST_TASK);
    }
    WAIT_UNTIL(store_fake_count(http_store(), STORE_CREATE) == COUNT(waiting), 2000);
    http_stop(clock_mono_ms() + 100);
    cr_expect_lt(wait_mono_ms() - start_ms, wait_scaled_ms(2500));
    for (size_t i = 0; i < COUNT(waiting); i++) {
        http_expect_problem(waiting[i], wire_read(waiting[i], true), 503, "store_unavailable");
        wire_hang_up(&waiting[i]);
    }
    cr_expect(wire_is_closed(half, 1000));
    wire_hang_up(&half);
}
