/* Races between clients, movers, workers and clocks: a DELETE against the due moment, two gateways with many threads on
 * one partition, gateways that come and go under load, gateways that stand still and come back. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARRIVE_MS 15000
#define NEAR_MS 5
#define KEY "duepost{0}"

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;

static void setup(void)
{
    redis = redis_fixture_create(true);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
}

TestSuite(races, .init = setup, .fini = teardown, .timeout = 600);

static void post_at(struct gateway *g, const char *id, const char *path, int64_t run_at_ms)
{
    const struct reply *r = client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\",\"run_at\":%lld}", id,
                                             sink_url(sink, path), (long long)run_at_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static int64_t stat_at(struct gateway *g, const char *path)
{
    return json_integer_at(client_get(g->api, "/stats")->json, path);
}

static bool is_settled(struct gateway *g)
{
    json_t *stats = client_get(g->api, "/stats")->json;

    return json_integer_at(stats, "tasks.scheduled") == 0 && json_integer_at(stats, "tasks.ready") == 0 &&
           json_integer_at(stats, "tasks.delivering") == 0;
}

static void sleep_until(int64_t wall_ms)
{
    int64_t left_us = wall_ms * 1000 - wait_wall_us();
    const struct timespec t = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};

    if (left_us > 0)
        nanosleep(&t, NULL);
}

/* --------------------------------------------------- the due moment */

#define DELETES 1000
#define DELETE_STEP_MS 4

Test(races, a_delete_near_the_due_moment_is_kept_or_refused)
{
    int statuses[DELETES], kept = 0;
    int64_t begin_ms;
    char id[32], path[32];

    gateway = gateway_run(redis_fixture_url(redis), NULL);
    begin_ms = wait_wall_ms() + client_time_for(gateway->api, DELETES);
    for (int i = 0; i < DELETES; i++) {
        (void)snprintf(id, sizeof(id), "race-%d", i);
        (void)snprintf(path, sizeof(path), "/race-%d", i);
        post_at(gateway, id, path, begin_ms + (int64_t)i * DELETE_STEP_MS);
    }
    for (int i = 0; i < DELETES; i++) {
        (void)snprintf(id, sizeof(id), "race-%d", i);
        sleep_until(begin_ms + (int64_t)i * DELETE_STEP_MS + i % (2 * NEAR_MS + 1) - NEAR_MS);
        statuses[i] = client_delete_task(gateway->api, id)->status;
    }
    WAIT_UNTIL(is_settled(gateway), ARRIVE_MS);
    for (int i = 0; i < DELETES; i++) {
        (void)snprintf(path, sizeof(path), "/race-%d", i);
        size_t seen = sink_count(sink, path);
        cr_expect(statuses[i] == 204 || statuses[i] == 202 || statuses[i] == 409, "DELETE: %d", statuses[i]);
        cr_expect_eq(seen, statuses[i] == 204 ? 0 : 1, "task %d, deleted with %d, came %zu times", i, statuses[i],
                     seen);
        kept += statuses[i] == 204;
    }
    cr_expect_eq(stat_at(gateway, "totals.cancelled"), kept);
    cr_expect_eq(stat_at(gateway, "totals.delivered"), DELETES - kept);
    cr_expect(kept > 0 && kept < DELETES, "%d of %d were cancelled: that was no race", kept, DELETES);
}

/* --------------------------------------- many movers and workers */

#define CROWD 1200
#define CROWD_STEP_MS 250

/* Tasks fall due in heaps, so that both movers and all workers want the same ones at the same moment. */
Test(races, two_gateways_with_many_threads_deliver_once)
{
    int64_t begin_ms;
    char id[32], path[32];

    gateway = gateway_run(redis_fixture_url(redis), "--threads", "10", "--claim-idle", "1s", NULL);
    second = gateway_run(redis_fixture_url(redis), "--threads", "10", "--claim-idle", "1s", NULL);
    begin_ms = wait_wall_ms() + 500;
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(id, sizeof(id), "crowd-%d", i);
        (void)snprintf(path, sizeof(path), "/crowd-%d", i);
        post_at(i % 2 == 0 ? gateway : second, id, path, begin_ms + (int64_t)(i / 100) * CROWD_STEP_MS);
    }
    WAIT_UNTIL(is_settled(gateway), ARRIVE_MS);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(path, sizeof(path), "/crowd-%d", i);
        cr_expect_eq(sink_count(sink, path), 1, "task %d came %zu times", i, sink_count(sink, path));
    }
    cr_expect_eq(stat_at(gateway, "totals.delivered"), CROWD);
    cr_expect_eq(stat_at(gateway, "totals.attempts"), CROWD);
    cr_expect_eq(stat_at(gateway, "totals.recovered"), 0);
}

