/* Faults of Redis that others met, each turned into a small case: blocked reads that end oddly, links that die without
 * a word, a server that is busy, paused, a replica for a while, part of a cluster, or shared with somebody's own group.
 */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/proxy.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 15000
#define RECOVER_MS 5000
#define REFUSE_MS 2000
#define KEY "duepost{0}"

static struct redis_fixture *redis;
static struct proxy *proxy;
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
    proxy_destroy(&proxy);
    redis_fixture_destroy(&redis);
}

TestSuite(cases_redis, .init = setup, .fini = teardown, .timeout = 600);

static const struct reply *try_post(struct gateway *g, const char *id, int delay_ms)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s", id);
    return client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d}", id, sink_url(sink, path), delay_ms);
}

static void post(struct gateway *g, const char *id, int delay_ms)
{
    const struct reply *r = try_post(g, id, delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static void expect_refusal(const char *id)
{
    const struct reply *r = try_post(gateway, id, 0);

    cr_assert_eq(r->status, 503, "%d %s", r->status, r->body);
    cr_expect_leq(r->duration_ms, wait_scaled_ms(REFUSE_MS), "503 took %ld ms", r->duration_ms);
    cr_expect_not_null(reply_header(r, "retry-after"));
}

/* The next task is accepted and delivered, without a restart. */
static void expect_recovery(const char *id)
{
    const struct reply *r;

    WAIT_UNTIL((r = try_post(gateway, id, 0))->status == 201 || r->status == 200, RECOVER_MS);
    task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    cr_assert(proc_is_running(gateway->proc));
}

static int64_t stat_of(const char *name)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, name);
}

static void pass_ms(int64_t ms)
{
    int64_t until_ms = wait_mono_ms() + ms;

    WAIT_UNTIL(wait_mono_ms() >= until_ms, ms + 1000);
}

/* -------------------------------------------------------- blocked reads */

/* Every normal client that waits is told that something is wrong. */
static void unblock_readers(void)
{
    redisReply *list = redis_fixture_command(redis, "CLIENT LIST TYPE normal");

    for (const char *line = list->str; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        redis_fixture_run(redis, "CLIENT UNBLOCK %ld ERROR", strtol(line + strlen("id="), NULL, 10));
    freeReplyObject(list);
}

Test(cases_redis, whatever_ends_a_blocked_read_ends_no_reader)
{
    char id[32];

    gateway = gateway_run(redis_fixture_url(redis), NULL);
    expect_recovery("first");
    for (int i = 0; i < 5; i++) {
        redis_fixture_run(redis, "DEL " KEY ":ready");
        (void)snprintf(id, sizeof(id), "deleted-%d", i);
        expect_recovery(id);
        unblock_readers();
        (void)snprintf(id, sizeof(id), "unblocked-%d", i);
        expect_recovery(id);
        redis_fixture_run(redis, "REPLICAOF 127.0.0.1 1");
        redis_fixture_run(redis, "REPLICAOF NO ONE");
        (void)snprintf(id, sizeof(id), "demoted-%d", i);
        expect_recovery(id);
    }
}

Test(cases_redis, a_replica_takes_no_tasks_until_it_is_a_master_again)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post(gateway, "pending", 1000);
    redis_fixture_run(redis, "REPLICAOF 127.0.0.1 1");
    int64_t until_ms = wait_mono_ms() + 3000;
    while (wait_mono_ms() < until_ms)
        expect_refusal("meanwhile");
    redis_fixture_run(redis, "REPLICAOF NO ONE");
    expect_recovery("after");
    task_reaches(gateway->api, "pending", "delivered", ARRIVE_MS);
}

Test(cases_redis, a_pause_longer_than_a_blocked_read_is_outlived)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post(gateway, "pending", 2000);
    redis_fixture_run(redis, "CLIENT PAUSE 8000 ALL");
    expect_refusal("meanwhile");
    sink_wait(sink, "/pending", 1, ARRIVE_MS);
    expect_recovery("after");
    task_reaches(gateway->api, "pending", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/pending"), 1);
}

