#include "../support/lua_fixture.h"
#include <criterion/criterion.h>
#include <stdlib.h>

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_cancel, .init = set_up, .fini = tear_down);

LUA_TEST(lua_cancel, a_scheduled_task_is_cancelled_at_once)
{
    int64_t before = lua_now_ms(lua);

    lua_add(lua, "a", "+60000", "mail");
    cr_expect_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_CANCELLED);
    cr_expect_geq(t->when_ms, before);
    cr_expect_eq(t->history_count, 0);
    cr_expect_str_eq(t->body, "hello");
    cr_expect_not(t->cancel_requested);
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 0);
    cr_expect_eq(lua_move(lua, 100, 100).next_us, -1, "its lane is gone");
}

LUA_TEST(lua_cancel, a_lane_keeps_its_other_tasks)
{
    lua_add(lua, "a", "+60000", "mail");
    lua_add(lua, "b", "+0", "mail");
    cr_expect_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_state(lua, "b"), TASK_READY);
}

LUA_TEST(lua_cancel, a_ready_task_is_cancelled_at_once)
{
    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_cancel(lua, "a"), TASK_READY);
    cr_expect_eq(lua_state(lua, "a"), TASK_CANCELLED);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 1);
}

LUA_TEST(lua_cancel, a_task_that_was_read_and_not_claimed_is_cancelled_at_once)
{
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_expect_eq(lua_cancel(lua, "a"), TASK_READY);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
}

LUA_TEST(lua_cancel, a_task_under_way_is_only_marked)
{
    lua_start(lua, "a", "mail", "g/1");
    cr_expect_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_DELIVERING);
    cr_expect(t->cancel_requested);
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 0);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 1);
    cr_expect_eq(lua_cancel(lua, "a"), TASK_DELIVERING, "a repeat changes nothing");
}

LUA_TEST(lua_cancel, the_mark_keeps_the_takeovers)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", 60000);
    cr_assert_eq(lua_recover(lua, "h", 15000), 1);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "h/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->takeovers, 1);
    cr_expect(t->cancel_requested);
    task_destroy(&t);
}

LUA_TEST(lua_cancel, a_task_that_waits_for_its_next_attempt_keeps_its_history)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'r', 60000), TASK_SCHEDULED);
    cr_expect_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_CANCELLED);
    cr_expect_eq(t->attempts, 1);
    cr_assert_eq(t->history_count, 1);
    cr_expect_str_eq(t->history[0].error, "broken");
    cr_expect_str_eq(t->body, "hello");
    cr_expect_leq(t->when_ms, lua_now_ms(lua), "it is when it finished now");
    task_destroy(&t);
}

static void expect_unchanged_by_cancel(int state)
{
    struct task *before = lua_task(lua, "a");

    cr_expect_eq(lua_cancel(lua, "a"), state);
    struct task *after = lua_task(lua, "a");
    cr_expect_eq((int)after->state, state);
    cr_expect_eq(after->when_ms, before->when_ms);
    cr_expect_eq(after->generation, before->generation);
    task_destroy(&before);
    task_destroy(&after);
}

LUA_TEST(lua_cancel, a_finished_task_stays_as_it_is)
{
    static const struct {
        char how;
        int state;
    } ends[] = {{'d', TASK_DELIVERED}, {'x', TASK_DEAD}};

    for (size_t i = 0; i < 2; i++) {
        struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
        cr_assert_eq(lua_settle(lua, &e, ends[i].how, 0), ends[i].state);
        expect_unchanged_by_cancel(ends[i].state);
        cr_assert_eq(lua_sweep(lua, 0, 1000, 100), 1);
    }
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 0);
}

LUA_TEST(lua_cancel, a_cancelled_task_stays_as_it_is)
{
    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    expect_unchanged_by_cancel(TASK_CANCELLED);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 1);
}

LUA_TEST(lua_cancel, there_is_nothing_to_cancel_without_a_task)
{
    cr_expect_eq(lua_cancel(lua, "a"), -1);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 0);
}

LUA_TEST(lua_cancel, one_call_takes_tasks_in_all_states_and_repeats)
{
    static const char *const ids[] = {"waits", "none", "runs", "waits", "other"};
    static const int found[] = {TASK_SCHEDULED, -1, TASK_DELIVERING, TASK_CANCELLED, TASK_SCHEDULED};

    lua_start(lua, "runs", "mail", "g/1");
    lua_add(lua, "waits", "+60000", "mail");
    lua_add(lua, "other", "+60000", "sms");
    struct call *c = lua_begin(lua, SCRIPT_CANCEL);
    for (int i = 0; i < 5; i++)
        call_add_record_key(c, lua_keys(lua), ids[i]);
    call_begin_args(c, lua_keys(lua));
    for (int i = 0; i < 5; i++)
        call_add_str(c, ids[i]);
    redisReply *r = lua_send(lua);
    cr_assert_eq(r->elements, 5);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(r->element[i]->element[0]->integer, found[i], "%s", ids[i]);
    freeReplyObject(r);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 2);
}
