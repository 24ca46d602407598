/* Keys that somebody deletes by hand, or that an older copy of the data lacks, under a running gateway: no task is
 * lost, none is delivered twice without need, and the counts are right again. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define ARRIVE_MS 10000
#define REPAIR_MS 60000 /* what is promised */
#define KEY "duepost{0}"

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    sink = sink_create();
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", "--concurrency", "2", "--threads", "1", NULL);
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(by_hand, .init = setup, .fini = teardown, .timeout = 300);

static void post(const char *id, const char *path, int delay_ms)
{
    const struct reply *r = client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d}", id,
                                             sink_url(sink, path), delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static long long stat_of(const char *name)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, name);
}

static void expect_nothing_left(void)
{
    cr_expect_eq(stat_of("tasks.scheduled"), 0);
    cr_expect_eq(stat_of("tasks.ready"), 0);
    cr_expect_eq(stat_of("tasks.delivering"), 0);
    cr_expect_eq(redis_fixture_integer(redis, "HLEN " KEY ":flight"), 1, "the field that is no task");
    cr_expect_eq(redis_fixture_integer(redis, "EXISTS " KEY ":out " KEY ":busy"), 0);
}

Test(by_hand, ready_tasks_survive_the_deletion_of_the_stream)
{
    char id[16];

    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true}, {.status = 200, .is_held = true});
    post("held-1", "/held", 0);
    post("held-2", "/held", 0);
    sink_wait(sink, "/held", 2, ARRIVE_MS);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof(id), "t-%d", i);
        post(id, "/waiting", 0);
    }
    redis_fixture_run(redis, "DEL " KEY ":ready");
    sink_release(sink);
    sink_wait(sink, "/waiting", 20, REPAIR_MS);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof(id), "t-%d", i);
        task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    }
    cr_expect_eq(sink_count(sink, "/waiting"), 20);
    expect_nothing_left();
}

Test(by_hand, a_destroyed_group_delivers_nothing_twice)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    post("held", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    redis_fixture_run(redis, "XGROUP DESTROY " KEY ":ready workers");
    post("sentinel", "/sentinel", 0);
    sink_wait(sink, "/sentinel", 1, ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/held"), 1);
    sink_release(sink);
    task_reaches(gateway->api, "held", "delivered", ARRIVE_MS);
    task_reaches(gateway->api, "sentinel", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/held"), 1);
    expect_nothing_left();
}

Test(by_hand, a_lane_that_was_deleted_comes_back_within_a_minute)
{
    post("a", "/lane", 3000);
    redis_fixture_run(redis, "DEL " KEY ":q:default");
    sink_wait(sink, "/lane", 1, REPAIR_MS);
    task_reaches(gateway->api, "a", "delivered", ARRIVE_MS);
    cr_expect_eq(stat_of("totals.orphans"), 1);
    expect_nothing_left();
}

Test(by_hand, a_record_that_is_deleted_under_way_leaves_no_trace)
{
    SINK_SCRIPT(sink, "/held", {.status = 500, .is_held = true});
    post("a", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    redis_fixture_run(redis, "DEL " KEY "a");
    sink_release(sink);
    WAIT_UNTIL(stat_of("totals.orphans") == 1, ARRIVE_MS);
    cr_expect_eq(client_get(gateway->api, "/tasks/a")->status, 404);
    cr_expect_eq(stat_of("totals.attempts"), 0);
    expect_nothing_left();
}
