/* Receivers in trouble: what asks for less gets less, what is dead gets nothing but probes, and nobody else notices. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 30000

static struct redis_fixture *redis;
static struct sink *sink;  /* is well */
static struct sink *other; /* is in trouble */
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&other);
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(destinations, .init = setup, .fini = teardown, .timeout = 120);

static json_t *post(const char *prefix, int number, const char *url, const char *more)
{
    const struct reply *r =
        client_post_task(gateway->api, "{\"id\":\"%s-%d\",\"url\":\"%s\"%s}", prefix, number, url, more);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    return r->json;
}

static json_int_t stat(const char *path)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, path);
}

/* What GET /destinations says of this one, borrowed until the next call; NULL when it is not there. */
static json_t *destination(const struct sink *s)
{
    char name[64];
    const char *found;
    json_t *item, *list = json_at(client_get(gateway->api, "/destinations")->json, "destinations");
    size_t i;

    (void)snprintf(name, sizeof(name), "http://127.0.0.1:%d", sink_port(s));
    json_array_foreach(list, i, item)
    {
        found = json_text_at(item, "destination");
        if (strcmp(found, name) == 0)
            return item;
    }
    return NULL;
}

static bool is_in_state(const struct sink *s, const char *state)
{
    json_t *d = destination(s);

    return d && strcmp(json_text_at(d, "state"), state) == 0;
}

/* How late the tasks of the receiver that is well come, one after the other. */
static int64_t late_us[200];
static int late_count;

static void send_one_and_see_how_late(void)
{
    json_t *task = post("fine", late_count, sink_url(sink, "/fine"), ",\"delay\":\"20ms\"");
    int64_t due_us = json_time_at(task, "run_at") * 1000;
    const struct sink_request *r = sink_wait(sink, "/fine", (size_t)late_count + 1, ARRIVE_MS);

    late_us[late_count++] = r->arrived_us - due_us;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Nine of ten, since a busy machine is late now and then, whoever else has trouble. */
static void expect_on_time(void)
{
    qsort(late_us, (size_t)late_count, sizeof(late_us[0]), compare);
    cr_expect_leq(late_us[late_count * 9 / 10], wait_scaled_ms(100) * 1000,
                  "late by: half %lld, nine of ten %lld, all %lld us", (long long)late_us[late_count / 2],
                  (long long)late_us[late_count * 9 / 10], (long long)late_us[late_count - 1]);
}

/* ------------------------------------------------------------------ limit */

enum { BUSY_TASKS = 40, BUSY_TIMES = 5 };

/* Each task is refused some times, a second apart, so the whole crowd comes back together. */
static void post_busy_tasks(void)
{
    struct sink_answer answers[BUSY_TIMES + 1] = {[BUSY_TIMES] = {.status = 200, .delay_ms = 20}};

    for (int i = 0; i < BUSY_TIMES; i++)
        answers[i] = (struct sink_answer){.status = 429, .delay_ms = 100, .headers = "Retry-After: 1\r\n"};
    for (int i = 0; i < BUSY_TASKS; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/%d", i);
        sink_script(other, path, answers, BUSY_TIMES + 1);
        post("busy", i, sink_url(other, path), ",\"retry\":{\"max_attempts\":100,\"schedule\":[\"100ms\"]}");
    }
}

Test(destinations, one_that_asks_for_less_gets_less_and_others_stay_on_time)
{
    json_int_t lowest = 1000, most_in_flight = 0;

    other = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post_busy_tasks();
    int64_t end_ms = wait_mono_ms() + wait_scaled_ms(ARRIVE_MS);
    while (stat("totals.delivered") < BUSY_TASKS + late_count || lowest > 1) {
        cr_assert_lt(wait_mono_ms(), end_ms, "%lld delivered, the limit went down to %lld",
                     (long long)stat("totals.delivered"), (long long)lowest);
        json_t *d = destination(other);
        json_int_t limit = d && !json_null_at(d, "limit") ? json_integer_at(d, "limit") : 1000;
        lowest = limit < lowest ? limit : lowest;
        most_in_flight =
            d && json_integer_at(d, "in_flight") > most_in_flight ? json_integer_at(d, "in_flight") : most_in_flight;
        if (late_count < 200)
            send_one_and_see_how_late();
    }
    cr_expect_gt(most_in_flight, 4);
    expect_on_time();
    for (int i = 0; i < BUSY_TASKS; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "busy-%d", i);
        cr_expect_eq(json_integer_at(client_get_task(gateway->api, id)->json, "attempts"), BUSY_TIMES + 1,
                     "what waited for its turn lost no attempt, and made none too many");
    }
    cr_expect(json_null_at(destination(sink), "limit"));
    cr_expect_eq(stat("destinations.count"), 2);
    cr_expect_eq(stat("destinations.open"), 0);
}

/* --------------------------------------------------------------- breaker */

enum { DEAD_TASKS = 30 };

static void start_with_small_breaker(void)
{
    other = sink_create_deaf();
    gateway = gateway_run(redis_fixture_url(redis), "--breaker-failures", "10", "--breaker-after", "100ms",
                          "--breaker-probe", "400ms", NULL);
}

static void post_dead_tasks(void)
{
    for (int i = 0; i < DEAD_TASKS; i++)
        post("dead", i, sink_url(other, "/dead"), ",\"retry\":{\"max_attempts\":1000,\"schedule\":[\"150ms\"]}");
}

