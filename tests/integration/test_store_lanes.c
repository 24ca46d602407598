#include "../support/lua_fixture.h"
#include "../support/store_fixture.h"
#include "../support/wait.h"
#include "store/lanes.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The mover's port in a loop of the test's own: every call is answered once, also when Redis is away. */

#define ANSWER_MS 10000
#define SOON_MS 2000

static struct redis_fixture *redis;
static struct redis_opts opts;
static struct lua_fixture *lua;
static struct loop *loop;
static struct lanes *lanes;
static int answers, ups, wakes;
static bool was_ok, is_more;
static struct lanes_moved moved;
static int64_t due_ms, recovered, removed, repaired, next_ms, woken_for_ms;

static void on_moved(void *ctx, bool ok, const struct lanes_moved *m)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    moved = *m;
}

static void on_peeked(void *ctx, bool ok, int64_t due_at_ms)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    due_ms = due_at_ms;
}

static void on_recovered(void *ctx, bool ok, int64_t count, bool more)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    recovered = count;
    is_more = more;
}

static void on_swept(void *ctx, bool ok, int64_t n, int64_t next)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    removed = n;
    next_ms = next;
}

static void on_patrolled(void *ctx, bool ok, int64_t n, int64_t next)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    repaired = n;
    next_ms = next;
}

static void on_wake(void *ctx, int64_t due_at_ms)
{
    (void)ctx;
    wakes++;
    woken_for_ms = due_at_ms;
}

static void on_up(void *ctx)
{
    (void)ctx;
    ups++;
}

static void turn(void)
{
    int64_t wait_ms = lanes_tick(lanes);

    loop_turn(loop, (wait_ms < 5 ? wait_ms : 5) * 1000);
}

#define TURN_UNTIL(cond, ms)                                                       \
    for (int64_t turn_end_ = wait_mono_ms() + wait_scaled_ms(ms); !(cond); turn()) \
    cr_assert(wait_mono_ms() < turn_end_, "%s:%d: not in time: %s", __FILE__, __LINE__, #cond)

/* Until the subscription stands, too: Redis counts its listeners. */
static long long listeners(void)
{
    redisReply *r = redis_fixture_command(redis, "PUBSUB NUMSUB %s", lua_keys(lua)->wake);
    long long n = r->element[1]->integer;

    freeReplyObject(r);
    return n;
}

static void set_up(void)
{
    const struct lanes_opts o = {.redis = &opts,
                                 .on_moved = on_moved,
                                 .on_peeked = on_peeked,
                                 .on_recovered = on_recovered,
                                 .on_swept = on_swept,
                                 .on_patrolled = on_patrolled,
                                 .on_wake = on_wake,
                                 .on_up = on_up};
    struct lanes_opts with_loop = o;

    cr_assert_neq(signal(SIGPIPE, SIG_IGN), SIG_ERR); /* as main() does */
    redis = redis_fixture_create(false);
    opts = store_redis_opts(redis);
    lua = lua_fixture_attach(redis);
    loop = loop_create();
    with_loop.loop = loop;
    cr_assert_eq(lanes_create(&with_loop, &lanes), ERR_OK);
    TURN_UNTIL(lanes_is_up(lanes) && listeners() == 1, ANSWER_MS);
}

static void tear_down(void)
{
    lanes_destroy(&lanes);
    loop_destroy(&loop);
    lua_fixture_destroy(&lua);
    redis_opts_deinit(&opts);
    redis_fixture_destroy(&redis);
}

TestSuite(store_lanes, .init = set_up, .fini = tear_down);

/* Wait for the answer of the call just made. */
static void await_answer(void)
{
    int before = answers;

    TURN_UNTIL(answers > before || !lanes_is_busy(lanes), ANSWER_MS);
    cr_assert_not(lanes_is_busy(lanes));
}

static void expect_one_answer(int before, bool ok)
{
    TURN_UNTIL(answers > before, ANSWER_MS);
    cr_assert_eq(answers, before + 1);
    cr_assert_eq(was_ok, ok);
}

Test(store_lanes, moving_tells_what_moved_and_what_comes_next)
{
    lua_add(lua, "a", "+0", "mail");
    lua_add(lua, "b", "+0", "mail");
    lua_add(lua, "c", "+60000", "mail");
    lanes_move(lanes, 100, 100, 100);
    cr_expect(lanes_is_busy(lanes));
    expect_one_answer(0, true);
    cr_expect_not(lanes_is_busy(lanes));
    cr_expect_eq(moved.moved, 2);
    cr_expect_eq(moved.unread, 2);
    cr_expect(moved.next_us > 50000000 && moved.next_us <= 60000000);
    cr_expect_leq(llabs(moved.now_us / 1000 - lua_now_ms(lua)), 5000);
    lua_check(lua);
}

Test(store_lanes, peeking_tells_when_the_next_task_is_due)
{
    lanes_peek(lanes);
    expect_one_answer(0, true);
    cr_expect_eq(due_ms, -1);
    int64_t due = lua_add(lua, "a", "+60000", "mail");
    lanes_peek(lanes);
    expect_one_answer(1, true);
    cr_expect_eq(due_ms, due);
    int64_t latest = lua_add(lua, "b", "+315619200000", "other");
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    lanes_peek(lanes);
    expect_one_answer(2, true);
    cr_expect_eq(due_ms, latest, "exact to the millisecond ten years ahead");
}

Test(store_lanes, recovering_takes_back_and_beats_the_heart)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "dead/1");

    lua_make_idle(lua, &e, "dead/1", 2 * opts.claim_idle_ms);
    lanes_recover(lanes, true, 0);
    expect_one_answer(0, true);
    cr_expect_eq(recovered, 0, "only the heartbeat");
    cr_expect_eq(redis_fixture_integer(redis, "HEXISTS %s:workers g", lua_keys(lua)->base), 1);
    lanes_recover(lanes, false, 0);
    expect_one_answer(1, true);
    cr_expect_eq(recovered, 1);
    cr_expect_not(is_more);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    lua_check(lua);
}

