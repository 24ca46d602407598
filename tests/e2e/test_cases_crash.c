/* Crashes of gateways at unlucky moments, each turned into a small case: just after an answer, in a blocked read, with
 * what a dead one held deleted by hand; and due times so far away that they would not fit into a timer. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/random.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARRIVE_MS 15000
#define CLAIM_IDLE_MS 1000
#define REDELIVER_MS (CLAIM_IDLE_MS + 5000)
#define REPAIR_MS 60000
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

TestSuite(cases_crash, .init = setup, .fini = teardown, .timeout = 600);

static struct gateway *start_one(void)
{
    return gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
}

static const struct reply *try_post(struct gateway *g, const char *id, int64_t delay_ms)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s", id);
    return client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%" PRId64 "}", id, sink_url(sink, path),
                            delay_ms);
}

static void post(struct gateway *g, const char *id, int64_t delay_ms)
{
    const struct reply *r = try_post(g, id, delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static int64_t stat_of(struct gateway *g, const char *name)
{
    return json_integer_at(client_get(g->api, "/stats")->json, name);
}

/* --------------------------------------------------- just after an answer */

#define ROUNDS 60
#define POSTS_MAX 20

/* An id that was answered 201 is safe in Redis, whenever the gateway dies after it. */
Test(cases_crash, whatever_was_answered_201_is_found_and_delivered)
{
    uint64_t seed = random_seed_from("CASES_SEED", (uint64_t)wait_wall_us());
    struct random random = random_seeded(seed);
    char id[32], path[64];
    int posted[ROUNDS];

    for (int round = 0; round < ROUNDS; round++) {
        gateway = start_one();
        posted[round] = 1 + (int)random_below(&random, POSTS_MAX);
        for (int i = 0; i < posted[round]; i++) {
            (void)snprintf(id, sizeof(id), "r%d-%d", round, i);
            post(gateway, id, (int64_t)random_below(&random, 3) * 20);
        }
        gateway_kill(gateway);
        gateway_destroy(&gateway);
    }
    gateway = start_one();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < posted[round]; i++) {
            (void)snprintf(id, sizeof(id), "r%d-%d", round, i);
            (void)snprintf(path, sizeof(path), "/%s", id);
            const struct reply *r = client_get_task(gateway->api, id);
            cr_assert_eq(r->status, 200, "%s: %d %s (CASES_SEED=%" PRIu64 ")", id, r->status, r->body, seed);
            task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
            cr_expect_geq(sink_count(sink, path), 1);
        }
    }
}

/* ------------------------------------------------------ in a blocked read */

/* What Redis gives to the connection of a dead process is noticed by the next recovery. */
Test(cases_crash, a_task_that_a_dead_gateways_blocked_read_takes_is_sent_by_another)
{
    char id[32], path[64];

    gateway = start_one();
    for (int i = 0; i < 15; i++) {
        second = start_one();
        (void)snprintf(id, sizeof(id), "taken-%d", i);
        (void)snprintf(path, sizeof(path), "/taken-%d", i);
        proc_signal(second->proc, SIGKILL); /* and not waiting for its end */
        post(gateway, id, 0);
        sink_wait(sink, path, 1, REDELIVER_MS);
        task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
        cr_assert_eq(proc_wait(second->proc, ARRIVE_MS), 128 + SIGKILL);
        proc_destroy(&second->proc);
        gateway_destroy(&second);
    }
}

/* --------------------------------------- dead, and its traces deleted too */

static void hold_and_kill(const char *id)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s", id);
    SINK_SCRIPT(sink, path, {.status = 200, .is_held = true}, {.status = 200});
    gateway = start_one();
    post(gateway, id, 0);
    sink_wait(sink, path, 1, ARRIVE_MS);
    gateway_kill(gateway);
}

static void expect_sent_again(const char *id)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s", id);
    second = start_one();
    sink_wait(sink, path, 2, REPAIR_MS);
    task_reaches(second->api, id, "delivered", ARRIVE_MS);
    cr_expect_eq(stat_of(second, "tasks.delivering"), 0);
    cr_expect_eq(stat_of(second, "tasks.ready"), 0);
}

Test(cases_crash, the_task_of_a_dead_gateway_survives_the_loss_of_its_group)
{
    hold_and_kill("group");
    redis_fixture_run(redis, "XGROUP DESTROY " KEY ":ready workers");
    expect_sent_again("group");
}

Test(cases_crash, the_task_of_a_dead_gateway_survives_the_loss_of_its_consumer)
{
    hold_and_kill("consumer");
    redisReply *r = redis_fixture_command(redis, "XINFO CONSUMERS " KEY ":ready workers");
    for (size_t i = 0; i < r->elements; i++)
        redis_fixture_run(redis, "XGROUP DELCONSUMER " KEY ":ready workers %s", r->element[i]->element[1]->str);
    freeReplyObject(r);
    expect_sent_again("consumer");
}

Test(cases_crash, the_task_of_a_dead_gateway_survives_the_loss_of_the_stream)
{
    hold_and_kill("stream");
    redis_fixture_run(redis, "DEL " KEY ":ready");
    expect_sent_again("stream");
}

/* ----------------------------------------------------------- odd signals */

Test(cases_crash, broken_pipes_and_ignored_signals_end_nothing)
{
    char id[32];

    gateway = start_one();
    for (int i = 0; i < 5; i++) {
        proc_signal(gateway->proc, SIGPIPE);
        proc_signal(gateway->proc, SIGHUP);
        redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
        const struct reply *r;
        for (int k = 0; k < 2; k++) {
            (void)snprintf(id, sizeof(id), "pipe-%d-%d", i, k);
            WAIT_UNTIL((r = try_post(gateway, id, 0))->status == 201 || r->status == 200, ARRIVE_MS);
            task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
        }
    }
    cr_assert(proc_is_running(gateway->proc));
}

/* ------------------------------------------------------- far due times */

/* 2^31 ms are 24.8 days: a timer that is cut to 32 bits fires at once, or spins. */
Test(cases_crash, due_times_beyond_what_timers_hold_are_waited_for)
{
    static const int64_t DAYS[] = {24, 25, 49, 50, 365, 3650};
    const int64_t day_ms = 24 * 3600 * 1000;
    char id[32];

    gateway = start_one();
    for (size_t i = sizeof(DAYS) / sizeof(*DAYS); i-- > 0;) { /* each earlier than all before, so each sets the timer */
        (void)snprintf(id, sizeof(id), "far-%" PRId64, DAYS[i]);
        post(gateway, id, DAYS[i] * day_ms);
    }
    long long before = redis_fixture_info(redis, "total_commands_processed");
    post(gateway, "sentinel", 2000);
    sink_wait(sink, "/sentinel", 1, ARRIVE_MS);
    long long spent = redis_fixture_info(redis, "total_commands_processed") - before;
    /* Those inside of scripts count, about sixty for the sentinel and some for each chore; a timer that fires at once
     * makes thousands. */
    cr_expect_leq(spent, 400, "%lld commands in two seconds of waiting", spent);
    cr_expect_eq(sink_count(sink, NULL), 1);
    int64_t next_ms = stat_of(gateway, "mover.next_due_in_ms");
    cr_expect(next_ms > 23 * day_ms && next_ms <= 24 * day_ms, "%" PRId64, next_ms);
}