/* The answer to a blocked read never comes, and with it the task: a watchdog drops the connection, and the task is
 * found among the worker's own entries. */
Test(cases_redis, the_lost_answer_of_a_blocked_read_is_found_again)
{
    proxy = proxy_create(redis_fixture_socket(redis));
    gateway = gateway_run(proxy_url(proxy), NULL);
    expect_recovery("first");
    cr_assert_gt(proxy_silence(proxy, PROXY_READER), 0);
    post(gateway, "lost", 0);
    sink_wait(sink, "/lost", 1, 5000 + 1000 + RECOVER_MS); /* the block, the watchdog's patience, the new connection */
    task_reaches(gateway->api, "lost", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/lost"), 1);
    cr_expect_eq(stat_of("totals.recovered"), 0);
}

/* The mover does not hear that another gateway has scheduled something: it is late by its poll at the most, and the
 * connection on which it should have heard is replaced. */
Test(cases_redis, a_wake_up_call_that_never_comes_costs_a_second_at_the_most)
{
    proxy = proxy_create(redis_fixture_socket(redis));
    gateway = gateway_run(proxy_url(proxy), NULL);
    post(gateway, "far", 3600000); /* what the mover sleeps for */
    cr_assert_eq(proxy_silence(proxy, PROXY_WAKE), 1);
    for (int i = 0; i < 3; i++) {
        char id[32], path[32];
        (void)snprintf(id, sizeof(id), "deaf-%d", i);
        (void)snprintf(path, sizeof(path), "/deaf-%d", i);
        second = gateway_run(redis_fixture_url(redis), NULL);
        post(second, id, 700);
        gateway_kill(second); /* so that it does not move the task itself */
        gateway_destroy(&second);
        int64_t due_us = time_to_ms(json_text_at(client_get_task(gateway->api, id)->json, "run_at")) * 1000;
        int64_t late_us = sink_wait(sink, path, 1, ARRIVE_MS)->arrived_us - due_us;
        cr_expect_geq(late_us, 0, "%lld us early", (long long)-late_us);
        cr_expect_leq(late_us, wait_scaled_ms(1000) * 1000, "%lld us late", (long long)late_us);
    }
    WAIT_UNTIL(strstr(proc_stderr(gateway->proc), "conn=wake why="), ARRIVE_MS);
    WAIT_UNTIL(strstr(strstr(proc_stderr(gateway->proc), "conn=wake why="), "redis.up conn=wake"), RECOVER_MS);
}

/* ----------------------------------------------------------- quietness */

Test(cases_redis, idle_gateways_keep_their_connections_and_say_nothing)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    second = gateway_run(redis_fixture_url(redis), NULL);
    expect_recovery("first");
    size_t said = strlen(proc_stderr(gateway->proc)), second_said = strlen(proc_stderr(second->proc));
    long long before = redis_fixture_info(redis, "total_connections_received");
    pass_ms(13000); /* two blocked reads, and every other interval there is */
    cr_expect_eq(redis_fixture_info(redis, "total_connections_received"), before);
    cr_expect_eq(strlen(proc_stderr(gateway->proc)), said, "%s", proc_stderr(gateway->proc) + said);
    cr_expect_eq(strlen(proc_stderr(second->proc)), second_said, "%s", proc_stderr(second->proc) + second_said);
    expect_recovery("after");
}

/* --------------------------------------------------- a server in a state */

