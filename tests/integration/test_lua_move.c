#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUE_MS 5000
#define READ_MAX 200

static struct lua_fixture *lua;
static struct lua_entry entries[READ_MAX];

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_move, .init = set_up, .fini = tear_down);

static void add_many(const char *queue, int count, const char *due)
{
    char id[80];

    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof(id), "%s-%d", queue, i);
        lua_add(lua, id, due, queue);
    }
}

LUA_TEST(lua_move, nothing_scheduled_moves_nothing)
{
    struct lua_moved m = lua_move(lua, 100, 100);

    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, -1);
    cr_expect_eq(m.unread, 0);
    cr_expect_geq(m.now_us / 1000, lua_now_ms(lua) - 1000);
}

LUA_TEST(lua_move, what_is_due_becomes_ready)
{
    lua_add(lua, "a", "+0", "mail");
    struct lua_moved m = lua_move(lua, 100, 100);

    cr_expect_eq(m.moved, 1);
    cr_expect_eq(m.next_us, -1);
    cr_expect_eq(m.unread, 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_READY);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 1);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0);
    cr_assert_eq(lua_read(lua, "g/1", entries, READ_MAX), 1);
    cr_expect_str_eq(entries[0].id, "a");
}

LUA_TEST(lua_move, what_is_not_due_stays_and_the_answer_says_how_long)
{
    int64_t due = lua_add(lua, "a", "+60000", "mail");
    struct lua_moved m = lua_move(lua, 100, 100);

    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, due * 1000 - m.now_us);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
}

LUA_TEST(lua_move, nothing_moves_before_its_millisecond_has_come)
{
    for (int i = 0; i < 20; i++) {
        char id[24];
        struct lua_moved m;
        (void)snprintf(id, sizeof(id), "t%d", i);
        int64_t due = lua_add(lua, id, "+7", "default");
        while ((m = lua_move(lua, 100, 100)).moved == 0) {
            cr_assert_lt(m.now_us, due * 1000, "due and not moved");
            cr_assert_eq(m.next_us, due * 1000 - m.now_us);
        }
        cr_assert_geq(m.now_us, due * 1000, "moved %lld us early", (long long)(due * 1000 - m.now_us));
    }
}

LUA_TEST(lua_move, a_second_move_moves_nothing_twice)
{
    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 0);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 1);
}

LUA_TEST(lua_move, the_earliest_of_a_queue_goes_first)
{
    add_many("mail", 3, "+0");
    redis_fixture_run(lua_redis(lua), "ZADD %s:q:mail 3000 mail-0 1000 mail-1 2000 mail-2", lua_keys(lua)->base);
    static const char *const order[] = {"mail-1", "mail-2", "mail-0"};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(lua_move(lua, 100, 1).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", entries, READ_MAX), 1);
        cr_expect_str_eq(entries[0].id, order[i]);
    }
}

LUA_TEST(lua_move, no_more_moves_than_asked_for)
{
    add_many("mail", 5, "+0");
    struct lua_moved m = lua_move(lua, 100, 3);

    cr_expect_eq(m.moved, 3);
    cr_expect_eq(m.next_us, 0, "more is due now");
    cr_expect_eq(lua_counter(lua, "out", "mail"), 3);
    m = lua_move(lua, 100, 3);
    cr_expect_eq(m.moved, 2);
    cr_expect_eq(m.next_us, -1);
}

LUA_TEST(lua_move, what_waits_unread_takes_up_room)
{
    add_many("mail", 10, "+0");
    cr_expect_eq(lua_move(lua, 4, 100).moved, 4);
    cr_expect_eq(lua_move(lua, 4, 100).moved, 0, "no room");
    cr_expect_eq(lua_move(lua, 6, 100).moved, 2);
    cr_assert_eq(lua_read(lua, "g/1", entries, 5), 5);
    cr_expect_eq(lua_move(lua, 6, 100).moved, 4, "what was read has made room");
}

LUA_TEST(lua_move, room_of_none_or_less_moves_nothing)
{
    lua_add(lua, "a", "+0", "mail");
    cr_expect_eq(lua_move(lua, 0, 100).moved, 0);
    struct lua_moved m = lua_move(lua, -5, 100);
    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, 0, "it is due all the same");
}

LUA_TEST(lua_move, room_holds_with_more_due_queues_than_room)
{
    char queue[24];

    for (int i = 0; i < 20; i++) {
        (void)snprintf(queue, sizeof(queue), "q%02d", i);
        add_many(queue, 2, "+0");
    }
    struct lua_moved m = lua_move(lua, 5, 100);
    cr_expect_eq(m.moved, 5);
    cr_expect_eq(m.unread, 5);
    cr_expect_eq(m.next_us, 0);
}

/* Its head was cancelled, so the index has it too early: that costs a look, and no turn of another. */
LUA_TEST(lua_move, a_queue_that_is_due_no_more_takes_up_no_room)
{
    lua_add(lua, "a", "+0", "first");
    lua_add(lua, "b", "+60000", "first");
    lua_add(lua, "c", "+0", "second");
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_move(lua, 1, 1).moved, 1);
}

/* A queue with a large backlog must not hold up a small one. */
LUA_TEST(lua_move, due_queues_share_the_room)
{
    add_many("big", 50, "+0");
    add_many("small", 2, "+0");
    add_many("tiny", 1, "+0");
    int64_t now_ms = lua_now_ms(lua);
    WAIT_UNTIL(lua_now_ms(lua) > now_ms + 30, 5000); /* all are behind: some are in any case, on a slow machine */
    struct lua_moved m = lua_move(lua, 9, 100);

    cr_expect_eq(lua_counter(lua, "out", "big"), 3);
    cr_expect_eq(lua_counter(lua, "out", "small"), 2);
    cr_expect_eq(lua_counter(lua, "out", "tiny"), 1);
    cr_expect_eq(m.next_us, 0);
}