#define LONG_ONES 40

Test(races, deliveries_longer_than_claim_idle_are_seen_once)
{
    char id[32];

    SINK_SCRIPT(sink, "/long", {.status = 200, .delay_ms = 3500});
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    for (int i = 0; i < LONG_ONES; i++) {
        (void)snprintf(id, sizeof(id), "long-%d", i);
        post_at(i % 2 == 0 ? gateway : second, id, "/long", wait_wall_ms());
    }
    WAIT_UNTIL(is_settled(gateway), ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/long"), LONG_ONES);
    cr_expect_eq(stat_at(gateway, "totals.delivered"), LONG_ONES);
    cr_expect_eq(stat_at(gateway, "totals.recovered"), 0);
}

/* -------------------------------------------- gateways come and go */

#define RESTARTS 30
#define THREADS "3"

/* A minute passes for the gateways that are gone: their heartbeats become that much older. Living ones write anew. */
static void age_heartbeats(void)
{
    redisReply *beats = redis_fixture_command(redis, "HGETALL " KEY ":workers");

    for (size_t i = 0; i + 1 < beats->elements; i += 2)
        redis_fixture_run(redis, "HSET " KEY ":workers %s %s", beats->element[i]->str, "1000 1000000000000");
    freeReplyObject(beats);
}

static size_t consumer_count(void)
{
    redisReply *r = redis_fixture_command(redis, "XINFO CONSUMERS " KEY ":ready workers");
    size_t n = r->elements;

    freeReplyObject(r);
    return n;
}

Test(races, gateways_that_come_and_go_lose_nothing_and_leave_no_consumers)
{
    char id[32], path[32];
    int posted = 0;

    gateway = gateway_run(redis_fixture_url(redis), "--threads", THREADS, "--claim-idle", "1s", NULL);
    for (int i = 0; i < RESTARTS; i++) {
        second = gateway_run(redis_fixture_url(redis), "--threads", THREADS, "--claim-idle", "1s", NULL);
        for (int k = 0; k < 10; k++, posted++) {
            (void)snprintf(id, sizeof(id), "load-%d", posted);
            (void)snprintf(path, sizeof(path), "/load-%d", posted);
            post_at(k % 2 == 0 ? gateway : second, id, path, wait_wall_ms() + k * 10);
        }
        if (i % 3 == 0)
            gateway_kill(second);
        gateway_destroy(&second);
    }
    WAIT_UNTIL(is_settled(gateway), ARRIVE_MS);
    for (int i = 0; i < posted; i++) {
        (void)snprintf(path, sizeof(path), "/load-%d", i);
        cr_expect_geq(sink_count(sink, path), 1, "task %d did not come", i);
    }
    cr_expect_eq(stat_at(gateway, "totals.delivered"), posted);
    age_heartbeats();
    WAIT_UNTIL(consumer_count() <= 3, ARRIVE_MS);
}

/* Start one, post a task that it has in flight, held by the receiver, and start the other one. */
static void hold_task_in_first(const char *id)
{
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    post_at(gateway, id, "/held", wait_wall_ms());
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
}

Test(races, a_stopped_gateway_that_comes_back_changes_nothing)
{
    SINK_SCRIPT(sink, "/held", {.status = 500, .is_held = true}, {.status = 200});
    hold_task_in_first("held");
    proc_signal(gateway->proc, SIGSTOP);
    sink_wait(sink, "/held", 2, ARRIVE_MS);
    task_reaches(second->api, "held", "delivered", ARRIVE_MS);
    sink_release(sink);
    proc_signal(gateway->proc, SIGCONT);
    post_at(gateway, "after", "/after", wait_wall_ms());
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
    WAIT_UNTIL(strstr(proc_stderr(gateway->proc), "task.stale") != NULL, ARRIVE_MS);
    json_t *task = task_reaches(second->api, "held", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    cr_expect_eq(sink_count(sink, "/held"), 2);
    /* Twice when the blocked read of the one that stands still took it again. */
    cr_expect_geq(stat_at(second, "totals.recovered"), 1);
    cr_expect_eq(stat_at(second, "totals.failed_attempts"), 0);
    cr_expect_eq(stat_at(second, "totals.delivered"), 2);
}

Test(races, a_task_cancelled_after_its_gateway_died_is_not_sent_again)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    hold_task_in_first("held");
    gateway_kill(gateway);
    cr_expect_eq(client_delete_task(second->api, "held")->status, 202);
    task_reaches(second->api, "held", "cancelled", ARRIVE_MS);
    cr_expect_eq(client_delete_task(second->api, "held")->status, 204);
    cr_expect_eq(sink_count(sink, "/held"), 1);
    cr_expect_eq(stat_at(second, "tasks.delivering"), 0);
}
