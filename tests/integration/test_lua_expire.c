#include "../support/lua_ends.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON_MS 5000
#define HOUR_US INT64_C(3600000000)

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_expire, .init = set_up, .fini = tear_down);

static void add(const char *id, const char *due, int64_t expires_in_ms)
{
    lua_add_ending(lua, &(struct lua_ending){.id = id, .due = due, .queue = "mail", .expires_in_ms = expires_in_ms});
}

static int64_t index_size(void)
{
    return redis_fixture_integer(lua_redis(lua), "ZCARD %s:expiry", lua_keys(lua)->base);
}

static bool is_lane_indexed(void)
{
    redisReply *r = redis_fixture_command(lua_redis(lua), "ZSCORE %s :expiry", lua_keys(lua)->lanes);
    bool is_there = r->type != REDIS_REPLY_NIL;

    freeReplyObject(r);
    return is_there;
}

static void expect_expired(const char *id)
{
    struct task *t = lua_task(lua, id);

    cr_assert_not_null(t);
    cr_expect_eq(t->state, TASK_EXPIRED, "%s is %s", id, task_state_name(t->state));
    cr_expect_geq(t->when_ms, t->expires_ms, "%s", id);
    cr_expect_str_eq(t->body, "hello");
    task_destroy(&t);
}

LUA_TEST(lua_expire, a_scheduled_task_expires)
{
    int64_t next_us;

    add("a", "+3600000", -1);
    cr_expect_eq(lua_expire(lua, 100, &next_us), 1);
    cr_expect_eq(next_us, -1);
    expect_expired("a");
    cr_expect_eq(lua_counter(lua, "totals", "expired"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 0);
    cr_expect_eq(lua_move(lua, 100, 100).next_us, -1, "its lane is gone, and that of what expires");
}

LUA_TEST(lua_expire, nothing_expires_before_its_time)
{
    int64_t next_us, expired = 0;

    add("a", "+3600000", 50);
    for (int64_t end = wait_mono_ms() + wait_scaled_ms(SOON_MS); !expired && wait_mono_ms() < end;)
        expired = lua_expire(lua, 100, &next_us);
    cr_assert_eq(expired, 1);
    expect_expired("a");
    struct task *t = lua_task(lua, "a");
    cr_expect_geq(t->when_ms, t->created_at_ms + 50);
    cr_expect_eq(t->expires_ms, t->created_at_ms + 50, "it counts from the creation, by Redis' clock");
    task_destroy(&t);
}

LUA_TEST(lua_expire, the_time_until_the_next_is_told)
{
    int64_t next_us;

    add("a", "+0", 7200000);
    add("b", "+0", 3600000);
    cr_expect_eq(lua_expire(lua, 100, &next_us), 0);
    cr_expect(next_us > HOUR_US - 5000000 && next_us <= HOUR_US, "%lld", (long long)next_us);
    cr_expect_eq(lua_expire(lua, 100, NULL), 0, "again");
    cr_assert_eq(lua_cancel(lua, "b"), TASK_SCHEDULED);
    cr_expect_eq(lua_expire(lua, 100, &next_us), 0);
    cr_expect(next_us > HOUR_US && next_us <= 2 * HOUR_US, "%lld", (long long)next_us);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    cr_expect_not(is_lane_indexed(), "nobody needs to wake up for it");
}

/* Else the mover would look again and again until then. */
LUA_TEST(lua_expire, nobody_wakes_up_before_the_next_expires)
{
    add("past", "+3600000", -1);
    add("next", "+7200000", 3600000);
    lua_move(lua, 100, 100);
    cr_assert_eq(lua_expire(lua, 100, NULL), 1);
    int64_t next_us = lua_move(lua, 100, 100).next_us;
    cr_expect(next_us > HOUR_US - 5000000 && next_us <= HOUR_US, "%lld", (long long)next_us);
}

LUA_TEST(lua_expire, a_ready_task_leaves_the_stream)
{
    add("a", "+0", 30);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    WAIT_UNTIL(lua_expire(lua, 100, NULL) == 1, SOON_MS);
    expect_expired("a");
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready), 0);
}

LUA_TEST(lua_expire, a_worker_that_has_read_an_expired_task_cannot_claim_it)
{
    struct lua_entry e;

    add("a", "+0", 30);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    WAIT_UNTIL(lua_expire(lua, 100, NULL) == 1, SOON_MS);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
    expect_expired("a");
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1);
}