static int queues_served(int count)
{
    char queue[24];
    int served = 0;

    for (int i = 0; i < count; i++) {
        (void)snprintf(queue, sizeof(queue), "q%03d", i);
        served += lua_counter(lua, "out", queue) > 0;
    }
    return served;
}

static int64_t move_in_another_millisecond(int64_t room)
{
    int64_t now = lua_now_ms(lua);

    WAIT_UNTIL(lua_now_ms(lua) > now, DUE_MS);
    return lua_move(lua, room, 1000).moved;
}

LUA_TEST(lua_move, every_due_queue_has_its_turn)
{
    char queue[24];

    for (int i = 0; i < 150; i++) {
        (void)snprintf(queue, sizeof(queue), "q%03d", i);
        add_many(queue, 2, "+0");
    }
    cr_expect_leq(move_in_another_millisecond(1000), 128, "64 queues in one call");
    cr_expect_eq(queues_served(150), 64);
    move_in_another_millisecond(1000);
    cr_expect_eq(queues_served(150), 128);
    move_in_another_millisecond(1000);
    cr_expect_eq(queues_served(150), 150);
}

LUA_TEST(lua_move, turns_are_taken_with_room_for_one_at_a_time)
{
    char queue[24];

    for (int i = 0; i < 6; i++) {
        (void)snprintf(queue, sizeof(queue), "q%03d", i);
        add_many(queue, 3, "+0");
    }
    for (int i = 1; i <= 6; i++) {
        cr_assert_eq(move_in_another_millisecond(i), 1);
        cr_assert_eq(queues_served(6), i, "turn %d served a queue a second time", i);
    }
}

LUA_TEST(lua_move, after_a_cancelled_head_the_next_due_time_is_found)
{
    lua_add(lua, "a", "+1000", "mail");
    int64_t later = lua_add(lua, "b", "+60000", "mail");

    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    struct lua_moved m;
    WAIT_UNTIL((m = lua_move(lua, 100, 100)).next_us > 2000000, DUE_MS);
    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, later * 1000 - m.now_us);
}

LUA_TEST(lua_move, an_id_without_a_record_is_dropped_and_counted)
{
    add_many("mail", 3, "+0");
    lua_add(lua, "alone", "+0", "other");
    redis_fixture_run(lua_redis(lua), "DEL %smail-1 %salone", lua_keys(lua)->base, lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "HSET %salone no record", lua_keys(lua)->base);
    struct lua_moved m = lua_move(lua, 100, 100);

    redis_fixture_run(lua_redis(lua), "DEL %salone", lua_keys(lua)->base);
    cr_expect_eq(m.moved, 2);
    cr_expect_eq(m.next_us, -1);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 2);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 2);
    cr_expect_eq(lua_counter(lua, "out", "other"), 0);
}

LUA_TEST(lua_move, a_full_call_is_moved)
{
    add_many("mail", 200, "+0");
    cr_expect_eq(lua_move(lua, 1000, 200).moved, 200);
    cr_expect_eq(lua_read(lua, "g/1", entries, READ_MAX), 200);
}

LUA_TEST(lua_move, a_lane_that_is_behind_goes_last_and_leaves_room_for_others)
{
    struct lua_entry read[10];
    int64_t due = 0;

    for (char id[] = "a"; id[0] <= 'j'; id[0]++)
        due = lua_add(lua, id, "+0", "behind");
    WAIT_UNTIL(lua_now_ms(lua) > due + 25, 5000);
    (void)lua_add(lua, "fresh", "+0", "on-time");
    (void)lua_add(lua, "later", "+60000", "later");

    struct lua_moved m = lua_move_behind(lua, 8, 3, 100);
    cr_expect_eq(m.moved, 3, "the fresh one and two of those behind, not %lld", (long long)m.moved);
    cr_expect_eq(m.next_us, 0);
    cr_assert_eq(lua_read(lua, "g/1", read, 10), 3);
    cr_expect_str_eq(read[0].id, "fresh");
    cr_expect_str_eq(read[1].id, "a");
    cr_expect_str_eq(read[2].id, "b");

    m = lua_move_behind(lua, 8, 0, 100);
    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, 0, "more is due");
    cr_expect(m.later_us > 50000000 && m.later_us <= 60000000, "%lld", (long long)m.later_us);
}

LUA_TEST(lua_move, lanes_that_are_on_time_do_not_starve_one_that_is_behind)
{
    char id[16];
    int64_t due = lua_add(lua, "old-1", "+0", "behind");

    (void)lua_add(lua, "old-2", "+0", "behind");
    WAIT_UNTIL(lua_now_ms(lua) > due + 25, 5000);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(id, sizeof(id), "new-%d", i);
        (void)lua_add(lua, id, "+0", "on-time");
    }
    cr_expect_eq(lua_move_behind(lua, 20, 3, 100).moved, 7, "all that are on time, and one");
    cr_expect_eq(lua_state(lua, "old-1"), TASK_READY);
    cr_expect_eq(lua_state(lua, "old-2"), TASK_SCHEDULED);
    cr_expect_eq(lua_move_behind(lua, 20, 3, 100).moved, 0, "the Stream has enough for a lane that is behind");
    (void)lua_add(lua, "newer", "+0", "on-time");
    cr_expect_eq(lua_move_behind(lua, 8, 3, 100).moved, 1, "there is room for one only");
    cr_expect_eq(lua_state(lua, "old-2"), TASK_SCHEDULED);
}
