#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_redrive, .init = set_up, .fini = tear_down);

static struct lua_entry make_dead(const char *id)
{
    struct lua_entry e = lua_start(lua, id, "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    return e;
}

static bool is_past(int64_t ms)
{
    return lua_now_ms(lua) > ms;
}

LUA_TEST(lua_redrive, a_dead_task_is_due_now_with_fresh_attempts_and_its_history)
{
    struct lua_entry old = make_dead("a");
    struct task *t = NULL;
    int64_t before = lua_now_ms(lua);

    cr_expect_eq(lua_redrive(lua, "a", false, &t), TASK_DEAD);
    cr_assert_not_null(t);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_eq(t->attempts, 0);
    cr_expect_eq(t->takeovers, 0);
    cr_expect_geq(t->run_at_ms, before);
    cr_expect_eq(t->history_count, 1);
    cr_expect_str_eq(t->body, "hello");
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "redriven"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "dead"), 1, "it did die once");
    cr_expect_eq(lua_settle(lua, &old, 'd', 0), -1, "who delivered it before is late");
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_sweep(lua, 0, 1000, 100), 0, "it is no finished task any more");
}

LUA_TEST(lua_redrive, a_task_without_attempts_can_be_redriven)
{
    struct task *t = NULL;

    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_redrive(lua, "a", false, &t), TASK_CANCELLED);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_not(t->cancel_requested);
    cr_expect_eq(t->history_count, 0);
    task_destroy(&t);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

LUA_TEST(lua_redrive, a_task_cancelled_under_way_loses_its_cancel_mark)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    struct task *t = NULL;

    cr_assert_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    cr_assert_eq(lua_settle(lua, &e, 'r', 0), TASK_CANCELLED);
    cr_expect_eq(lua_redrive(lua, "a", false, &t), TASK_CANCELLED);
    cr_expect_not(t->cancel_requested);
    task_destroy(&t);
}

LUA_TEST(lua_redrive, a_passed_expiry_is_dropped)
{
    struct task *t = NULL;

    lua_add_expiring(lua, "a", "+0", "mail", 1);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    struct task *before = lua_task(lua, "a");
    cr_assert(before->has_expiry);
    WAIT_UNTIL(is_past(before->expires_ms), 2000);
    cr_expect_eq(lua_redrive(lua, "a", false, &t), TASK_CANCELLED);
    cr_assert_not_null(t);
    cr_expect_not(t->has_expiry);
    cr_expect_str_eq(t->url, before->url);
    cr_expect_str_eq(t->queue, "mail");
    cr_expect_str_eq(t->body, "hello");
    task_destroy(&before);
    task_destroy(&t);
}

LUA_TEST(lua_redrive, an_expiry_to_come_is_kept)
{
    struct task *t = NULL;

    lua_add_expiring(lua, "a", "+0", "mail", 90000);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_redrive(lua, "a", false, &t), TASK_CANCELLED);
    cr_expect(t->has_expiry);
    task_destroy(&t);
}

LUA_TEST(lua_redrive, others_are_refused)
{
    struct task *t = NULL;
    struct lua_entry e;

    lua_add(lua, "waits", "+60000", "mail");
    e = lua_start(lua, "runs", "mail", "g/1");
    cr_expect_eq(lua_redrive(lua, "waits", false, &t), TASK_SCHEDULED);
    cr_expect_null(t);
    cr_expect_eq(lua_redrive(lua, "runs", false, &t), TASK_DELIVERING);
    cr_expect_null(t);
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(lua_redrive(lua, "runs", false, &t), TASK_DELIVERED);
    cr_expect_null(t);
    cr_expect_eq(lua_redrive(lua, "none", false, &t), -1);
    cr_expect_null(t);
    cr_expect_eq(lua_counter(lua, "totals", "redriven"), 0);
}

LUA_TEST(lua_redrive, a_repeat_after_a_lost_answer_is_done)
{
    struct task *t = NULL;

    make_dead("a");
    cr_assert_eq(lua_redrive(lua, "a", false, NULL), TASK_DEAD);
    cr_expect_eq(lua_redrive(lua, "a", true, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "redriven"), 1);
    cr_expect_eq(lua_redrive(lua, "a", false, &t), TASK_SCHEDULED);
    cr_expect_null(t, "another request is refused");
    lua_add(lua, "later", "+60000", "mail");
    cr_expect_eq(lua_redrive(lua, "later", true, &t), TASK_SCHEDULED);
    cr_expect_null(t, "what is due later was not redriven");
}

LUA_TEST(lua_redrive, it_dies_and_lives_again)
{
    struct lua_entry e;

    make_dead("a");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(lua_redrive(lua, "a", false, NULL), TASK_DEAD);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
        cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
        struct task *t = lua_task(lua, "a");
        cr_expect_eq(t->attempts, 1);
        task_destroy(&t);
    }
    cr_expect_eq(lua_counter(lua, "totals", "redriven"), 3);
}
