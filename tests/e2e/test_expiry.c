/* Tasks that expire: in every state, on time, and never sent thereafter. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 15000
#define HOUR_MS 3600000

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
}

TestSuite(expiry, .init = setup, .fini = teardown, .timeout = 300);

static void start(void)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

static const struct reply *post(struct gateway *g, const char *id, const char *more_members)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "/%s", id);
    const struct reply *r =
        client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, sink_url(sink, path), more_members);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    return r;
}

static void put_queue(const char *name, const char *settings)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "/queues/%s", name);
    const struct client_request q = {.method = "PUT", .path = path, .body = settings};
    const struct reply *r = client_request(gateway->api, &q);

    cr_assert(r->status == 200 || r->status == 201, "%d %s", r->status, r->body);
}

static int64_t stat_at(const char *path)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, path);
}

/* How many ms after its expiry it ended. */
static int64_t expect_expired(const char *id)
{
    json_t *task = task_reaches(gateway->api, id, "expired", ARRIVE_MS);

    cr_expect(json_null_at(task, "next_attempt_at"));
    return json_time_at(task, "finished_at") - json_time_at(task, "expires_at");
}

static size_t seen(const char *id)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "/%s", id);
    return sink_count(sink, path);
}

/* --------------------------------------------------------------- answers */

Test(expiry, answers_say_when_a_task_expires)
{
    start();
    json_t *task = post(gateway, "in", ",\"delay\":\"1h\",\"expires_in\":\"2h\"")->json;
    cr_expect_eq(json_time_at(task, "expires_at"), json_time_at(task, "created_at") + 2 * HOUR_MS);
    task = client_get_task(gateway->api, "in")->json;
    cr_expect_eq(json_time_at(task, "expires_at"), json_time_at(task, "created_at") + 2 * HOUR_MS);
    task = post(gateway, "at", ",\"delay\":\"1h\",\"expires_at\":\"2030-01-01T00:00:00.5+01:00\"")->json;
    cr_expect_str_eq(json_text_at(task, "expires_at"), "2029-12-31T23:00:00.500Z");
    task = post(gateway, "never", ",\"delay\":\"1h\"")->json;
    cr_expect(json_null_at(task, "expires_at"));
    cr_expect(json_null_at(client_get_task(gateway->api, "never")->json, "expires_at"));
}

Test(expiry, a_repeat_of_the_request_is_the_same_task)
{
    char body[200];

    start();
    (void)snprintf(body, sizeof(body), "{\"id\":\"a\",\"url\":\"%s\",\"delay\":\"1h\",\"expires_in\":\"2h\"}",
                   sink_url(sink, "/a"));
    const struct reply *r = client_post(gateway->api, "/tasks", body);
    cr_assert_eq(r->status, 201);
    int64_t expires_ms = json_time_at(r->json, "expires_at");
    r = client_post(gateway->api, "/tasks", body);
    cr_expect_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_eq(json_time_at(r->json, "expires_at"), expires_ms);
}

/* ---------------------------------------------------------------- states */

Test(expiry, a_time_that_has_passed_ends_a_task_at_once)
{
    start();
    const struct reply *r = post(gateway, "late", ",\"expires_at\":1000");
    cr_expect_str_eq(json_text_at(r->json, "state"), "scheduled");
    cr_expect_str_eq(json_text_at(r->json, "expires_at"), "1970-01-01T00:00:01.000Z");
    expect_expired("late");
    cr_expect_eq(seen("late"), 0);
    cr_expect_eq(client_delete_task(gateway->api, "late")->status, 409);
    cr_expect_eq(stat_at("totals.expired"), 1);
    cr_expect_eq(stat_at("tasks.scheduled"), 0);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

#define ON_TIME 60

Test(expiry, scheduled_tasks_expire_on_time)
{
    int64_t late_ms[ON_TIME], base_ms = wait_scaled_ms(500);
    char id[32], members[80];

    start();
    for (int i = 0; i < ON_TIME; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        (void)snprintf(members, sizeof(members), ",\"delay\":\"1h\",\"expires_in\":%d", (int)base_ms + 17 * i);
        post(gateway, id, members);
    }
    for (int i = 0; i < ON_TIME; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        late_ms[i] = expect_expired(id);
        cr_expect_geq(late_ms[i], 0, "%s expired too early", id);
        cr_expect_eq(seen(id), 0);
    }
    qsort(late_ms, ON_TIME, sizeof(*late_ms), by_value);
    cr_expect_leq(late_ms[ON_TIME / 2], wait_scaled_ms(4), "the median is %lld ms late, the worst %lld",
                  (long long)late_ms[ON_TIME / 2], (long long)late_ms[ON_TIME - 1]);
    cr_expect_leq(late_ms[ON_TIME - 1], wait_scaled_ms(400));
}

Test(expiry, a_retry_that_would_come_too_late_expires_on_time)
{
    start();
    SINK_SCRIPT(sink, "/retried", {.status = 500});
    post(gateway, "retried", ",\"retry\":{\"schedule\":[\"1h\"]},\"expires_in\":\"1s\"");
    sink_wait(sink, "/retried", 1, ARRIVE_MS);
    cr_expect_leq(expect_expired("retried"), wait_scaled_ms(400));
    json_t *task = client_get_task(gateway->api, "retried")->json;
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    cr_expect_eq(json_integer_at(task, "last_attempt.status"), 500);
    cr_expect_eq(seen("retried"), 1);
}

Test(expiry, an_attempt_under_way_may_finish)
{
    start();
    SINK_SCRIPT(sink, "/good", {.status = 200, .is_held = true});
    SINK_SCRIPT(sink, "/bad", {.status = 500, .is_held = true});
    post(gateway, "good", ",\"expires_in\":\"1s\",\"retry\":{\"initial\":1}");
    post(gateway, "bad", ",\"expires_in\":\"1s\",\"retry\":{\"initial\":1}");
    sink_wait(sink, "/good", 1, ARRIVE_MS);
    sink_wait(sink, "/bad", 1, ARRIVE_MS);
    int64_t end_ms = wait_wall_ms() + 1200;
    WAIT_UNTIL(wait_wall_ms() > end_ms, ARRIVE_MS);
    cr_expect_str_eq(json_text_at(client_get_task(gateway->api, "good")->json, "state"), "delivering");
    sink_release(sink);
    task_reaches(gateway->api, "good", "delivered", ARRIVE_MS);
    expect_expired("bad");
    cr_expect_eq(seen("bad"), 1, "no retry follows");
}

/* One slot, and it is taken: the others wait in the Stream or in their lane. */
Test(expiry, what_waits_for_a_free_worker_expires)
{
    char id[32];

    gateway = gateway_run(redis_fixture_url(redis), "--threads", "1", "--concurrency", "1", NULL);
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    post(gateway, "held", "");
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        post(gateway, id, ",\"expires_in\":\"500ms\"");
    }
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        cr_expect_leq(expect_expired(id), wait_scaled_ms(400));
        cr_expect_eq(seen(id), 0);
    }
    sink_release(sink);
    task_reaches(gateway->api, "held", "delivered", ARRIVE_MS);
    post(gateway, "next", "");
    task_reaches(gateway->api, "next", "delivered", ARRIVE_MS);
    cr_expect_eq(stat_at("tasks.ready"), 0);
}

