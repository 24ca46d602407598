/* How safe a new task is before it is answered, and what the answer says of it. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ARRIVE_MS 10000
#define WAIT_MS 1000 /* the longest wait for a disk or a replica */

static struct redis_fixture *redis, *replica;
static struct gateway *gateway;

static void teardown(void)
{
    gateway_destroy(&gateway);
    redis_fixture_destroy(&replica);
    redis_fixture_destroy(&redis);
}

TestSuite(durability, .fini = teardown, .timeout = 300);

static void start(bool aof, const char *setting)
{
    redis = redis_fixture_create(aof);
    gateway = gateway_run(redis_fixture_url(redis), setting ? "--durability" : NULL, setting, NULL);
}

/* A task far off; the member is left out when `durability` is NULL. */
static const struct reply *post(const char *id, const char *durability)
{
    char member[64] = "";

    if (durability)
        (void)snprintf(member, sizeof(member), ",\"durability\":\"%s\"", durability);
    const struct reply *r = client_post_task(
        gateway->api, "{\"id\":\"%s\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"%s}", id, member);
    cr_assert(r->status == 201 || r->status == 200, "%d %s", r->status, r->body);
    return r;
}

static bool is_durable(const char *id, const char *durability)
{
    const struct reply *r = post(id, durability);
    bool durable = json_bool_at(r->json, "durable");

    cr_expect_eq(client_get_task(gateway->api, id)->status, 200, "accepted and not there");
    return durable;
}

static void add_replica(void)
{
    int port = redis_fixture_open_port(redis);

    redis_fixture_run(redis, "CONFIG SET repl-diskless-sync-delay 0");
    replica = redis_fixture_create(false);
    redis_fixture_run(replica, "REPLICAOF 127.0.0.1 %d", port);
    /* Without a write to wait for, it is counted before the first commands go to it, up to a second later. */
    redis_fixture_run(redis, "SET a-write 1");
    WAIT_UNTIL(redis_fixture_integer(redis, "WAIT 1 50") == 1, ARRIVE_MS);
}

Test(durability, memory_promises_nothing)
{
    start(true, NULL);
    cr_expect_not(is_durable("a", NULL));
    cr_expect_not(is_durable("b", "memory"));
}

Test(durability, fsync_is_reached_when_every_write_is_synced)
{
    start(true, NULL);
    cr_expect(is_durable("a", "fsync"));
    cr_expect(is_durable("a", "fsync"), "the same again");
}

Test(durability, fsync_is_not_reached_without_an_append_only_file)
{
    start(false, NULL);
    const struct reply *r = post("a", "fsync");
    cr_expect_not(json_bool_at(r->json, "durable"));
    cr_expect_leq(r->duration_ms, wait_scaled_ms(2 * WAIT_MS));
}

Test(durability, replica_is_reached_when_one_has_it)
{
    start(true, NULL);
    add_replica();
    cr_expect(is_durable("a", "replica"));
    redisReply *kept = redis_fixture_command(replica, "EXISTS duepost{0}a");
    cr_expect_eq(kept->integer, 1);
    freeReplyObject(kept);
}

Test(durability, replica_is_not_reached_without_one_and_nobody_else_waits)
{
    start(true, NULL);
    const struct reply *r = post("a", "replica");
    cr_expect_not(json_bool_at(r->json, "durable"));
    cr_expect_geq(r->duration_ms, WAIT_MS - 100);
    cr_expect_leq(r->duration_ms, wait_scaled_ms(2 * WAIT_MS));
    cr_expect_eq(client_get_task(gateway->api, "a")->status, 200, "it is not undone");
    cr_expect_leq(post("b", NULL)->duration_ms, wait_scaled_ms(WAIT_MS / 2));
}

Test(durability, the_setting_is_for_tasks_that_do_not_say)
{
    start(true, "fsync");
    cr_expect(is_durable("a", NULL));
    cr_expect_not(is_durable("b", "memory"));
}

Test(durability, what_is_no_durability_is_refused)
{
    start(true, NULL);
    const struct reply *r =
        client_post_task(gateway->api, "{\"url\":\"http://127.0.0.1:9/\",\"durability\":\"%s\"}", "disk");
    cr_expect_eq(r->status, 400);
    cr_expect_str_eq(json_text_at(r->json, "errors.0.pointer"), "/durability");
}

Test(durability, a_redis_that_comes_back_keeps_the_promise)
{
    start(true, NULL);
    redis_fixture_kill(redis);
    redis_fixture_start(redis);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, ARRIVE_MS);
    WAIT_UNTIL(client_post_task(gateway->api,
                                "{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\","
                                "\"durability\":\"%s\"}",
                                "fsync")
                       ->status < 300,
               ARRIVE_MS);
    cr_expect(is_durable("b", "fsync"));
}
