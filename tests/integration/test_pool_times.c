/* Where the time of an attempt went, phase by phase, and which kind of failure it was. */
#include "../support/pool_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define SLOW_MS 120

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

TestSuite(pool_times, .init = setup, .fini = teardown, .timeout = 120);

static int64_t positive(int64_t us)
{
    return us > 0 ? us : 0;
}

static void expect_sum_within_total(const struct webhook_result *r)
{
    const struct task_phases *p = &r->phases;
    int64_t sum_us = positive(p->dns_us) + positive(p->connect_us) + positive(p->tls_us) + positive(p->first_byte_us);

    cr_expect_leq(sum_us, r->duration_us, "dns %lld, connect %lld, tls %lld, first byte %lld of %lld us",
                  (long long)p->dns_us, (long long)p->connect_us, (long long)p->tls_us, (long long)p->first_byte_us,
                  (long long)r->duration_us);
}

Test(pool_times, a_new_connection_has_all_phases_but_tls)
{
    const struct webhook_result *r = pool_fixture_send(f, t);

    cr_assert_eq(r->status, 200);
    cr_expect_eq(r->error_kind, TASK_ERROR_NONE);
    cr_expect_geq(r->phases.dns_us, 0);
    cr_expect_gt(r->phases.connect_us, 0);
    cr_expect_eq(r->phases.tls_us, TASK_TIME_NONE);
    cr_expect_gt(r->phases.first_byte_us, 0);
    expect_sum_within_total(r);
}

Test(pool_times, a_connection_used_before_has_only_the_answer)
{
    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    const struct webhook_result *r = pool_fixture_send(f, t);

    cr_assert_eq(receiver_connection_count(f->receiver), 1);
    cr_expect_eq(r->phases.dns_us, TASK_TIME_NONE);
    cr_expect_eq(r->phases.connect_us, TASK_TIME_NONE);
    cr_expect_eq(r->phases.tls_us, TASK_TIME_NONE);
    cr_expect_gt(r->phases.first_byte_us, 0);
    expect_sum_within_total(r);
}

Test(pool_times, many_attempts_on_old_and_new_connections_add_up)
{
    for (int i = 0; i < 200; i++)
        pool_fixture_start(f, t, i % 2 == 0);
    pool_fixture_wait(f, 200);
    for (int i = 0; i < 200; i++) {
        cr_expect_eq(f->results[i].status, 200);
        expect_sum_within_total(&f->results[i]);
    }
}

Test(pool_times, a_receiver_that_thinks_shows_in_the_first_byte_alone)
{
    const struct receiver_answer thinks = {
        .steps = {{.action = RECEIVER_PAUSE, .ms = SLOW_MS}, RECEIVER_SAY(OK_ANSWER)}};

    for (int i = 0; i < 2; i++) {
        const struct webhook_result *r = pool_fixture_answered(f, &thinks);
        cr_assert_eq(r->status, 200);
        cr_expect_geq(r->phases.first_byte_us, SLOW_MS * 1000, "on connection %s", i == 0 ? "new" : "old");
        expect_sum_within_total(r);
    }
}

Test(pool_times, a_receiver_that_reads_and_says_nothing_has_no_first_byte)
{
    receiver_script(f->receiver, &(struct receiver_answer){.steps = {{.action = RECEIVER_HANG}}});
    t->timeout_ms = 200;
    const struct webhook_result *r = pool_fixture_send(f, t);

    cr_expect_eq(r->error_kind, TASK_ERROR_TIMEOUT);
    cr_expect_gt(r->phases.connect_us, 0);
    cr_expect_eq(r->phases.first_byte_us, TASK_TIME_NONE);
    cr_expect_geq(r->duration_us, 200000);
    expect_sum_within_total(r);
}

/* --- kinds --- */

Test(pool_times, what_a_receiver_does_has_its_kind)
{
    static const struct {
        struct receiver_answer answer;
        enum task_error_kind kind;
    } rows[] = {
        {{.steps = {RECEIVER_SAY(OK_ANSWER)}}, TASK_ERROR_NONE},
        {{.steps = {RECEIVER_SAY("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")}}, TASK_ERROR_STATUS},
        {{.steps = {RECEIVER_SAY("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")}},
         TASK_ERROR_STATUS},
        {{.steps = {RECEIVER_SAY("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n"), {.action = RECEIVER_RESET}}},
         TASK_ERROR_STATUS},
        {{.steps = {{.action = RECEIVER_RESET}}}, TASK_ERROR_RESET},
        {{.steps = {{.action = RECEIVER_CLOSE}}}, TASK_ERROR_RESET},
        {{.steps = {RECEIVER_SAY("HTTP/1.1 200 OK\r\n"), {.action = RECEIVER_CLOSE}}}, TASK_ERROR_RESET},
        {{.steps = {RECEIVER_SAY("SSH-2.0-OpenSSH_9.2\r\n"), {.action = RECEIVER_CLOSE}}}, TASK_ERROR_PROTOCOL},
        {{.steps = {RECEIVER_SAY("HTTP/1.1 200 OK\r\n"), {.action = RECEIVER_FLOOD, .bytes = "X-Y: z\r\n"}}},
         TASK_ERROR_PROTOCOL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct webhook_result *r = pool_fixture_answered(f, &rows[i].answer);
        cr_expect_eq(r->error_kind, rows[i].kind, "row %zu: kind %d, status %d '%s'", i, (int)r->error_kind, r->status,
                     r->error);
        expect_sum_within_total(r);
    }
}
