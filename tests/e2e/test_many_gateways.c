/* Ten gateways on one Redis: ten movers and twenty delivery threads want the same tasks at the same moment. Nothing is
 * lost and nothing comes twice, also while they are stopped and started in turn. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define GATEWAYS 10
#define TASKS 4000
#define HEAP 200 /* tasks that fall due in the same millisecond */
#define HEAP_STEP_MS 250
#define RESTARTS 30
#define SLOW_ONES 50
#define ARRIVE_MS 30000

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateways[GATEWAYS];

static struct gateway *start_one(void)
{
    return gateway_run(redis_fixture_url(redis), "--threads", "2", "--concurrency", "32", NULL);
}

static void setup(void)
{
    redis = redis_fixture_create(true);
    sink = sink_create();
    for (int i = 0; i < GATEWAYS; i++)
        gateways[i] = start_one();
}

static void teardown(void)
{
    sink_destroy(&sink);
    for (int i = 0; i < GATEWAYS; i++)
        gateway_destroy(&gateways[i]);
    redis_fixture_destroy(&redis);
}

TestSuite(many_gateways, .init = setup, .fini = teardown, .timeout = 900);

/* Task i is posted through any gateway; a heap is due at each step. */
static void post(int i, int64_t begin_ms)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/%d", i);
    const struct reply *r = client_post_task(
        gateways[i % GATEWAYS]->api, "{\"id\":\"many-%d\",\"url\":\"%s\",\"run_at\":%lld,\"queue\":\"q%d\"}", i,
        sink_url(sink, path), (long long)(begin_ms + i / HEAP * HEAP_STEP_MS), i % 7);
    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static int64_t stat_of(const char *name)
{
    return json_integer_at(client_get(gateways[0]->api, "/stats")->json, name);
}

static bool is_settled(void)
{
    return stat_of("tasks.scheduled") == 0 && stat_of("tasks.ready") == 0 && stat_of("tasks.delivering") == 0;
}

static void expect_each_once(int tasks)
{
    char path[32];

    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    for (int i = 0; i < tasks; i++) {
        (void)snprintf(path, sizeof(path), "/%d", i);
        cr_expect_eq(sink_count(sink, path), 1, "task %d came %zu times", i, sink_count(sink, path));
    }
    cr_expect_eq(sink_count(sink, NULL), (size_t)tasks);
    cr_expect_eq(stat_of("totals.created"), tasks);
    cr_expect_eq(stat_of("totals.delivered"), tasks);
    cr_expect_eq(stat_of("totals.attempts"), tasks);
    cr_expect_eq(stat_of("totals.recovered"), 0);
    cr_expect_eq(stat_of("totals.orphans"), 0);
}

/* So that it was a race: most movers moved something. */
static int movers_that_moved(void)
{
    int count = 0;

    for (int i = 0; i < GATEWAYS; i++)
        count += json_integer_at(client_get(gateways[i]->api, "/stats")->json, "mover.moved") > 0;
    return count;
}

Test(many_gateways, ten_movers_and_twenty_workers_deliver_each_task_once)
{
    int64_t begin_ms = wait_wall_ms() + 1000;

    for (int i = 0; i < TASKS; i++)
        post(i, begin_ms);
    expect_each_once(TASKS);
    cr_expect_gt(movers_that_moved(), GATEWAYS / 2, "only %d movers had anything to do", movers_that_moved());
}

/* Each stops with deliveries in flight (some take their time) and with its share of the Stream unread. */
Test(many_gateways, gateways_that_stop_and_start_during_the_run_lose_and_repeat_nothing)
{
    int64_t begin_ms = wait_wall_ms() + 500;
    int posted = 0;
    char path[32];

    for (int i = 0; i < TASKS; i += TASKS / SLOW_ONES) {
        (void)snprintf(path, sizeof(path), "/%d", i);
        SINK_SCRIPT(sink, path, {.status = 200, .delay_ms = 500});
    }
    for (int k = 0; k < RESTARTS; k++) {
        for (int end = posted + TASKS / RESTARTS; posted < end; posted++)
            post(posted, begin_ms);
        gateway_stop(gateways[k % GATEWAYS]);
        gateway_destroy(&gateways[k % GATEWAYS]);
        gateways[k % GATEWAYS] = start_one();
    }
    expect_each_once(posted);
}
