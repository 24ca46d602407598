/* Failures that come together, receivers that come back, and tasks that die: what people met with systems like this
 * one. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/receiver.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 20000

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(cases_retry, .init = setup, .fini = teardown, .timeout = 300);

static void restart(const char *flag, const char *value)
{
    gateway_destroy(&gateway);
    gateway = gateway_run(redis_fixture_url(redis), flag, value, NULL);
}

static void post(const char *id, const char *url, const char *more)
{
    const struct reply *r = client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, url, more);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static void post_numbered(const char *prefix, int number, const char *path, const char *more)
{
    char id[48];

    (void)snprintf(id, sizeof(id), "%s-%d", prefix, number);
    post(id, sink_url(sink, path), more);
}

static json_int_t stat(const char *path)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, path);
}

/* When the n-th request of a task came, in us; fails the test when it did not. */
static int64_t arrival_us(const char *path, const char *id, const char *attempt)
{
    for (size_t n = 1; n <= sink_count(sink, path); n++) {
        const struct sink_request *r = sink_wait(sink, path, n, 1);
        if (strcmp(sink_header(r, "webhook-id"), id) == 0 && strcmp(sink_header(r, "duepost-attempt"), attempt) == 0)
            return r->arrived_us;
    }
    cr_assert_fail("%s came no %s. time", id, attempt);
    return 0;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

Test(cases_retry, tasks_that_fail_together_come_again_apart_and_never_too_early)
{
    enum { TASKS = 200 };
    int64_t second_us[TASKS];

    SINK_SCRIPT(sink, "/together", {.status = 500});
    for (int i = 0; i < TASKS; i++)
        post_numbered("t", i, "/together", ",\"retry\":{\"max_attempts\":2,\"initial\":\"1s\",\"jitter\":1}");
    (void)sink_wait(sink, "/together", (size_t)2 * TASKS, ARRIVE_MS);
    for (int i = 0; i < TASKS; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "t-%d", i);
        int64_t first_us = arrival_us("/together", id, "1");
        second_us[i] = arrival_us("/together", id, "2") - first_us;
        cr_expect_geq(second_us[i], 1000000, "%s came again after %lld us", id, (long long)second_us[i]);
    }
    qsort(second_us, TASKS, sizeof(second_us[0]), compare);
    for (int i = TASKS / 4; i < TASKS && wait_scaled_ms(1) == 1; i++)
        cr_expect_gt(second_us[i] - second_us[i - TASKS / 4], 100000, "a quarter of the waits is within 100 ms");
}

/* Each path fails as often as it has tasks, and is held then: the share of one host and port keeps the receiver from
 * being flattened. */
Test(cases_retry, a_receiver_that_comes_back_gets_its_backlog_by_its_share_and_once)
{
    enum { PATHS = 40, EACH = 15, TASKS = PATHS * EACH, SLOTS = 64 };
    struct sink_answer answers[EACH + 1] = {[EACH] = {.status = 200, .is_held = true}};

    for (int i = 0; i < EACH; i++)
        answers[i].status = 500;
    restart("--concurrency", "64");
    for (int i = 0; i < TASKS; i++) {
        char path[16];
        (void)snprintf(path, sizeof(path), "/back/%d", i % PATHS);
        if (i < PATHS)
            sink_script(sink, path, answers, EACH + 1);
        post_numbered("b", i, path, ",\"timeout\":\"1m\",\"retry\":{\"schedule\":[\"3s\"]}");
    }
    WAIT_UNTIL(sink_count(sink, NULL) > TASKS + SLOTS / 2, ARRIVE_MS);
    for (int64_t end_ms = wait_mono_ms() + 1500; wait_mono_ms() < end_ms;)
        cr_assert_lt(stat("workers.in_flight"), SLOTS, "all slots went to one receiver");
    cr_assert_lt(sink_count(sink, NULL) - TASKS, (size_t)SLOTS);
    sink_release(sink);
    WAIT_UNTIL(stat("totals.delivered") == TASKS, ARRIVE_MS);
    cr_expect_eq(sink_count(sink, NULL), (size_t)2 * TASKS);
    cr_expect_eq(stat("totals.failed_attempts"), TASKS);
}

