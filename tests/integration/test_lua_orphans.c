#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What somebody deletes by hand is found and put right: orphans.lua for tasks in the Stream and the count, mend.lua for
 * everything else. Each test ends with the rules of lua_check(). */

#define OLD_MS 0 /* of claim-idle: everything is old enough */
#define HOUR_MS 3600000

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_orphans, .init = set_up, .fini = tear_down);

static void run(const char *command, const char *name)
{
    redis_fixture_run(lua_redis(lua), command, lua_keys(lua)->base, name);
}

static void make_group(void)
{
    redis_fixture_run(lua_redis(lua), "XGROUP CREATE %s %s 0 MKSTREAM", lua_keys(lua)->ready, KEYS_GROUP);
}

static long long stream_length(void)
{
    return redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready);
}

/* A task that was moved and not read. */
static void add_ready(const char *id, const char *queue)
{
    lua_add(lua, id, "+0", queue);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
}

static void expect_put_back(const char *id, unsigned old_generation)
{
    struct task *t = lua_task(lua, id);

    cr_assert_eq(t->state, TASK_SCHEDULED, "%s is %s", id, task_state_name(t->state));
    cr_expect_neq(t->generation, old_generation);
    cr_expect_eq(t->takeovers, 0, "no worker died");
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
}

/* ---------------------------------------------------------------- in the Stream */

LUA_TEST(lua_orphans, a_healthy_system_has_none)
{
    lua_start(lua, "runs", "mail", "g/1");
    lua_add(lua, "waits", "+60000", "sms");
    add_ready("ready", "mail");
    struct lua_orphans o = lua_orphans(lua, OLD_MS, false);
    cr_expect_eq(o.repaired, 0);
    cr_expect_eq(o.pending, 0);
    cr_expect_eq(o.records, 0);
    cr_expect_eq(o.delivering, 1);
    cr_expect_eq(o.overdue, 0);
    cr_expect_eq(lua_state(lua, "runs"), TASK_DELIVERING);
    cr_expect_eq(lua_state(lua, "ready"), TASK_READY);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 0);
}

LUA_TEST(lua_orphans, a_task_under_way_goes_back_when_the_stream_was_deleted)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    run("DEL %s:ready", NULL);
    make_group();
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 1);
    expect_put_back("a", e.lease.generation);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1, "its old owner is late");
}

LUA_TEST(lua_orphans, what_is_younger_than_claim_idle_is_left_alone)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    run("DEL %s:ready", NULL);
    make_group();
    cr_expect_eq(lua_orphans(lua, HOUR_MS, false).repaired, 0);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED, "its owner may still settle it");
}

LUA_TEST(lua_orphans, a_ready_task_goes_back_when_the_stream_was_deleted)
{
    add_ready("a", "mail");
    struct task *t = lua_task(lua, "a");
    run("DEL %s:ready", NULL);
    make_group();
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 1);
    expect_put_back("a", t->generation);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
    task_destroy(&t);
}

LUA_TEST(lua_orphans, an_entry_that_was_deleted_from_the_stream_is_noticed)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    redis_fixture_run(lua_redis(lua), "XDEL %s %s", lua_keys(lua)->ready, e.lease.entry_id);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 0, "its owner is at work");
    lua_make_idle(lua, &e, "g/1", HOUR_MS);
    lua_recover(lua, "h", 15000);
    lua_orphans(lua, OLD_MS, false);
    expect_put_back("a", e.lease.generation);
}

LUA_TEST(lua_orphans, a_consumer_that_was_deleted_with_its_list_loses_nothing)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    redis_fixture_run(lua_redis(lua), "XGROUP DELCONSUMER %s %s g/1", lua_keys(lua)->ready, KEYS_GROUP);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 1);
    expect_put_back("a", e.lease.generation);
    cr_expect_eq(stream_length(), 0);
}

LUA_TEST(lua_orphans, after_the_group_was_destroyed_what_is_read_again_is_no_orphan)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1"), again;

    run("XGROUP DESTROY %s:ready workers", NULL);
    make_group();
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 0, "it will be read again");
    cr_assert_eq(lua_read(lua, "h/1", &again, 1), 1);
    cr_expect_eq(lua_claim(lua, &again, 1), 0, "it is under way");
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 0);
    lua_make_idle(lua, &again, "h/1", HOUR_MS);
    cr_expect_eq(lua_recover(lua, "h", 15000), 1, "its first owner was dead");
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1);
}