LUA_TEST(lua_expire, a_claim_that_comes_first_ends_what_has_expired)
{
    struct lua_entry e;

    add("a", "+0", 30);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    int64_t end_ms = lua_now_ms(lua) + 31;
    WAIT_UNTIL(lua_now_ms(lua) > end_ms, SOON_MS);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
    expect_expired("a");
    cr_expect_eq(index_size(), 0);
    cr_expect_eq(lua_expire(lua, 100, NULL), 0);
    cr_expect_eq(lua_counter(lua, "totals", "expired"), 1);
}

static struct lua_entry start_and_expire(const char *id)
{
    struct lua_entry e = lua_start_ending(
        lua, &(struct lua_ending){.id = id, .due = "+0", .queue = "mail", .expires_in_ms = wait_scaled_ms(300)});

    WAIT_UNTIL(lua_expire(lua, 100, NULL) == 0 && index_size() == 0, SOON_MS);
    cr_assert_eq(lua_state(lua, id), TASK_DELIVERING, "an attempt under way may finish");
    return e;
}

LUA_TEST(lua_expire, an_attempt_under_way_may_succeed)
{
    struct lua_entry e = start_and_expire("a");

    cr_expect_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(lua_counter(lua, "totals", "expired"), 0);
}

LUA_TEST(lua_expire, an_attempt_under_way_is_not_repeated)
{
    struct lua_entry e = start_and_expire("a");

    cr_expect_eq(lua_settle(lua, &e, 'r', 1000), TASK_EXPIRED);
    struct lua_entry given_back = start_and_expire("b");
    cr_expect_eq(lua_settle(lua, &given_back, 'b', 0), TASK_EXPIRED);
    struct lua_entry given_up = start_and_expire("c");
    cr_expect_eq(lua_settle(lua, &given_up, 'x', 0), TASK_DEAD);
    cr_expect_eq(lua_counter(lua, "totals", "expired"), 2);
}

LUA_TEST(lua_expire, the_attempt_of_a_dead_worker_is_not_repeated)
{
    struct lua_entry e = start_and_expire("a");

    lua_make_idle(lua, &e, "g/1", 60000);
    cr_expect_eq(lua_recover(lua, "h", 1000), 1);
    expect_expired("a");
}

/* It waits where it is until then: to be sent it would be too late. */
LUA_TEST(lua_expire, a_retry_that_comes_too_late_expires_on_time)
{
    struct lua_entry e = lua_start_ending(
        lua, &(struct lua_ending){.id = "a", .due = "+0", .queue = "mail", .expires_in_ms = wait_scaled_ms(400)});

    cr_expect_eq(lua_settle(lua, &e, 'r', 3600000), TASK_SCHEDULED);
    cr_expect_eq(index_size(), 1);
    WAIT_UNTIL(lua_expire(lua, 100, NULL) == 1, SOON_MS);
    expect_expired("a");
}

/* Redis' clock went back after it had left the index. */
LUA_TEST(lua_expire, a_task_that_waits_again_is_in_the_index_again)
{
    struct lua_entry e =
        lua_start_ending(lua, &(struct lua_ending){.id = "a", .due = "+0", .queue = "mail", .expires_in_ms = 3600000});

    redis_fixture_run(lua_redis(lua), "DEL %s:expiry", lua_keys(lua)->base);
    cr_expect_eq(lua_settle(lua, &e, 'r', 1000), TASK_SCHEDULED);
    cr_expect_eq(index_size(), 1);
    e = lua_start_ending(lua, &(struct lua_ending){.id = "b", .due = "+0", .queue = "sms", .expires_in_ms = 3600000});
    redis_fixture_run(lua_redis(lua), "DEL %s:expiry", lua_keys(lua)->base);
    lua_make_idle(lua, &e, "g/1", 60000);
    cr_expect_eq(lua_recover(lua, "h", 1000), 1);
    cr_expect_eq(lua_state(lua, "b"), TASK_SCHEDULED);
    lua_mend(lua, 100);
    cr_expect_eq(index_size(), 2);
}

LUA_TEST(lua_expire, a_paused_or_limited_queue_makes_no_difference)
{
    struct lua_entry e;

    add("a", "+0", 30);
    add("ready", "+0", 30);
    cr_assert_eq(lua_move(lua, 1, 1).moved, 1);
    redis_fixture_run(lua_redis(lua), "HSET %s:settings mail %s", lua_keys(lua)->base, "1 1 0 {}");
    redis_fixture_run(lua_redis(lua), "HINCRBY %s:settings : 1", lua_keys(lua)->base);
    add("later", "+3600000", 30);
    add("stays", "+3600000", 3600000);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 0);
    int ended = 0;
    WAIT_UNTIL((ended += (int)lua_expire(lua, 100, NULL)) == 3, SOON_MS);
    expect_expired("a");
    expect_expired("ready");
    expect_expired("later");
    cr_expect_eq(lua_state(lua, "stays"), TASK_SCHEDULED);
    cr_expect_eq(lua_read(lua, "g/1", &e, 1), 0);
}

