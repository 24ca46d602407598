#include "../support/lua_fixture.h"
#include "../support/store_fixture.h"
#include "../support/wait.h"
#include "base/clock.h"
#include "store/feed.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The feed in a loop of the test's own: what is ready reaches its owner once, whatever happens to the connection. */

#define ARRIVE_MS 10000
#define STOP_MS 1000   /* far below the time of a blocked read */
#define REPAIR_MS 2000 /* so is this */
#define QUIET_MS 150
#define GIVEN_MAX 300

static struct redis_fixture *redis;
static struct redis_opts opts;
static struct lua_fixture *lua;
static struct loop *loop;
static struct feed *feed;
static int capacity, given_count;
static struct lua_entry given[GIVEN_MAX];
static bool is_forgetful; /* has_entry() denies everything */

static int free_slots(void *ctx)
{
    (void)ctx;
    return capacity - given_count;
}

static void on_task(void *ctx, struct task *t, const struct store_lease *lease, int64_t claimed_at_us,
                    int64_t claimed_mono_us)
{
    struct lua_entry *g = &given[given_count++];

    (void)ctx;
    cr_assert_leq(given_count, GIVEN_MAX);
    cr_assert_eq(t->state, TASK_DELIVERING);
    cr_assert_leq(llabs(claimed_at_us / 1000 - lua_now_ms(lua)), 5000, "not Redis time");
    cr_assert_leq(claimed_mono_us, clock_mono_us());
    (void)snprintf(g->id, sizeof(g->id), "%s", t->id);
    g->lease = *lease;
    task_destroy(&t);
}

static bool has_entry(void *ctx, const char *entry_id)
{
    (void)ctx;
    for (int i = 0; i < given_count && !is_forgetful; i++)
        if (strcmp(given[i].lease.entry_id, entry_id) == 0)
            return true;
    return false;
}

static void turn(void)
{
    int64_t wait_ms = feed_tick(feed);

    loop_turn(loop, (wait_ms < 5 ? wait_ms : 5) * 1000);
}

#define TURN_UNTIL(cond, ms)                                                       \
    for (int64_t turn_end_ = wait_mono_ms() + wait_scaled_ms(ms); !(cond); turn()) \
    cr_assert(wait_mono_ms() < turn_end_, "%s:%d: not in time: %s", __FILE__, __LINE__, #cond)

static void turn_for(int64_t ms)
{
    for (int64_t end = wait_mono_ms() + ms; wait_mono_ms() < end;)
        turn();
}

static void start(bool aof)
{
    cr_assert_neq(signal(SIGPIPE, SIG_IGN), SIG_ERR); /* as main() does */
    redis = redis_fixture_create(aof);
    opts = store_redis_opts(redis);
    lua = lua_fixture_attach(redis);
    loop = loop_create();
    capacity = 100;
    const struct feed_opts o = {.redis = &opts,
                                .loop = loop,
                                .consumer = "g/1",
                                .capacity = capacity,
                                .free_slots = free_slots,
                                .on_task = on_task,
                                .has_entry = has_entry};
    cr_assert_eq(feed_create(&o, &feed), ERR_OK);
    TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
}

static void tear_down(void)
{
    feed_destroy(&feed);
    loop_destroy(&loop);
    lua_fixture_destroy(&lua);
    redis_opts_deinit(&opts);
    redis_fixture_destroy(&redis);
}

TestSuite(store_feed, .fini = tear_down);

static void add_ready(const char *prefix, int count)
{
    char id[48];

    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof(id), "%s%d", prefix, i);
        lua_add(lua, id, "+0", "mail");
    }
    for (int moved = 0; moved < count;)
        moved += (int)lua_move(lua, 1000, 200).moved;
}

static int times_given(const char *id)
{
    int n = 0;

    for (int i = 0; i < given_count; i++)
        n += strcmp(given[i].id, id) == 0;
    return n;
}

/* All that was given is still the owner's. */
static void settle_all(void)
{
    for (int i = 0; i < given_count; i++)
        cr_expect_eq(lua_settle(lua, &given[i], 'd', 0), TASK_DELIVERED, "%s is not ours", given[i].id);
}

Test(store_feed, a_ready_task_is_claimed_and_given_with_its_lease)
{
    start(false);
    add_ready("a", 1);
    TURN_UNTIL(given_count == 1, ARRIVE_MS);
    cr_expect_str_eq(given[0].id, "a0");
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 1);
    redisReply *r = redis_fixture_command(redis, "XPENDING %s %s - + 10 g/1", lua_keys(lua)->ready, KEYS_GROUP);
    cr_expect_eq(r->elements, 1);
    freeReplyObject(r);
    settle_all();
    lua_check(lua);
}