LUA_TEST(lua_orphans, a_task_that_was_to_be_cancelled_is_cancelled)
{
    lua_start(lua, "a", "mail", "g/1");
    cr_assert_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    run("DEL %s:ready", NULL);
    make_group();
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_CANCELLED);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 1);
}

LUA_TEST(lua_orphans, a_record_that_was_deleted_under_way_leaves_every_count)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    run("DEL %s%s", "a");
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1, "a repeat counts nothing");
    cr_expect_eq(lua_state(lua, "a"), -1, "no half record appears");
}

LUA_TEST(lua_orphans, a_record_that_was_deleted_with_its_worker_leaves_every_count)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    run("DEL %s%s", "a");
    lua_make_idle(lua, &e, "g/1", HOUR_MS);
    lua_recover(lua, "h", 15000);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
}

LUA_TEST(lua_orphans, a_record_that_was_deleted_with_the_stream_leaves_every_count)
{
    add_ready("a", "mail");
    run("DEL %s%s", "a");
    run("DEL %s:ready", NULL);
    make_group();
    lua_orphans(lua, OLD_MS, false);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
}

LUA_TEST(lua_orphans, a_queue_that_is_empty_by_count_delivers_nothing)
{
    redis_fixture_run(lua_redis(lua), "HSET %s:busy mail 3", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "HSET %s:out mail 3", lua_keys(lua)->base);
    lua_orphans(lua, OLD_MS, false);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
}

/* ------------------------------------------------------------------- held lanes */

LUA_TEST(lua_orphans, a_lane_whose_pause_was_deleted_releases_again)
{
    cr_assert_eq(lua_queue_do(lua, "put", "mail", "1 0 0 {}"), 3);
    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 0);
    lua_orphans(lua, OLD_MS, false);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 0, "it is still paused");
    run("DEL %s:settings", NULL);
    lua_orphans(lua, OLD_MS, false);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

/* The old one's entry is nobody's, and what it takes of the limit comes back with the patrol. */
LUA_TEST(lua_orphans, a_slot_of_a_task_that_was_deleted_and_made_anew_comes_free)
{
    cr_assert_eq(lua_queue_do(lua, "put", "mail", "0 1 0 {}"), 3);
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    lua_add(lua, "b", "+0", "mail");
    run("DEL %s%s", "a");
    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 0);
    lua_settle(lua, &e, 'd', 0);
    redis_fixture_run(lua_redis(lua), "HINCRBY %s:queues mail -1", lua_keys(lua)->base); /* as mend.lua would */
    redis_fixture_run(lua_redis(lua), "HINCRBY %s:totals pending -1", lua_keys(lua)->base);
    lua_orphans(lua, OLD_MS, false);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

/* --------------------------------------------------------------------- counting */

LUA_TEST(lua_orphans, a_lost_index_of_lanes_is_made_again)
{
    lua_add(lua, "a", "+0", "mail");
    lua_add(lua, "b", "+60000", "sms");
    run("DEL %s:lanes", NULL);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 0);
    lua_orphans(lua, OLD_MS, false);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

Test(lua_orphans, of_very_many_queues_some_are_indexed_each_time)
{
    lua_add(lua, "a", "+0", "mail");
    for (int i = 0; i < 4000; i++)
        redis_fixture_run(lua_redis(lua), "HSET %s:queues q%d 1", lua_keys(lua)->base, i);
    run("DEL %s:lanes", NULL);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 0);
    int rounds = 0;
    do
        lua_orphans(lua, OLD_MS, false);
    while (lua_move(lua, 100, 100).moved == 0 && ++rounds < 100); /* half of them each time */
    cr_expect_lt(rounds, 100);
}

LUA_TEST(lua_orphans, overdue_tasks_are_counted)
{
    lua_add(lua, "a", "1", "mail");
    lua_add(lua, "b", "1", "sms");
    lua_add(lua, "c", "+60000", "sms");
    WAIT_UNTIL(lua_orphans(lua, OLD_MS, false).overdue == 2, 5000);
}