Test(expiry, paused_and_limited_queues_make_no_difference)
{
    start();
    put_queue("paused", "{\"paused\":true}");
    put_queue("slow", "{\"max_per_second\":0.01}");
    put_queue("narrow", "{\"max_concurrency\":1}");
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    post(gateway, "held", ",\"queue\":\"narrow\"");
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    post(gateway, "first", ",\"queue\":\"slow\"");
    task_reaches(gateway->api, "first", "delivered", ARRIVE_MS);
    post(gateway, "in-paused", ",\"queue\":\"paused\",\"expires_in\":\"300ms\"");
    post(gateway, "in-slow", ",\"queue\":\"slow\",\"expires_in\":\"300ms\"");
    post(gateway, "in-narrow", ",\"queue\":\"narrow\",\"expires_in\":\"300ms\"");
    cr_expect_leq(expect_expired("in-paused"), wait_scaled_ms(400));
    cr_expect_leq(expect_expired("in-slow"), wait_scaled_ms(400));
    cr_expect_leq(expect_expired("in-narrow"), wait_scaled_ms(400));
    cr_expect_eq(seen("in-paused") + seen("in-slow") + seen("in-narrow"), 0);
    sink_release(sink);
}

Test(expiry, what_expires_while_no_gateway_runs_is_not_sent_after_a_start)
{
    start();
    post(gateway, "due", ",\"delay\":800,\"expires_in\":900");
    post(gateway, "far", ",\"delay\":\"1h\",\"expires_in\":900");
    post(gateway, "kept", ",\"delay\":800");
    gateway_kill(gateway);
    gateway_destroy(&gateway);
    int64_t end_ms = wait_wall_ms() + 1000;
    WAIT_UNTIL(wait_wall_ms() > end_ms, ARRIVE_MS);
    start();
    expect_expired("due");
    expect_expired("far");
    task_reaches(gateway->api, "kept", "delivered", ARRIVE_MS);
    cr_expect_eq(seen("due") + seen("far"), 0);
}

/* ------------------------------------------------------- the due moment */

#define RACES 3000
#define STEP_MS 2
#define NEAR_MS 5

/* Each task expires within 5 ms around its due moment, with two gateways on the watch. Either it was seen and delivered
 * once, or it expired and was never seen. */
Test(expiry, near_the_due_moment_a_task_is_either_delivered_or_expired)
{
    char id[32], members[120];
    int expired = 0;

    start();
    second = gateway_run(redis_fixture_url(redis), NULL);
    int64_t begin_ms = wait_wall_ms() + client_time_for(gateway->api, RACES);
    for (int i = 0; i < RACES; i++) {
        int64_t due_ms = begin_ms + (int64_t)i * STEP_MS;
        (void)snprintf(id, sizeof(id), "race-%d", i);
        (void)snprintf(members, sizeof(members), ",\"run_at\":%lld,\"expires_at\":%lld", (long long)due_ms,
                       (long long)due_ms + i % (2 * NEAR_MS + 1) - NEAR_MS);
        post(i % 2 == 0 ? gateway : second, id, members);
    }
    WAIT_UNTIL(stat_at("totals.delivered") + stat_at("totals.expired") == RACES, 30000);
    for (int i = 0; i < RACES; i++) {
        (void)snprintf(id, sizeof(id), "race-%d", i);
        const char *state = json_text_at(client_get_task(gateway->api, id)->json, "state");
        bool is_expired = strcmp(state, "expired") == 0;
        cr_expect(is_expired || strcmp(state, "delivered") == 0, "%s is %s", id, state);
        cr_expect_eq(seen(id), is_expired ? 0 : 1, "%s is %s and came %zu times", id, state, seen(id));
        expired += is_expired;
    }
    cr_expect_eq(stat_at("totals.expired"), expired);
    cr_expect_eq(stat_at("totals.attempts"), RACES - expired);
    cr_expect(expired > RACES / 4 && expired < RACES, "%d of %d expired: that was no race", expired, RACES);
    cr_expect_eq(stat_at("tasks.scheduled") + stat_at("tasks.ready") + stat_at("tasks.delivering"), 0);
}