/* A clock that was stepped makes the living look silent, too. */
Test(store_lanes, a_clock_ahead_of_what_was_believed_takes_nothing_back)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", 2 * opts.claim_idle_ms);
    lanes_recover(lanes, false, lua_now_ms(lua) - 5000);
    expect_one_answer(0, true);
    cr_expect_eq(recovered, -1);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERING);
    cr_expect_eq(redis_fixture_integer(redis, "HEXISTS %s:workers g", lua_keys(lua)->base), 1,
                 "the heartbeat is there");
    lanes_recover(lanes, false, lua_now_ms(lua));
    expect_one_answer(1, true);
    cr_expect_eq(recovered, 1);
}

Test(store_lanes, a_long_list_is_recovered_call_by_call)
{
    enum { MANY = 250 };
    static struct lua_entry e[MANY];
    char id[24];
    int64_t sum = 0;
    int calls = 0;

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        e[i] = lua_start(lua, id, "mail", "dead/1");
    }
    for (int i = 0; i < MANY; i++)
        lua_make_idle(lua, &e[i], "dead/1", 2 * opts.claim_idle_ms);
    do {
        lanes_recover(lanes, false, 0);
        expect_one_answer(calls, true);
        sum += recovered;
        calls++;
    } while (is_more && calls < 10);
    cr_expect_eq(sum, MANY);
    cr_expect_eq(lua_counter(lua, "totals", "recovered"), MANY);
    lua_check(lua);
}

Test(store_lanes, sweeping_removes_what_is_over_its_retention)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    lanes_sweep(lanes);
    expect_one_answer(0, true);
    cr_expect_eq(removed, 0);
    cr_expect(next_ms > 3000000 && next_ms <= 3600000, "%lld", (long long)next_ms);
    opts.retention_delivered_ms = 0;
    lanes_sweep(lanes);
    expect_one_answer(1, true);
    cr_expect_eq(removed, 1);
    cr_expect_eq(next_ms, -1);
    cr_expect_eq(lua_state(lua, "a"), -1);
}

Test(store_lanes, each_retention_reaches_its_own_state)
{
    struct lua_entry e = lua_start(lua, "dead", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    lua_add(lua, "cancelled", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "cancelled"), TASK_SCHEDULED);
    opts.retention_cancelled_ms = 0;
    lanes_sweep(lanes);
    expect_one_answer(0, true);
    cr_expect_eq(lua_state(lua, "cancelled"), -1);
    cr_expect_eq(lua_state(lua, "dead"), TASK_DEAD);
    opts.retention_dead_ms = 0;
    lanes_sweep(lanes);
    expect_one_answer(1, true);
    cr_expect_eq(lua_state(lua, "dead"), -1);
}

