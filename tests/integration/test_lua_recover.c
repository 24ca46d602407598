#include "../support/lua_fixture.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MS 15000

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_recover, .init = set_up, .fini = tear_down);

static void heartbeat(const char *gateway, int64_t claim_idle_ms, int64_t age_ms)
{
    redis_fixture_run(lua_redis(lua), "HSET %s:workers %s %s", lua_keys(lua)->base, gateway, "0 0");
    char text[64];
    (void)snprintf(text, sizeof(text), "%lld %lld", (long long)claim_idle_ms, (long long)(lua_now_ms(lua) - age_ms));
    redis_fixture_run(lua_redis(lua), "HSET %s:workers %s %s", lua_keys(lua)->base, gateway, text);
}

static bool has_heartbeat(const char *gateway)
{
    return redis_fixture_integer(lua_redis(lua), "HEXISTS %s:workers %s", lua_keys(lua)->base, gateway) == 1;
}

static bool has_consumer(const char *name)
{
    redisReply *r = redis_fixture_command(lua_redis(lua), "XINFO CONSUMERS %s %s", lua_keys(lua)->ready, KEYS_GROUP);
    bool found = false;

    for (size_t i = 0; i < r->elements; i++)
        found = found || strcmp(r->element[i]->element[1]->str, name) == 0;
    freeReplyObject(r);
    return found;
}

LUA_TEST(lua_recover, a_silent_workers_task_is_scheduled_and_due_at_once)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 1);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_eq(t->takeovers, 1);
    cr_expect_eq(t->attempts, 0);
    cr_expect_neq(t->generation, e.lease.generation);
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), 1);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready), 0);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

LUA_TEST(lua_recover, a_task_that_was_read_and_never_claimed_is_taken_back_too)
{
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
}

LUA_TEST(lua_recover, a_record_that_breaks_off_holds_up_no_other)
{
    struct lua_entry broken = lua_start(lua, "a", "mail", "g/1"), e = lua_start(lua, "b", "mail", "g/1");
    redisReply *head = redis_fixture_command(lua_redis(lua), "GETRANGE %sa 0 19", lua_keys(lua)->base);

    redis_fixture_run(lua_redis(lua), "SET %sa %b", lua_keys(lua)->base, head->str, head->len);
    freeReplyObject(head);
    lua_make_idle(lua, &broken, "g/1", IDLE_MS);
    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 2);
    cr_expect_eq(lua_state(lua, "b"), TASK_SCHEDULED);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
    redis_fixture_run(lua_redis(lua), "DEL %sa", lua_keys(lua)->base); /* nothing counts it any more */
}

LUA_TEST(lua_recover, a_task_that_nobody_read_is_left_alone)
{
    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_recover(lua, "h", 1000), 0);
    cr_expect_eq(lua_state(lua, "a"), TASK_READY);
}

LUA_TEST(lua_recover, a_worker_that_was_silent_for_less_keeps_its_task)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", IDLE_MS / 2);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 0);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERING);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), 0);
}

LUA_TEST(lua_recover, what_was_renewed_is_kept)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", 2 * IDLE_MS);
    cr_assert_eq(lua_renew(lua, "g/1", &e, 1), 1);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 0);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
}

/* A gateway with a longer claim-idle renews more rarely: others must not take that for death. */
LUA_TEST(lua_recover, silence_is_measured_by_the_owners_own_claim_idle)
{
    struct lua_entry slow = lua_start(lua, "slow", "mail", "patient/1");
    struct lua_entry fast = lua_start(lua, "fast", "mail", "hasty/1");

    heartbeat("patient", 60000, 0);
    heartbeat("hasty", 2000, 0);
    lua_make_idle(lua, &slow, "patient/1", 30000);
    lua_make_idle(lua, &fast, "hasty/1", 5000);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 1);
    cr_expect_eq(lua_state(lua, "slow"), TASK_DELIVERING);
    cr_expect_eq(lua_state(lua, "fast"), TASK_SCHEDULED);
}