Test(cases_retry, no_retry_is_forgotten_over_restarts)
{
    SINK_SCRIPT(sink, "/down", {.status = 503});
    for (int i = 0; i < 20; i++)
        post_numbered("d", i, "/down", ",\"retry\":{\"max_attempts\":12,\"schedule\":[\"150ms\"]}");
    for (int n = 1; n <= 2; n++) {
        (void)sink_wait(sink, "/down", (size_t)n * 60, ARRIVE_MS);
        restart(NULL, NULL);
    }
    WAIT_UNTIL(stat("tasks.dead") == 20, ARRIVE_MS);
    for (int i = 0; i < 20; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "d-%d", i);
        cr_expect_eq(json_integer_at(client_get_task(gateway->api, id)->json, "attempts"), 12, "%s", id);
    }
    cr_expect_eq(sink_count(sink, "/down"), 240, "each request is an attempt");
    cr_expect_eq(stat("tasks.scheduled"), 0);
}

/* ------------------------------------------------------------------------ dead */

Test(cases_retry, a_dead_task_says_of_what_it_died)
{
    static const struct {
        const char *id, *more;
        json_int_t status; /* 0: none */
        const char *error;
    } cases[] = {
        {"refuses", "", 500, "500 Scripted: no"},
        {"hangs", ",\"timeout\":\"200ms\"", 0, "timeout after 200 ms"},
        {"closes", "", 0, "connection closed before an answer"},
    };

    SINK_SCRIPT(sink, "/refuses", {.status = 500, .body = "no"});
    SINK_SCRIPT(sink, "/hangs", {.status = 200, .is_held = true});
    SINK_SCRIPT(sink, "/closes", {.status = 0});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[32], more[128];
        (void)snprintf(path, sizeof(path), "/%s", cases[i].id);
        (void)snprintf(more, sizeof(more), "%s,\"retry\":{\"max_attempts\":2,\"schedule\":[1]}", cases[i].more);
        post(cases[i].id, sink_url(sink, path), more);
        json_t *task = task_reaches(gateway->api, cases[i].id, "dead", ARRIVE_MS);
        cr_expect_eq(json_integer_at(task, "attempts"), 2, "%s", cases[i].id);
        if (cases[i].status == 0)
            cr_expect(json_null_at(task, "last_attempt.status"), "%s", cases[i].id);
        else
            cr_expect_eq(json_integer_at(task, "last_attempt.status"), cases[i].status);
        cr_expect_str_eq(json_text_at(task, "last_attempt.error"), cases[i].error);
        cr_expect_geq(json_time_at(task, "finished_at"), json_time_at(task, "last_attempt.at"));
        cr_expect(json_null_at(task, "next_attempt_at"));
    }
    cr_expect_eq(stat("tasks.dead"), 3);
    cr_expect_eq(stat("queues.default.dead"), 3);
}

/* At no moment is a task nowhere, or in two places; and the counters move once. */
Test(cases_retry, a_task_is_in_one_state_while_it_dies)
{
    enum { TASKS = 20 };

    SINK_SCRIPT(sink, "/dies", {.status = 500});
    for (int i = 0; i < TASKS; i++)
        post_numbered("x", i, "/dies", ",\"delay\":\"300ms\",\"retry\":{\"max_attempts\":3,\"schedule\":[\"100ms\"]}");
    for (json_int_t dead = 0; dead < TASKS;) {
        json_t *s = client_get(gateway->api, "/stats")->json;
        dead = json_integer_at(s, "tasks.dead");
        /* `delivering` is part of what was read from the Stream; `scheduled` holds what waits there, too. */
        json_int_t sum = dead + json_integer_at(s, "tasks.scheduled") + json_integer_at(s, "tasks.ready") +
                         json_integer_at(s, "tasks.delivering");
        cr_assert_eq(sum, TASKS, "%lld tasks in all", (long long)sum);
        cr_assert_eq(json_integer_at(s, "totals.dead"), dead);
    }
    cr_expect_eq(stat("totals.attempts"), 3 * TASKS);
    cr_expect_eq(stat("totals.failed_attempts"), 3 * TASKS);
    cr_expect_eq(stat("totals.retried"), 2 * TASKS);
    WAIT_UNTIL(stat("tasks.scheduled") == 0 && stat("workers.in_flight") == 0, ARRIVE_MS);
}