Test(store_lanes, an_earlier_task_of_another_gateway_is_heard_of)
{
    lua_add(lua, "a", "+60000", "mail");
    TURN_UNTIL(wakes == 1, ANSWER_MS);
    int64_t due = lua_add(lua, "b", "+50000", "sms");
    TURN_UNTIL(wakes == 2, ANSWER_MS);
    cr_expect_eq(woken_for_ms, due);
}

Test(store_lanes, forgotten_scripts_fail_a_call_once)
{
    redis_fixture_run(redis, "SCRIPT FLUSH");
    lanes_move(lanes, 100, 100, 100);
    expect_one_answer(0, false);
    lanes_move(lanes, 100, 100, 100);
    expect_one_answer(1, true);
}

Test(store_lanes, an_emptied_redis_is_set_up_again)
{
    redis_fixture_run(redis, "FLUSHALL");
    do {
        lanes_move(lanes, 100, 100, 100);
        await_answer();
    } while (!was_ok && answers < 10);
    cr_expect(was_ok);
    cr_expect_eq(redis_fixture_integer(redis, "EXISTS %s", lua_keys(lua)->ready), 1);
}

Test(store_lanes, a_call_on_a_lost_connection_is_answered_with_failure)
{
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    lanes_move(lanes, 100, 100, 100);
    expect_one_answer(0, false);
    int before = ups;
    TURN_UNTIL(ups > before || lanes_is_up(lanes), ANSWER_MS);
    lanes_move(lanes, 100, 100, 100);
    expect_one_answer(1, true);
}

Test(store_lanes, without_redis_every_call_fails_at_once)
{
    redis_fixture_kill(redis);
    TURN_UNTIL(!lanes_is_up(lanes), ANSWER_MS);
    lanes_move(lanes, 100, 100, 100);
    expect_one_answer(0, false);
    lanes_peek(lanes);
    expect_one_answer(1, false);
    lanes_recover(lanes, false, 0);
    expect_one_answer(2, false);
    lanes_sweep(lanes);
    expect_one_answer(3, false);
}

Test(store_lanes, a_redis_that_stands_still_is_given_up_soon)
{
    redis_fixture_pause(redis);
    lanes_move(lanes, 100, 100, 100);
    TURN_UNTIL(answers == 1, SOON_MS);
    cr_expect_not(was_ok);
    redis_fixture_resume(redis);
    TURN_UNTIL(lanes_is_up(lanes), ANSWER_MS);
    lanes_move(lanes, 100, 100, 100);
    expect_one_answer(1, true);
}

Test(store_lanes, a_lost_subscription_is_made_again)
{
    redis_fixture_run(redis, "CLIENT KILL TYPE pubsub");
    TURN_UNTIL(listeners() == 0, ANSWER_MS);
    TURN_UNTIL(listeners() == 1, ANSWER_MS);
    lua_add(lua, "a", "+60000", "mail");
    TURN_UNTIL(wakes == 1, ANSWER_MS);
}

/* ----------------------------------------------------------------------- patrol */

/* Steps until a round ends. */
static int64_t patrol_round(void)
{
    int64_t sum = 0;

    do {
        lanes_patrol(lanes);
        await_answer();
        cr_assert(was_ok);
        sum += repaired;
    } while (next_ms < 1000);
    return sum;
}

Test(store_lanes, a_patrol_puts_back_what_has_lost_its_entry)
{
    lua_start(lua, "a", "mail", "dead/1");
    redis_fixture_run(redis, "XGROUP DELCONSUMER %s %s dead/1", lua_keys(lua)->ready, KEYS_GROUP);
    cr_expect_eq(patrol_round(), 0, "it is younger than claim-idle");
    opts.claim_idle_ms = 0;
    cr_expect_eq(patrol_round(), 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    lua_check(lua);
}

Test(store_lanes, a_patrol_that_counts_a_difference_twice_goes_through_all_records)
{
    lua_add(lua, "a", "+60000", "mail");
    redis_fixture_run(redis, "DEL %s:q:mail", lua_keys(lua)->base);
    cr_expect_eq(patrol_round(), 0, "counted once");
    cr_expect_eq(patrol_round(), 1);
    cr_expect_eq(patrol_round(), 0);
    lua_check(lua);
}

Test(store_lanes, a_patrol_of_a_redis_that_is_away_says_so)
{
    redis_fixture_kill(redis);
    TURN_UNTIL(!lanes_is_up(lanes), ANSWER_MS);
    lanes_patrol(lanes);
    cr_expect_not(was_ok);
}