LUA_TEST(lua_recover, an_owner_without_a_heartbeat_is_measured_by_ours)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "unknown/1");

    lua_make_idle(lua, &e, "unknown/1", 3000);
    cr_expect_eq(lua_recover(lua, "h", 4000), 0);
    cr_expect_eq(lua_recover(lua, "h", 2000), 1);
}

LUA_TEST(lua_recover, a_second_look_takes_nothing_twice)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    cr_assert_eq(lua_recover(lua, "h", IDLE_MS), 1);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 0);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), 1);
}

LUA_TEST(lua_recover, a_task_that_was_asked_to_be_cancelled_is_cancelled)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_CANCELLED);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 1);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 0);
}

LUA_TEST(lua_recover, a_task_cancelled_after_it_was_read_only_loses_its_entry)
{
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_READY);
    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    lua_recover(lua, "h", IDLE_MS);
    cr_expect_eq(lua_state(lua, "a"), TASK_CANCELLED);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), 0);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready), 0);
}

LUA_TEST(lua_recover, after_ten_takeovers_the_task_is_dead)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    int64_t before = lua_now_ms(lua);

    for (int i = 1; i < TASK_TAKEOVERS_MAX; i++) {
        lua_make_idle(lua, &e, "g/1", IDLE_MS);
        cr_assert_eq(lua_recover(lua, "h", IDLE_MS), 1);
        cr_assert_eq(lua_state(lua, "a"), TASK_SCHEDULED, "after %d takeovers", i);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
    }
    lua_make_idle(lua, &e, "g/1", IDLE_MS);
    cr_assert_eq(lua_recover(lua, "h", IDLE_MS), 1);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_DEAD);
    cr_expect_eq(t->attempts, 0);
    cr_assert_eq(t->history_count, 1);
    cr_expect_str_eq(t->history[0].error, "worker_lost");
    cr_expect_eq(t->history[0].error_kind, TASK_ERROR_WORKER_LOST);
    cr_expect_eq(t->history[0].lateness_us, TASK_TIME_NONE);
    cr_expect_eq(t->history[0].status, 0);
    cr_expect_geq(t->history[0].at_ms, before);
    cr_expect_eq(t->history[0].at_ms, t->when_ms);
    cr_expect_str_eq(t->body, "hello");
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), TASK_TAKEOVERS_MAX);
    cr_expect_eq(lua_counter(lua, "totals", "dead"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "attempts"), 0);
}

LUA_TEST(lua_recover, several_queues_are_taken_back_in_one_call)
{
    struct lua_entry a = lua_start(lua, "a", "mail", "g/1"), b = lua_start(lua, "b", "sms", "g/1");
    struct lua_entry c = lua_start(lua, "c", "mail", "g/2");

    lua_make_idle(lua, &a, "g/1", IDLE_MS);
    lua_make_idle(lua, &b, "g/1", IDLE_MS);
    lua_make_idle(lua, &c, "g/2", IDLE_MS);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 3);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0);
    cr_expect_eq(lua_counter(lua, "busy", "sms"), 0);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 3);
}

/* Look at `limit` entries from `cursor`; gives the next cursor; free(). */
static char *recover_some(const char *cursor, int limit, int64_t *count, bool heartbeat_only)
{
    struct call *c = lua_begin(lua, SCRIPT_RECOVER);

    call_begin_args(c, lua_keys(lua));
    call_add_str(c, "h");
    call_add_int(c, IDLE_MS);
    call_add_str(c, cursor);
    call_add_int(c, limit);
    call_add_int(c, TASK_TAKEOVERS_MAX);
    call_add_str(c, "\x0a........");
    call_add_str(c, heartbeat_only ? "1" : "0");
    redisReply *r = lua_send(lua);
    char *next = strdup(r->element[0]->str);
    *count = r->element[1]->integer;
    freeReplyObject(r);
    return next;
}

