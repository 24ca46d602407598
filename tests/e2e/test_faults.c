/* Faults under a running gateway: Redis forgets its scripts or everything, restarts, stands still or is not there yet;
 * a gateway is killed while it delivers; the embedded Redis and its gateway die one without the other. Each test ends
 * with work going on by itself. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/procfs.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define RECOVER_MS 5000
#define REFUSE_MS 2000

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;
static char *data_dir;

static void setup(void)
{
    sink = sink_create();
    data_dir = tmpdir_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
    tmpdir_destroy(&data_dir);
}

TestSuite(faults, .init = setup, .fini = teardown, .timeout = 300);

static void start_with_redis(void)
{
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

static const struct reply *try_post(struct gateway *g, const char *id, const char *path, int delay_ms)
{
    return client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d,\"retry\":{\"schedule\":[50]}}", id,
                            sink_url(sink, path), delay_ms);
}

static void post(struct gateway *g, const char *id, const char *path, int delay_ms)
{
    const struct reply *r = try_post(g, id, path, delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

/* A new task is accepted within the time promised for recovery, and arrives. */
static void expect_recovery(struct gateway *g, const char *id)
{
    const struct reply *r;

    WAIT_UNTIL((r = try_post(g, id, "/recovered", 0))->status == 201 || r->status == 200, RECOVER_MS);
    task_reaches(g->api, id, "delivered", ARRIVE_MS);
}

static void expect_refusal(const struct reply *r)
{
    cr_assert_eq(r->status, 503, "%d %s", r->status, r->body);
    cr_expect_leq(r->duration_ms, wait_scaled_ms(REFUSE_MS), "503 took %ld ms", r->duration_ms);
    cr_expect_str_eq(reply_header(r, "content-type"), "application/problem+json");
    cr_expect_str_eq(json_text_at(r->json, "code"), "store_unavailable");
    cr_assert_not_null(reply_header(r, "retry-after"), "no Retry-After");
    cr_expect_gt(strtol(reply_header(r, "retry-after"), NULL, 10), 0);
}

/* How the gateway behaves while Redis cannot be used. */
static void expect_live_but_refusing(struct gateway *g)
{
    expect_refusal(try_post(g, "refused", "/", 0));
    expect_refusal(client_get_task(g->api, "some"));
    expect_refusal(client_delete_task(g->api, "some"));
    cr_expect_eq(client_get(g->api, "/healthz")->status, 200);
    const struct reply *ready = client_get(g->api, "/readyz");
    cr_expect_eq(ready->status, 503, "%d %s", ready->status, ready->body);
    const struct reply *stats = client_get(g->api, "/stats");
    cr_assert_eq(stats->status, 200);
    cr_expect_leq(stats->duration_ms, wait_scaled_ms(1000), "/stats took %ld ms", stats->duration_ms);
    cr_expect_not(json_bool_at(stats->json, "redis.up"));
    cr_expect(json_null_at(stats->json, "tasks"));
    cr_expect(json_null_at(stats->json, "totals"));
}

Test(faults, forgotten_scripts_are_loaded_again)
{
    start_with_redis();
    for (int i = 0; i < 40; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "flush-%d", i);
        redis_fixture_run(redis, "SCRIPT FLUSH");
        post(gateway, id, "/flush", i % 4 * 10);
    }
    for (int i = 0; i < 40; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "flush-%d", i);
        redis_fixture_run(redis, "SCRIPT FLUSH");
        task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    }
    cr_assert_eq(sink_count(sink, "/flush"), 40);
}

Test(faults, an_emptied_redis_takes_new_tasks)
{
    start_with_redis();
    post(gateway, "before", "/before", 3600000);
    redis_fixture_run(redis, "FLUSHALL");
    expect_recovery(gateway, "after");
    post(gateway, "later", "/later", 100);
    task_reaches(gateway->api, "later", "delivered", ARRIVE_MS);
    cr_assert_eq(client_get_task(gateway->api, "before")->status, 404);
}

Test(faults, a_stream_deleted_by_hand_is_made_anew)
{
    start_with_redis();
    post(gateway, "before", "/before", 0);
    task_reaches(gateway->api, "before", "delivered", ARRIVE_MS);
    redisReply *found = redis_fixture_command(redis, "SCAN 0 COUNT 1000 TYPE stream");
    cr_assert_eq(found->element[1]->elements, 1, "one Stream was expected");
    redis_fixture_run(redis, "DEL %s", found->element[1]->element[0]->str);
    freeReplyObject(found);
    expect_recovery(gateway, "after");
}

Test(faults, cut_connections_are_made_again)
{
    start_with_redis();
    post(gateway, "pending", "/pending", 300);
    for (int i = 0; i < 5; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "cut-%d", i);
        redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
        expect_recovery(gateway, id);
    }
    task_reaches(gateway->api, "pending", "delivered", ARRIVE_MS);
    cr_assert(proc_is_running(gateway->proc));
}

Test(faults, pending_tasks_survive_a_restart_of_redis)
{
    start_with_redis();
    post(gateway, "due-meanwhile", "/due-meanwhile", 200);
    post(gateway, "due-later", "/due-later", 4000);
    redis_fixture_kill(redis);
    expect_live_but_refusing(gateway);
    redis_fixture_start(redis);
    expect_recovery(gateway, "new");
    task_reaches(gateway->api, "due-meanwhile", "delivered", ARRIVE_MS);
    task_reaches(gateway->api, "due-later", "delivered", ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/due-meanwhile"), 1);
    cr_assert_eq(sink_count(sink, "/due-later"), 1);
    /* One delivery thread is enough for the above; the other may still wait before it connects again. */
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, RECOVER_MS);
}