Test(store_feed, a_waiting_feed_hears_of_new_tasks_at_once)
{
    start(false);
    turn_for(QUIET_MS);
    for (int i = 1; i <= 20; i++) {
        char prefix[24];
        (void)snprintf(prefix, sizeof(prefix), "t%d-", i);
        add_ready(prefix, 1);
        int64_t ready = wait_mono_ms();
        TURN_UNTIL(given_count == i, ARRIVE_MS);
        cr_expect_leq(wait_mono_ms() - ready, wait_scaled_ms(100));
    }
}

Test(store_feed, no_more_than_the_free_slots_are_read)
{
    start(false);
    capacity = 10;
    add_ready("t", 25);
    TURN_UNTIL(given_count == 10, ARRIVE_MS);
    turn_for(QUIET_MS);
    cr_expect_eq(given_count, 10);
    struct store_stats *s = lua_stats(lua);
    cr_expect_eq(s->all.ready, 15, "the rest is for others");
    store_stats_destroy(&s);
    capacity = 20;
    TURN_UNTIL(given_count == 20, ARRIVE_MS);
    turn_for(QUIET_MS);
    cr_expect_eq(given_count, 20);
}

Test(store_feed, without_a_free_slot_nothing_is_read)
{
    start(false);
    capacity = 0;
    turn_for(QUIET_MS); /* the read that was under way found nothing */
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
    add_ready("t", 3);
    turn_for(QUIET_MS);
    cr_expect_eq(given_count, 0);
    capacity = 3;
    TURN_UNTIL(given_count == 3, ARRIVE_MS);
}

/* A process that stood still between its claim and the answer to it must not send what others have taken over, and
 * maybe cancelled, since. */
Test(store_feed, the_answer_to_a_claim_of_long_ago_is_not_believed)
{
    int64_t busy = 0;

    start(false);
    opts.claim_idle_ms = 300;
    add_ready("a", 1);
    while (busy == 0) {
        (void)feed_tick(feed);
        for (int i = 0; i < 5 && busy == 0; i++)
            busy = lua_counter(lua, "busy", "mail");
        if (busy == 0)
            loop_turn(loop, 5000);
    }
    cr_assert_eq(given_count, 0, "the answer was read too soon for this test");
    WAIT_UNTIL(lua_recover(lua, "other/0", 300) == 1, ARRIVE_MS);
    turn_for(QUIET_MS);
    cr_expect_eq(given_count, 0, "a task was given that others had taken over");
    lua_check(lua);
}

Test(store_feed, a_cancelled_task_is_never_given)
{
    start(false);
    capacity = 0;
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
    add_ready("t", 3);
    cr_assert_eq(lua_cancel(lua, "t1"), TASK_READY);
    capacity = 10;
    TURN_UNTIL(given_count == 2, ARRIVE_MS);
    turn_for(QUIET_MS);
    cr_expect_eq(times_given("t1"), 0);
    cr_expect_eq(redis_fixture_integer(redis, "XLEN %s", lua_keys(lua)->ready), 2);
    lua_check(lua);
}

/* The answer to a read was lost: only the group still knows that the entries are ours. */
Test(store_feed, entries_of_a_lost_answer_are_found_again)
{
    struct lua_entry lost[5];

    start(false);
    capacity = 0;
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
    add_ready("t", 5);
    cr_assert_eq(lua_read(lua, "g/1", lost, 5), 5);
    cr_assert_eq(lua_claim(lua, lost, 2), 2, "of some even the claim was done");
    capacity = 100;
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(given_count == 5, ARRIVE_MS);
    turn_for(QUIET_MS);
    cr_expect_eq(given_count, 5);
    settle_all();
    lua_check(lua);
}

Test(store_feed, what_the_owner_has_is_not_given_again_after_a_lost_connection)
{
    start(false);
    add_ready("t", 5);
    TURN_UNTIL(given_count == 5, ARRIVE_MS);
    for (int i = 0; i < 3; i++) {
        redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
        TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
        TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
        turn_for(QUIET_MS);
    }
    cr_expect_eq(given_count, 5);
    settle_all();
    lua_check(lua);
}