LUA_TEST(lua_recover, a_long_list_is_looked_at_in_steps)
{
    struct lua_entry e[7];
    char id[24], *cursor = strdup("-");
    int64_t count, sum = 0;
    int steps = 0;

    for (int i = 0; i < 7; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        e[i] = lua_start(lua, id, "mail", "g/1");
    }
    heartbeat("g", 60000, 0);
    for (int i = 0; i < 7; i++)
        lua_make_idle(lua, &e[i], "g/1", i % 2 ? 90000 : 30000); /* dead and alive in turn */
    do {
        char *next = recover_some(cursor, 2, &count, false);
        free(cursor);
        cursor = next;
        sum += count;
        steps++;
    } while (strcmp(cursor, "-") != 0 && steps < 20);
    free(cursor);
    cr_expect_eq(sum, 3);
    cr_expect_eq(steps, 4);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), 3);
}

LUA_TEST(lua_recover, a_heartbeat_alone_takes_nothing_back)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    int64_t count;

    lua_make_idle(lua, &e, "g/1", 2 * IDLE_MS);
    free(recover_some("-", 100, &count, true));
    cr_expect_eq(count, 0);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERING);
    cr_expect(has_heartbeat("h"));
}

/* ------------------------------------------------------------------- consumers */

LUA_TEST(lua_recover, consumers_of_a_dead_gateway_are_removed_once_they_hold_nothing)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "dead/1");

    heartbeat("dead", IDLE_MS, 200000);
    cr_assert_eq(lua_recover(lua, "h", IDLE_MS), 0, "its entry was read just now");
    cr_expect(has_consumer("dead/1"));
    cr_expect(has_heartbeat("dead"));
    lua_make_idle(lua, &e, "dead/1", IDLE_MS);
    cr_assert_eq(lua_recover(lua, "h", IDLE_MS), 1);
    cr_expect_not(has_consumer("dead/1"));
    cr_expect_not(has_heartbeat("dead"));
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
}

LUA_TEST(lua_recover, consumers_of_a_living_gateway_stay)
{
    struct lua_entry none[1];

    heartbeat("alive", IDLE_MS, 100000); /* ten times its claim-idle have not passed */
    cr_assert_eq(lua_read(lua, "alive/1", none, 1), 0);
    redis_fixture_run(lua_redis(lua), "XGROUP CREATECONSUMER %s %s alive/2", lua_keys(lua)->ready, KEYS_GROUP);
    lua_recover(lua, "h", IDLE_MS);
    cr_expect(has_consumer("alive/2"));
    cr_expect(has_heartbeat("alive"));
    cr_expect(has_heartbeat("h"));
}

LUA_TEST(lua_recover, the_entry_of_a_consumer_is_never_lost_with_it)
{
    struct lua_entry a = lua_start(lua, "a", "mail", "dead/1");

    lua_start(lua, "b", "mail", "dead/2");
    heartbeat("dead", IDLE_MS, 200000);
    lua_make_idle(lua, &a, "dead/1", IDLE_MS);
    cr_expect_eq(lua_recover(lua, "h", IDLE_MS), 1);
    cr_expect_not(has_consumer("dead/1"));
    cr_expect(has_consumer("dead/2"));
    cr_expect(has_heartbeat("dead"), "it is looked at again");
    cr_expect_eq(lua_state(lua, "b"), TASK_DELIVERING);
}

LUA_TEST(lua_recover, a_thousand_restarts_leave_no_consumers)
{
    char name[48];

    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "gone-%d", i);
        redis_fixture_run(lua_redis(lua), "HSET %s:workers %s %s", lua_keys(lua)->base, name, "15000 1");
        redis_fixture_run(lua_redis(lua), "XGROUP CREATECONSUMER %s %s %s/0", lua_keys(lua)->ready, KEYS_GROUP, name);
    }
    lua_recover(lua, "h", IDLE_MS);
    redisReply *r = redis_fixture_command(lua_redis(lua), "XINFO CONSUMERS %s %s", lua_keys(lua)->ready, KEYS_GROUP);
    cr_expect_eq(r->elements, 0);
    freeReplyObject(r);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "HLEN %s:workers", lua_keys(lua)->base), 1);
}
