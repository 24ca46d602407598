/* /readyz is 503 with the reason in every state in which tasks cannot be accepted or delivered, and 200 soon after;
 * what the settings of a Redis can cost is said at the start. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARRIVE_MS 10000
#define NOTICE_MS 5000

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

TestSuite(readiness, .init = setup, .fini = teardown, .timeout = 300);

static int readiness(void)
{
    return client_get(gateway->api, "/readyz")->status;
}

static void post(const char *id, const char *path)
{
    const struct reply *r = client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\"}", id, sink_url(sink, path));

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

Test(readiness, it_follows_what_redis_can_do)
{
    static const struct {
        const char *state, *begin, *end;
    } cases[] = {{"a replica", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
                 {"out of memory", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
                 {"too few replicas", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"}};

    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        cr_assert_eq(readiness(), 200, "before %s", cases[i].state);
        redis_fixture_run(redis, cases[i].begin);
        WAIT_UNTIL(readiness() == 503, NOTICE_MS);
        const struct reply *r = client_get(gateway->api, "/readyz");
        cr_expect_str_eq(json_text_at(r->json, "status"), "unready", "%s", cases[i].state);
        cr_expect_not_null(strstr(r->body, "store"), "%s gives no reason: %s", cases[i].state, r->body);
        cr_expect_not_null(reply_header(r, "retry-after"));
        cr_expect_eq(client_get(gateway->api, "/healthz")->status, 200, "%s", cases[i].state);
        redis_fixture_run(redis, cases[i].end);
        WAIT_UNTIL(readiness() == 200, NOTICE_MS);
    }
    post("after", "/after");
    sink_wait(sink, "/after", 1, ARRIVE_MS);
}

Test(readiness, it_ends_while_redis_stands_still)
{
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    redis_fixture_pause(redis);
    WAIT_UNTIL(readiness() == 503, NOTICE_MS);
    redis_fixture_resume(redis);
    WAIT_UNTIL(readiness() == 200, NOTICE_MS);
}

Test(readiness, it_stays_while_scripts_are_forgotten)
{
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    for (int i = 0; i < 20; i++) {
        redis_fixture_run(redis, "SCRIPT FLUSH");
        cr_assert_eq(readiness(), 200);
    }
}

Test(readiness, an_outcome_is_written_though_redis_is_out_of_memory)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true}, {.status = 500, .is_held = true}, {.status = 200});
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post("good", "/held");
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    post("bad", "/held");
    sink_wait(sink, "/held", 2, ARRIVE_MS);
    redis_fixture_run(redis, "CONFIG SET maxmemory 1");
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes"); /* also connections made now must do */
    sink_release(sink);
    task_reaches(gateway->api, "good", "delivered", ARRIVE_MS);
    task_reaches(gateway->api, "bad", "scheduled", ARRIVE_MS);
    cr_expect_eq(readiness(), 503);
    redis_fixture_run(redis, "CONFIG SET maxmemory 0");
    task_reaches(gateway->api, "bad", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/held"), 3);
}

/* Nobody can renew a claim then, so silence is no sign of death. */
Test(readiness, a_delivery_is_not_robbed_after_redis_took_no_writes)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    post("long", "/held");
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    redis_fixture_run(redis, "CONFIG SET min-replicas-to-write 1");
    WAIT_UNTIL(json_integer_at(client_get(gateway->api, "/stats")->json, "tasks.oldest_delivering_ms") > 2500,
               ARRIVE_MS);
    redis_fixture_run(redis, "CONFIG SET min-replicas-to-write 0");
    WAIT_UNTIL(json_integer_at(client_get(gateway->api, "/stats")->json, "tasks.oldest_delivering_ms") > 5000,
               ARRIVE_MS);
    cr_assert_eq(sink_count(sink, "/held"), 1);
    sink_release(sink);
    task_reaches(gateway->api, "long", "delivered", ARRIVE_MS);
    cr_assert_eq(json_integer_at(client_get(gateway->api, "/stats")->json, "totals.recovered"), 0);
}

Test(readiness, a_redis_that_can_lose_tasks_is_warned_of)
{
    redis = redis_fixture_create(false);
    redis_fixture_run(redis, "CONFIG SET maxmemory-policy allkeys-lru");
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    WAIT_UNTIL(strstr(proc_stderr(gateway->proc), "redis.evicts maxmemory_policy=\"allkeys-lru\""), NOTICE_MS);
    cr_expect_not_null(strstr(proc_stderr(gateway->proc), "redis.forgets appendonly=no"));
}

Test(readiness, a_redis_that_keeps_tasks_is_not)
{
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    cr_expect_null(strstr(proc_stderr(gateway->proc), "redis.evicts"), "%s", proc_stderr(gateway->proc));
    cr_expect_null(strstr(proc_stderr(gateway->proc), "redis.forgets"), "%s", proc_stderr(gateway->proc));
}

/* Its INFO says aof_enabled:0 until it has read the append-only file. */
Test(readiness, a_redis_that_still_reads_its_data_is_no_alarm)
{
    redis = redis_fixture_create(true);
    redis_fixture_run(redis, "EVAL %s 0", "for i = 1, 10000 do redis.call('SET', 'some:' .. i, i) end");
    redis_fixture_kill(redis);
    redis_fixture_load_slowly(redis, 100);
    redis_fixture_launch(redis);
    WAIT_UNTIL(access(redis_fixture_socket(redis), F_OK) == 0, NOTICE_MS);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    WAIT_UNTIL(readiness() == 200, ARRIVE_MS);
    cr_expect_not_null(strstr(proc_stderr(gateway->proc), "info redis.loading"), "%s", proc_stderr(gateway->proc));
    cr_expect_null(strstr(proc_stderr(gateway->proc), " warn redis."), "%s", proc_stderr(gateway->proc));
}

Test(readiness, a_redis_is_found_by_its_name)
{
    char url[64];

    redis = redis_fixture_create(true);
    (void)snprintf(url, sizeof(url), "redis://localhost:%d", redis_fixture_open_port(redis));
    gateway = gateway_run(url, NULL);
    post("by-name", "/by-name");
    (void)sink_wait(sink, "/by-name", 1, ARRIVE_MS);
}

Test(readiness, a_redis_whose_name_nobody_knows_leaves_the_gateway_live_but_not_ready)
{
    const struct reply *r = NULL;

    gateway = gateway_start_unready(&(struct gateway_opts){.redis = "redis://redis.invalid:6379"});
    cr_expect_eq(client_get(gateway->api, "/healthz")->status, 200);
    cr_expect_eq(readiness(), 503);
    r = client_post_task(gateway->api, "{\"url\":\"%s\"}", sink_url(sink, "/"));
    cr_expect_eq(r->status, 503, "%d %s", r->status, r->body);
    cr_expect_leq(r->duration_ms, wait_scaled_ms(3000));
}