/* Somebody's script that does not end: Redis answers BUSY to everybody else. */
Test(cases_redis, a_busy_redis_is_waited_for)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post(gateway, "pending", 500);
    redis_fixture_run(redis, "CONFIG SET lua-time-limit 50");
    redisContext *other = redisConnectUnix(redis_fixture_socket(redis));
    int is_done = 0;
    cr_assert_eq(redisAppendCommand(other, "EVAL %s 0", "while true do end"), REDIS_OK);
    while (!is_done)
        cr_assert_eq(redisBufferWrite(other, &is_done), REDIS_OK);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 503, RECOVER_MS);
    expect_refusal("meanwhile");
    redis_fixture_run(redis, "SCRIPT KILL");
    redisFree(other);
    expect_recovery("after");
    task_reaches(gateway->api, "pending", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/pending"), 1);
}

/* A group that nobody reads must not keep entries alive: ours are deleted, not only acknowledged. */
Test(cases_redis, a_foreign_group_on_the_stream_holds_nothing_back)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    expect_recovery("first");
    redis_fixture_run(redis, "XGROUP CREATE " KEY ":ready foreign 0");
    for (int i = 0; i < 50; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "t-%d", i);
        post(gateway, id, i);
    }
    WAIT_UNTIL(stat_of("totals.delivered") == 51, ARRIVE_MS);
    cr_expect_eq(redis_fixture_integer(redis, "XLEN " KEY ":ready"), 0);
}

/* -------------------------------------------------------------- evicted */

/* What a Redis that evicts has dropped is gone, and nothing else is. */
Test(cases_redis, records_that_vanish_while_they_wait_are_counted_and_hold_nothing_up)
{
    enum { TASKS = 200 };
    char id[32], path[64];

    gateway = gateway_run(redis_fixture_url(redis), NULL);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(id, sizeof(id), "t-%d", i);
        post(gateway, id, 2000 + i);
    }
    for (int i = 0; i < TASKS; i += 2)
        redis_fixture_run(redis, "DEL " KEY "t-%d", i);
    WAIT_UNTIL(stat_of("totals.delivered") == TASKS / 2 && stat_of("totals.orphans") == TASKS / 2, ARRIVE_MS);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(path, sizeof(path), "/t-%d", i);
        cr_expect_eq(sink_count(sink, path), i % 2 == 0 ? 0U : 1U, "task %d", i);
    }
    cr_expect_eq(stat_of("tasks.scheduled"), 0);
    cr_expect_eq(stat_of("tasks.ready"), 0);
    cr_expect_eq(stat_of("tasks.delivering"), 0);
}

/* ------------------------------------------------------------- cluster */

/* A node of a cluster that serves none of our keys: not ready, and the log says why. All keys of a partition have one
 * hash tag, so a node that serves that does. */
Test(cases_redis, a_cluster_node_is_used_when_it_serves_our_keys_and_not_before)
{
    char *dir = tmpdir_create(), *socket = tmpdir_path(dir, "redis.sock"), *url = NULL;
    const char *const argv[] = {
        "redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--cluster-enabled", "yes",
        "--appendonly", "yes",    NULL};
    struct proc *server = proc_start(argv, NULL, NULL);
    redisContext *c = NULL;

    cr_assert(asprintf(&url, "unix://%s", socket) > 0);
    WAIT_UNTIL((c = redisConnectUnix(socket))->err == 0 || (redisFree(c), false), RECOVER_MS);
    gateway = gateway_start_unready(&(struct gateway_opts){.redis = url});
    expect_refusal("meanwhile");
    cr_expect_eq(client_get(gateway->api, "/readyz")->status, 503);
    cr_expect_not_null(strstr(proc_stderr(gateway->proc), "CLUSTERDOWN"), "%s", proc_stderr(gateway->proc));
    redisReply *r = redisCommand(c, "CLUSTER ADDSLOTSRANGE 0 16383");
    cr_assert(r && r->type == REDIS_REPLY_STATUS);
    freeReplyObject(r);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, 2 * RECOVER_MS);
    expect_recovery("after");
    cr_expect_eq(client_delete_task(gateway->api, "after")->status, 409);
    gateway_destroy(&gateway);
    redisFree(c);
    proc_destroy(&server);
    tmpdir_destroy(&dir);
    free(socket);
    free(url);
}