Test(store_feed, many_own_entries_are_all_found_again)
{
    enum { MANY = 250 };
    static struct lua_entry lost[MANY];

    start(false);
    capacity = 0;
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
    add_ready("t", MANY);
    cr_assert_eq(lua_read(lua, "g/1", lost, MANY), MANY);
    capacity = GIVEN_MAX;
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(given_count == MANY, ARRIVE_MS);
    settle_all();
}

Test(store_feed, it_goes_on_under_lost_connections_and_forgotten_scripts)
{
    char prefix[24];

    start(false);
    capacity = GIVEN_MAX;
    for (int i = 0; i < 10; i++) {
        (void)snprintf(prefix, sizeof(prefix), "r%d-", i);
        add_ready(prefix, 10);
        redis_fixture_run(redis, i % 2 ? "SCRIPT FLUSH" : "CLIENT KILL TYPE normal SKIPME yes");
        TURN_UNTIL(given_count == 10 * (i + 1), REPAIR_MS);
        lua_fixture_destroy(&lua);
        lua = lua_fixture_attach(redis); /* its scripts were forgotten, too */
    }
    settle_all();
    lua_check(lua);
}

Test(store_feed, an_emptied_redis_gives_new_tasks)
{
    start(false);
    add_ready("a", 1);
    TURN_UNTIL(given_count == 1, ARRIVE_MS);
    redis_fixture_run(redis, "FLUSHALL");
    TURN_UNTIL(redis_fixture_integer(redis, "EXISTS %s", lua_keys(lua)->ready) == 1, ARRIVE_MS);
    add_ready("b", 3);
    TURN_UNTIL(given_count == 4, ARRIVE_MS);
}

Test(store_feed, a_redis_that_restarts_goes_on_where_it_was)
{
    start(true);
    add_ready("a", 5);
    TURN_UNTIL(given_count == 5, ARRIVE_MS);
    redis_fixture_kill(redis);
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    redis_fixture_start(redis);
    lua_fixture_destroy(&lua);
    lua = lua_fixture_attach(redis);
    add_ready("b", 5);
    TURN_UNTIL(given_count == 10, ARRIVE_MS);
    settle_all();
    lua_check(lua);
}

Test(store_feed, a_redis_that_stands_still_is_noticed_and_waited_for)
{
    start(false);
    add_ready("a", 5);
    capacity = 105;
    TURN_UNTIL(given_count == 5, ARRIVE_MS);
    redis_fixture_pause(redis);
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    redis_fixture_resume(redis);
    add_ready("b", 5);
    TURN_UNTIL(given_count == 10, ARRIVE_MS);
    settle_all();
    lua_check(lua);
}

Test(store_feed, stopping_ends_a_blocked_read_soon)
{
    start(false);
    turn_for(QUIET_MS);
    int64_t began = wait_mono_ms();
    feed_stop(feed);
    TURN_UNTIL(feed_is_stopped(feed), ARRIVE_MS);
    cr_expect_leq(wait_mono_ms() - began, wait_scaled_ms(STOP_MS));
    add_ready("a", 3);
    turn_for(QUIET_MS);
    cr_expect_eq(given_count, 0);
}

Test(store_feed, a_stopped_feed_has_given_all_that_it_took)
{
    start(false);
    for (int i = 0; i < 10; i++) {
        char prefix[24];
        (void)snprintf(prefix, sizeof(prefix), "t%d-", i);
        add_ready(prefix, 5);
        turn();
    }
    feed_stop(feed);
    TURN_UNTIL(feed_is_stopped(feed), ARRIVE_MS);
    redisReply *r = redis_fixture_command(redis, "XPENDING %s %s", lua_keys(lua)->ready, KEYS_GROUP);
    cr_expect_eq(r->element[0]->integer, given_count);
    freeReplyObject(r);
    settle_all();
    lua_check(lua);
}

Test(store_feed, stopping_while_redis_is_away_ends_too)
{
    start(false);
    redis_fixture_kill(redis);
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    feed_stop(feed);
    TURN_UNTIL(feed_is_stopped(feed), STOP_MS);
}

Test(store_feed, a_record_that_cannot_be_read_holds_up_no_other)
{
    start(false);
    capacity = 0;
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    TURN_UNTIL(!feed_is_up(feed), ARRIVE_MS);
    TURN_UNTIL(feed_is_up(feed), ARRIVE_MS);
    add_ready("t", 3);
    redis_fixture_run(redis, "APPEND %st1 garbage", lua_keys(lua)->base);
    capacity = 10;
    TURN_UNTIL(given_count == 2, ARRIVE_MS);
    add_ready("later", 1);
    TURN_UNTIL(given_count == 3, ARRIVE_MS);
}