static int found_dead(int tasks)
{
    int found = 0;

    for (int i = 0; i < tasks; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "old-%d", i);
        int status = client_get_task(gateway->api, id)->status;
        cr_assert(status == 200 || status == 404, "%s: %d", id, status);
        found += status == 200;
    }
    return found;
}

Test(cases_retry, dead_tasks_leave_by_number_and_by_age_and_the_counts_agree)
{
    enum { TASKS = 20, KEPT = 10 };

    restart("--max-finished", "10");
    SINK_SCRIPT(sink, "/old", {.status = 410});
    for (int i = 0; i < TASKS; i++)
        post_numbered("old", i, "/old", "");
    WAIT_UNTIL(stat("totals.dead") == TASKS && stat("tasks.dead") <= KEPT, ARRIVE_MS);
    cr_expect_eq(stat("tasks.dead"), KEPT);
    cr_expect_eq(found_dead(TASKS), KEPT);
    cr_expect_eq(stat("totals.trimmed"), TASKS - KEPT);
    restart("--retention-dead", "1s");
    WAIT_UNTIL(stat("tasks.dead") == 0, ARRIVE_MS);
    cr_expect_eq(found_dead(TASKS), 0);
    cr_expect_eq(stat("totals.dead"), TASKS, "what was counted stays counted");
    cr_expect_eq(stat("totals.trimmed"), TASKS - KEPT, "going by age is not trimming");
}

/* --------------------------------------------------------- answers and bodies without measure */

static long private_kib(void)
{
    char path[64], line[256];
    long kib = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)proc_pid(gateway->proc));
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "Private_Dirty:", 14) == 0)
            kib = strtol(line + 14, NULL, 10);
    cr_assert_eq(fclose(f), 0);
    return kib;
}

Test(cases_retry, endless_answers_at_full_speed_take_no_memory)
{
    enum { TASKS = 20 };
    static char block[65537];
    struct receiver *endless = receiver_create();
    long before_kib = private_kib();

    memset(block, 'x', sizeof(block) - 1);
    for (int i = 0; i < TASKS; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "e-%d", i);
        receiver_script(endless,
                        &(struct receiver_answer){
                            .steps = {RECEIVER_SAY(i % 2 == 0 ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 500 No\r\n\r\n"),
                                      {RECEIVER_FLOOD, block, 0}}});
        post(id, receiver_url(endless), ",\"retry\":{\"max_attempts\":1}");
    }
    WAIT_UNTIL(stat("totals.delivered") == TASKS / 2 && stat("tasks.dead") == TASKS / 2, ARRIVE_MS);
    long growth_kib = private_kib() - before_kib;
    if (wait_scaled_ms(1) == 1) /* a sanitizer's allocator keeps what was freed */
        cr_expect_lt(growth_kib, 8192, "%ld KiB more", growth_kib);
    WAIT_UNTIL(receiver_open_count(endless) == 0, ARRIVE_MS);
    receiver_destroy(&endless);
}

Test(cases_retry, large_webhooks_to_a_slow_receiver_do_not_hold_up_small_ones)
{
    enum { LARGE = 40, SMALL = 300, BYTES = 1000000 };
    char *more = malloc(BYTES + 64);
    struct sink *other = sink_create();
    int n = snprintf(more, 64, ",\"timeout\":\"1m\",\"body\":\"");

    memset(more + n, 'x', BYTES);
    memcpy(more + n + BYTES, "\"", 2);
    SINK_SCRIPT(sink, "/large", {.status = 200, .is_held = true});
    for (int i = 0; i < LARGE; i++)
        post_numbered("large", i, "/large", more);
    (void)sink_wait(sink, "/large", LARGE, ARRIVE_MS);
    int64_t begin_ms = wait_mono_ms();
    for (int i = 0; i < SMALL; i++) {
        char id[24];
        (void)snprintf(id, sizeof(id), "small-%d", i);
        post(id, sink_url(other, "/small"), ",\"payload\":1");
    }
    (void)sink_wait(other, "/small", SMALL, ARRIVE_MS);
    cr_expect_lt(wait_mono_ms() - begin_ms, wait_scaled_ms(3000));
    sink_release(sink);
    WAIT_UNTIL(stat("totals.delivered") == LARGE + SMALL, ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/large"), LARGE);
    sink_destroy(&other);
    free(more);
}