static json_int_t attempts_of_dead_tasks(void)
{
    json_int_t sum = 0;

    for (int i = 0; i < DEAD_TASKS; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "dead-%d", i);
        sum += json_integer_at(client_get_task(gateway->api, id)->json, "attempts");
    }
    return sum;
}

Test(destinations, a_dead_one_gets_probes_alone_until_it_is_back)
{
    enum { QUIET_MS = 3000, PROBES_MAX = 4 }; /* 0.4 s, 0.8 s and 1.6 s apart, and one that may have been due */

    start_with_small_breaker();
    post_dead_tasks();
    WAIT_UNTIL(is_in_state(other, "open"), ARRIVE_MS);
    json_t *d = destination(other);
    cr_expect_geq(json_integer_at(d, "failures_in_a_row"), 10);
    cr_expect(json_null_at(d, "last_success_at"));
    cr_expect_str_eq(json_text_at(d, "last_error_kind"), "connect");
    cr_expect_gt(json_time_at(d, "next_probe_at"), json_time_at(d, "last_failure_at") - 1);
    cr_expect_eq(stat("destinations.open"), 1);

    /* An attempt is over some time before Redis knows its outcome. */
    WAIT_UNTIL(json_integer_at(destination(other), "in_flight") == 0 && stat("tasks.delivering") == 0, ARRIVE_MS);
    json_int_t attempts = attempts_of_dead_tasks();
    for (int64_t end_ms = wait_mono_ms() + QUIET_MS; wait_mono_ms() < end_ms;)
        cr_assert_leq(json_integer_at(destination(other), "in_flight"), 1);
    json_int_t probes = attempts_of_dead_tasks() - attempts;
    cr_expect_leq(probes, PROBES_MAX, "%lld probes", (long long)probes);
    cr_expect_geq(probes, 1, "no probe");

    sink_listen(other);
    WAIT_UNTIL(stat("totals.delivered") == DEAD_TASKS, ARRIVE_MS);
    cr_expect_eq(sink_count(other, "/dead"), DEAD_TASKS);
    d = destination(other);
    cr_expect_str_eq(json_text_at(d, "state"), "closed");
    cr_expect(json_null_at(d, "next_probe_at"));
    cr_expect_eq(json_integer_at(d, "failures_in_a_row"), 0);
    cr_expect_geq(json_time_at(d, "last_success_at"), json_time_at(d, "last_failure_at"));
    cr_expect_eq(stat("destinations.open"), 0);
}

Test(destinations, a_dead_one_is_not_noticed_by_another)
{
    start_with_small_breaker();
    post_dead_tasks();
    WAIT_UNTIL(is_in_state(other, "open"), ARRIVE_MS);
    while (late_count < 50)
        send_one_and_see_how_late();
    expect_on_time();
    cr_expect(is_in_state(sink, "closed"));
    cr_expect_eq(json_integer_at(destination(sink), "failures_in_a_row"), 0);
}

Test(destinations, what_waits_for_a_dead_one_can_be_cancelled_and_expires)
{
    start_with_small_breaker();
    post_dead_tasks();
    WAIT_UNTIL(is_in_state(other, "open"), ARRIVE_MS);
    post("short", 1, sink_url(other, "/dead"), ",\"expires_in\":\"1s\",\"retry\":{\"max_attempts\":1000}");
    json_t *task = task_reaches(gateway->api, "short-1", "expired", ARRIVE_MS);
    cr_expect_leq(json_integer_at(task, "attempts"), 1, "a probe at most");
    for (int i = 0; i < DEAD_TASKS; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "dead-%d", i);
        int status = client_delete_task(gateway->api, id)->status;
        cr_expect(status == 204 || status == 202, "%s: %d", id, status);
    }
    WAIT_UNTIL(stat("totals.cancelled") == DEAD_TASKS, ARRIVE_MS);
    cr_expect_eq(stat("tasks.scheduled"), 0);
}

Test(destinations, with_the_breaker_off_every_task_is_tried_by_its_own_rules)
{
    other = sink_create_deaf();
    gateway = gateway_run(redis_fixture_url(redis), "--breaker-failures", "0", "--breaker-after", "0", NULL);
    for (int i = 0; i < DEAD_TASKS; i++)
        post("dead", i, sink_url(other, "/dead"), ",\"retry\":{\"max_attempts\":5,\"schedule\":[\"50ms\"]}");
    WAIT_UNTIL(stat("tasks.dead") == DEAD_TASKS, ARRIVE_MS);
    cr_expect_eq(stat("totals.attempts"), 5 * DEAD_TASKS);
    cr_expect(is_in_state(other, "closed"));
    cr_expect_eq(json_integer_at(destination(other), "failures_in_a_row"), 5 * DEAD_TASKS);
}

/* ------------------------------------------------------------------ list */

Test(destinations, who_may_read_may_see_them)
{
    static const char *const env[] = {"DUEPOST_TOKEN=all", "DUEPOST_READ_TOKEN=look", NULL};

    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .env = env});
    cr_expect_eq(client_get(gateway->api, "/destinations")->status, 401);
    client_set_token(gateway->api, "look");
    const struct reply *r = client_get(gateway->api, "/destinations");
    cr_expect_eq(r->status, 200, "%s", r->body);
    cr_expect_eq(json_array_size(json_at(r->json, "destinations")), 0);
    client_set_token(gateway->api, "all");
    cr_expect_eq(client_get(gateway->api, "/destinations")->status, 200);
}