Test(faults, a_redis_that_stands_still_is_refused_in_time_and_used_again)
{
    start_with_redis();
    post(gateway, "pending", "/pending", 500);
    redis_fixture_pause(redis);
    expect_live_but_refusing(gateway);
    redis_fixture_resume(redis);
    expect_recovery(gateway, "after");
    task_reaches(gateway->api, "pending", "delivered", ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/pending"), 1);
}

Test(faults, an_outcome_is_kept_until_redis_is_back)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    start_with_redis();
    post(gateway, "held", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    redis_fixture_kill(redis);
    sink_release(sink);
    expect_refusal(client_get_task(gateway->api, "held"));
    redis_fixture_start(redis);
    task_reaches(gateway->api, "held", "delivered", 2 * ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/held"), 1, "the outcome was known, there was nothing to repeat");
}

Test(faults, a_gateway_without_redis_is_live_and_becomes_ready)
{
    redis = redis_fixture_create_stopped(true);
    gateway = gateway_start_unready(&(struct gateway_opts){.redis = redis_fixture_url(redis)});
    expect_live_but_refusing(gateway);
    cr_expect_null(strstr(proc_stdout(gateway->proc), "ready"), "it says ready without a Redis");
    redis_fixture_start(redis);
    char *url = proc_wait_ready(gateway->proc, RECOVER_MS);
    cr_expect_str_eq(url, gateway->url);
    free(url);
    expect_recovery(gateway, "first");
    cr_assert_eq(client_get(gateway->api, "/readyz")->status, 200);
}

Test(faults, tasks_of_a_killed_gateway_are_delivered_by_another)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true}, {.status = 200});
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    post(gateway, "claimed", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    /* Which of the two has it is not known, so both go; a third must find it. */
    gateway_kill(gateway);
    gateway_kill(second);
    struct gateway *third = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    const struct sink_request *again = sink_wait(sink, "/held", 2, 1000 + 5000);
    cr_expect_str_eq(sink_header(again, "webhook-id"), "claimed");
    json_t *task = task_reaches(third->api, "claimed", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 1, "only attempts that ended count");
    json_t *stats = client_get(third->api, "/stats")->json;
    cr_expect_eq(json_integer_at(stats, "totals.recovered"), 1);
    cr_expect_eq(json_integer_at(stats, "tasks.delivering"), 0);
    gateway_destroy(&third);
}

Test(faults, a_pending_task_outlives_a_killed_gateway)
{
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post(gateway, "pending", "/pending", 1000);
    gateway_kill(gateway);
    second = gateway_run(redis_fixture_url(redis), NULL);
    sink_wait(sink, "/pending", 1, ARRIVE_MS);
    task_reaches(second->api, "pending", "delivered", ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/pending"), 1);
}

Test(faults, a_delivery_longer_than_claim_idle_is_not_robbed)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    post(gateway, "long", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    post(gateway, "sentinel", "/sentinel", 3500);
    sink_wait(sink, "/sentinel", 1, ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/held"), 1);
    sink_release(sink);
    task_reaches(gateway->api, "long", "delivered", ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/held"), 1);
    cr_assert_eq(json_integer_at(client_get(gateway->api, "/stats")->json, "totals.recovered"), 0);
}

static struct gateway *start_embedded(void)
{
    return gateway_start(&(struct gateway_opts){.data_dir = data_dir});
}

Test(faults, the_embedded_redis_keeps_tasks_over_a_restart)
{
    gateway = start_embedded();
    post(gateway, "kept", "/kept", 1000);
    gateway_stop(gateway);
    second = start_embedded();
    sink_wait(sink, "/kept", 1, ARRIVE_MS);
    task_reaches(second->api, "kept", "delivered", ARRIVE_MS);
}

Test(faults, the_embedded_redis_comes_back_when_it_dies_alone)
{
    gateway = start_embedded();
    pid_t child = procfs_child(proc_pid(gateway->proc));
    cr_assert_gt(child, 0, "the gateway has no child");
    kill(child, SIGKILL);
    WAIT_UNTIL(!procfs_is_alive(child), RECOVER_MS);
    expect_recovery(gateway, "after");
    cr_assert_neq(procfs_child(proc_pid(gateway->proc)), child);
}

Test(faults, a_second_gateway_on_one_data_dir_is_refused)
{
    gateway = start_embedded();
    const char *const args[] = {"serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir, NULL};
    struct proc *refused;
    int code = gateway_exit_code(args, NULL, &refused);

    cr_expect_eq(code, 1, "exit code %d: %s", code, proc_stderr(refused));
    cr_expect_not_null(strstr(proc_stderr(refused), data_dir), "the folder is not named: %s", proc_stderr(refused));
    proc_destroy(&refused);
    expect_recovery(gateway, "undisturbed");
}

Test(faults, the_embedded_redis_ends_with_a_killed_gateway)
{
    gateway = start_embedded();
    post(gateway, "kept", "/kept", 3600000);
    pid_t child = procfs_child(proc_pid(gateway->proc));
    cr_assert_gt(child, 0, "the gateway has no child");
    gateway_kill(gateway);
    WAIT_UNTIL(!procfs_is_alive(child), RECOVER_MS);
    second = start_embedded();
    expect_recovery(second, "after");
}