LUA_TEST(lua_orphans, pending_is_put_right_only_after_all_records_were_seen)
{
    lua_add(lua, "a", "+60000", "mail");
    run("HINCRBY %s:totals pending 5", NULL);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).pending, 5);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 6);
    cr_expect_eq(lua_orphans(lua, OLD_MS, true).pending, 0);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 1);
}

/* ------------------------------------------------------------------ all records */

LUA_TEST(lua_orphans, a_lane_that_was_deleted_comes_back_with_its_due_times)
{
    int64_t due = lua_add(lua, "a", "+60000", "mail");

    lua_add(lua, "b", "+70000", "mail");
    struct lua_entry e = lua_start(lua, "c", "sms", "g/1");
    cr_assert_eq(lua_settle(lua, &e, 'r', 30000), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "c");
    run("DEL %s:q:mail", NULL);
    run("DEL %s:q:sms", NULL);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).pending, 3);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).records, 3);
    cr_expect_eq(lua_mend(lua, 2), 3);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "ZCOUNT %s:q:mail %lld %lld", lua_keys(lua)->base,
                                       (long long)due, (long long)due),
                 1);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "ZCOUNT %s:q:sms %lld %lld", lua_keys(lua)->base,
                                       (long long)t->when_ms, (long long)t->when_ms),
                 1);
    task_destroy(&t);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).pending, 0);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 3);
}

LUA_TEST(lua_orphans, finished_tasks_come_back_to_what_was_deleted)
{
    struct lua_entry e = lua_start(lua, "ok", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    e = lua_start(lua, "bad", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    run("DEL %s:delivered", NULL);
    run("DEL %s:dead:mail", NULL);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).records, 1);
    cr_expect_eq(lua_mend(lua, 100), 2);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).records, 0);
    cr_expect_eq(lua_sweep(lua, 0, 1000, 100), 2);
}

LUA_TEST(lua_orphans, the_stream_says_where_tasks_are_when_the_flight_was_lost)
{
    struct lua_entry e = lua_start(lua, "runs", "mail", "g/1");

    add_ready("ready", "sms");
    run("DEL %s:flight", NULL);
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).pending, 2);
    cr_expect_eq(lua_mend(lua, 1), 0, "nothing has to move");
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).pending, 0);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(lua_cancel(lua, "ready"), TASK_READY);
    cr_expect_eq(stream_length(), 0);
}

LUA_TEST(lua_orphans, without_flight_and_stream_a_task_goes_back_to_its_lane)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    run("DEL %s:flight", NULL);
    run("DEL %s:ready", NULL);
    make_group();
    cr_expect_eq(lua_orphans(lua, OLD_MS, false).repaired, 0);
    cr_expect_eq(lua_mend(lua, 100), 1);
    expect_put_back("a", e.lease.generation);
}

LUA_TEST(lua_orphans, entries_without_a_task_leave_the_stream)
{
    lua_start(lua, "a", "mail", "g/2");
    redis_fixture_run(lua_redis(lua), "XADD %s * i nobody g 7", lua_keys(lua)->ready);
    redis_fixture_run(lua_redis(lua), "XADD %s * something else", lua_keys(lua)->ready);
    cr_expect_eq(lua_mend(lua, 1), 0);
    cr_expect_eq(stream_length(), 1);
}

LUA_TEST(lua_orphans, keys_of_others_are_not_touched)
{
    redis_fixture_run(lua_redis(lua), "SET %sother{0}x y", "");
    redis_fixture_run(lua_redis(lua), "HSET %snohash a b", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "SET %snote %s", lua_keys(lua)->base, "which_is_no_record_of_a_task");
    cr_expect_eq(lua_mend(lua, 100), 0);
    redis_fixture_run(lua_redis(lua), "DEL other{0}x %snohash %snote", lua_keys(lua)->base, lua_keys(lua)->base);
}

LUA_TEST(lua_orphans, each_step_is_a_short_one)
{
    char id[24];
    int steps = 0;
    char *at = strdup("");

    for (int i = 0; i < 600; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        lua_add(lua, id, "+60000", "mail");
    }
    run("DEL %s:q:mail", NULL);
    do {
        int64_t repaired;
        char *next = lua_mend_step(lua, at, 50, &repaired);
        free(at);
        at = next;
        cr_expect_leq(repaired, 200, "%lld at once", (long long)repaired);
        steps++;
    } while (*at && steps < 1000);
    free(at);
    cr_expect_gt(steps, 5);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 600);
}
