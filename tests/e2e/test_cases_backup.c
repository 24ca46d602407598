/* A Redis that comes back with other data than it had, or late: an older snapshot that somebody restored, and a log
 * that takes long to load. What it says is true for the gateways from then on. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ARRIVE_MS 15000
#define REPAIR_MS 60000
#define TASKS 40
#define HELD 5

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(cases_backup, .init = setup, .fini = teardown, .timeout = 600);

static void post(const char *kind, int i, int delay_ms)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s-%d", kind, i);
    const struct reply *r = client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d}", path + 1,
                                             sink_url(sink, path), delay_ms);
    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static int64_t stat(const char *path)
{
    json_t *stats = client_get(gateway->api, "/stats")->json;

    return json_is_object(json_object_get(stats, "tasks")) ? json_integer_at(stats, path) : -1;
}

static bool is_all_done(void)
{
    return stat("tasks.scheduled") == 0 && stat("tasks.ready") == 0 && stat("tasks.delivering") == 0;
}

/* The file of Redis' snapshot, or that of the copy beside it. */
static void snapshot_path(char *out, size_t size, const char *name)
{
    redisReply *r = redis_fixture_command(redis, "CONFIG GET dir");

    cr_assert_eq(r->elements, 2);
    (void)snprintf(out, size, "%s/%s", r->element[1]->str, name);
    freeReplyObject(r);
}

Test(cases_backup, an_older_snapshot_is_worked_off_from_where_it_was)
{
    char now[300], older[300];

    redis = redis_fixture_create(false);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    for (int i = 0; i < HELD; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/held-%d", i);
        SINK_SCRIPT(sink, path, {.status = 200, .is_held = true}, {.status = 200});
        post("held", i, 0);
        (void)sink_wait(sink, path, 1, ARRIVE_MS);
    }
    for (int i = 0; i < TASKS; i++)
        post("before", i, 2000);
    snapshot_path(now, sizeof(now), "dump.rdb");
    snapshot_path(older, sizeof(older), "older.rdb");
    redis_fixture_run(redis, "SAVE");
    cr_assert_eq(rename(now, older), 0);

    /* What the snapshot does not know: the held are delivered, some cancelled, others new. */
    sink_release(sink);
    for (int i = 0; i < TASKS / 4; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "before-%d", i);
        cr_assert_eq(client_delete_task(gateway->api, id)->status, 204);
        post("after", i, 1000);
    }
    WAIT_UNTIL(stat("totals.delivered") >= HELD, ARRIVE_MS);
    redis_fixture_kill(redis);
    cr_assert_eq(rename(older, now), 0);
    redis_fixture_start(redis);

    /* Cancelled after the snapshot is not cancelled any more; delivered is delivered again. */
    for (int i = 0; i < TASKS; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/before-%d", i);
        (void)sink_wait(sink, path, 1, ARRIVE_MS);
    }
    WAIT_UNTIL(is_all_done(), REPAIR_MS);
    cr_expect_eq(stat("totals.created"), HELD + TASKS);
    cr_expect_eq(stat("totals.delivered"), HELD + TASKS);
}

Test(cases_backup, a_log_that_loads_slowly_moves_no_due_time)
{
    int64_t due_ms[TASKS];

    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    for (int i = 0; i < TASKS; i++) {
        char id[32];
        post("t", i, 100 * i); /* due before, during and after the load */
        (void)snprintf(id, sizeof(id), "t-%d", i);
        due_ms[i] = json_time_at(client_get_task(gateway->api, id)->json, "run_at");
    }
    redis_fixture_kill(redis);
    redis_fixture_load_slowly(redis, 2000);
    redis_fixture_start(redis);
    int64_t up_ms = wait_wall_ms();
    for (int i = 0; i < TASKS; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/t-%d", i);
        int64_t at_ms = sink_wait(sink, path, 1, ARRIVE_MS)->arrived_us / 1000;
        cr_expect_geq(at_ms, due_ms[i], "task %d came %lld ms early", i, (long long)(due_ms[i] - at_ms));
        cr_expect_leq(at_ms, (due_ms[i] > up_ms ? due_ms[i] : up_ms) + wait_scaled_ms(3000), "task %d", i);
        cr_expect_eq(json_time_at(client_get_task(gateway->api, path + 1)->json, "run_at"), due_ms[i], "task %d", i);
    }
}