LUA_TEST(lua_expire, a_slot_comes_free_when_a_ready_task_expires)
{
    redis_fixture_run(lua_redis(lua), "HSET %s:settings mail %s", lua_keys(lua)->base, "0 1 0 {}");
    add("a", "+0", 30);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    add("b", "+0", 3600000);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 0);
    WAIT_UNTIL(lua_expire(lua, 100, NULL) == 1, SOON_MS);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_state(lua, "b"), TASK_READY);
}

LUA_TEST(lua_expire, what_has_ended_or_has_no_record_leaves_the_index)
{
    int64_t next_us;

    redis_fixture_run(lua_redis(lua), "ZADD %s:expiry 1 nobody", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "SET %sbroken x", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "ZADD %s:expiry 1 broken", lua_keys(lua)->base);
    cr_expect_eq(lua_expire(lua, 100, &next_us), 0);
    cr_expect_eq(next_us, -1);
    cr_expect_eq(index_size(), 0);
    redis_fixture_run(lua_redis(lua), "DEL %sbroken", lua_keys(lua)->base);
}

LUA_TEST(lua_expire, an_index_that_says_too_early_is_put_right)
{
    int64_t next_us;

    add("a", "+0", 3600000);
    add("never", "+0", 0);
    redis_fixture_run(lua_redis(lua), "ZADD %s:expiry 1 a 1 never", lua_keys(lua)->base);
    cr_expect_eq(lua_expire(lua, 100, &next_us), 0);
    cr_expect(next_us > 0 && next_us <= HOUR_US, "%lld", (long long)next_us);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(index_size(), 1);
}

LUA_TEST(lua_expire, many_go_a_limited_number_a_call)
{
    char id[16];
    int64_t next_us;

    for (int i = 0; i < 25; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        add(id, "+0", -1 - 10000 * i);
    }
    cr_expect_eq(lua_expire(lua, 10, &next_us), 10);
    cr_expect_eq(next_us, 0, "more have expired");
    cr_expect_eq(lua_state(lua, "t24"), TASK_EXPIRED, "the oldest first");
    cr_expect_eq(lua_state(lua, "t0"), TASK_SCHEDULED);
    cr_expect_eq(lua_expire(lua, 10, &next_us), 10);
    cr_expect_eq(lua_expire(lua, 10, &next_us), 5);
    cr_expect_eq(next_us, -1);
}

/* Redis does nothing else while it copies. */
LUA_TEST(lua_expire, large_ones_go_few_a_call)
{
    char *big = malloc(700001);
    int64_t next_us;
    struct task *t;

    memset(big, 'x', 700000);
    big[700000] = '\0';
    for (int i = 0; i < 4; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "t%d", i);
        add(id, "+3600000", 3600000);
        cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = id, .body = big}, &t), TASK_SCHEDULED);
        cr_assert_not_null(t);
        task_destroy(&t);
        /* The time of expiry stands behind the head, the queue's name and the kinds. */
        redis_fixture_run(lua_redis(lua), "SETRANGE %s%s %d %b", lua_keys(lua)->base, id, 20 + 1 + 4 + 1,
                          "\0\0\0\0\0\1", (size_t)6);
        redis_fixture_run(lua_redis(lua), "ZADD %s:expiry 1 %s", lua_keys(lua)->base, id);
    }
    cr_expect_eq(lua_expire(lua, 100, &next_us), 2);
    cr_expect_eq(next_us, 0);
    cr_expect_eq(lua_expire(lua, 100, &next_us), 2);
    cr_expect_eq(next_us, -1);
    free(big);
}

LUA_TEST(lua_expire, a_move_tells_that_tasks_have_expired)
{
    struct call *c;
    redisReply *r;

    add("a", "+3600000", -1);
    for (int i = 0; i < 2; i++) {
        c = lua_begin(lua, SCRIPT_MOVE);
        call_begin_args(c, lua_keys(lua));
        call_add_int(c, 0); /* without room too */
        call_add_int(c, 100);
        call_add_int(c, 0);
        r = lua_send(lua);
        cr_expect_eq(r->element[4]->integer, i == 0 ? 1 : 0, "once, and again when nobody looked after it");
        cr_expect(r->element[1]->integer > 0 && r->element[1]->integer <= 100000, "%lld", r->element[1]->integer);
        freeReplyObject(r);
    }
    cr_expect_eq(lua_expire(lua, 100, NULL), 1);
}
