#include "../support/lua_fixture.h"
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

TestSuite(lua_run, .init = set_up, .fini = tear_down);

LUA_TEST(lua_run, a_scheduled_task_is_due_now)
{
    struct task *t = NULL;
    int64_t before = lua_now_ms(lua);

    lua_add(lua, "a", "+60000", "mail");
    cr_expect_eq(lua_run(lua, "a", false, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_geq(t->run_at_ms, before);
    cr_expect_leq(t->run_at_ms, lua_now_ms(lua));
    cr_expect_str_eq(t->body, "hello");
    task_destroy(&t);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

LUA_TEST(lua_run, it_passes_those_that_are_due_later)
{
    lua_add(lua, "first", "+50000", "mail");
    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_run(lua, "a", false, NULL), TASK_SCHEDULED);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_READY);
    cr_expect_eq(lua_state(lua, "first"), TASK_SCHEDULED);
}

LUA_TEST(lua_run, a_task_that_waits_for_its_next_attempt_waits_no_longer)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    struct task *t = NULL;

    cr_assert_eq(lua_settle(lua, &e, 'r', 60000), TASK_SCHEDULED);
    cr_assert_eq(lua_run(lua, "a", false, &t), TASK_SCHEDULED);
    cr_expect_eq(t->when_ms, t->run_at_ms);
    cr_expect_eq(t->attempts, 1, "its attempts are counted on");
    cr_expect_eq(t->history_count, 1);
    task_destroy(&t);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

LUA_TEST(lua_run, a_ready_task_is_due_now_and_stays_where_it_is)
{
    struct task *t = NULL;
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_expect_eq(lua_run(lua, "a", false, &t), TASK_READY);
    cr_assert_not_null(t);
    cr_expect_eq(t->state, TASK_READY);
    task_destroy(&t);
    cr_expect_eq(lua_claim(lua, &e, 1), 1);
}

LUA_TEST(lua_run, it_keeps_an_expiry)
{
    struct task *t = NULL;

    lua_add_expiring(lua, "a", "+60000", "mail", 90000);
    cr_assert_eq(lua_run(lua, "a", false, &t), TASK_SCHEDULED);
    cr_expect(t->has_expiry);
    task_destroy(&t);
}

/* A first run of which the answer was lost is done by then; one that was never sent is refused. */
LUA_TEST(lua_run, a_task_under_way_or_finished_is_refused_unless_it_was_run_before)
{
    static const struct {
        char how; /* '-': still under way, 'c': cancelled */
        int state;
        bool may_be_ours;
    } rows[] = {{'-', TASK_DELIVERING, true},
                {'d', TASK_DELIVERED, true},
                {'x', TASK_DEAD, true},
                {'c', TASK_CANCELLED, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        static const char *const ids[] = {"a", "b", "c", "d"};
        struct task *t = NULL;
        struct lua_entry e = {0};
        if (rows[i].how == 'c') {
            lua_add(lua, ids[i], "+60000", "mail");
            cr_assert_eq(lua_cancel(lua, ids[i]), TASK_SCHEDULED);
        } else {
            e = lua_start(lua, ids[i], "mail", "g/1");
        }
        if (rows[i].how == 'd' || rows[i].how == 'x')
            cr_assert_eq(lua_settle(lua, &e, rows[i].how, 0), rows[i].state);
        struct task *before = lua_task(lua, ids[i]);
        cr_expect_eq(lua_run(lua, ids[i], false, &t), rows[i].state);
        cr_expect_null(t);
        cr_expect_eq(lua_run(lua, ids[i], true, &t), rows[i].state);
        cr_expect_eq(t != NULL, rows[i].may_be_ours);
        task_destroy(&t);
        struct task *after = lua_task(lua, ids[i]);
        cr_expect_eq(after->state, before->state);
        cr_expect_eq(after->run_at_ms, before->run_at_ms);
        task_destroy(&before);
        task_destroy(&after);
    }
}

LUA_TEST(lua_run, there_is_nothing_to_run_without_a_task)
{
    cr_expect_eq(lua_run(lua, "a", false, NULL), -1);
    cr_expect_eq(lua_run(lua, "a", true, NULL), -1);
}

LUA_TEST(lua_run, one_call_takes_several)
{
    static const char *const ids[] = {"a", "none", "b", "a"};
    static const int found[] = {TASK_SCHEDULED, -1, TASK_SCHEDULED, TASK_SCHEDULED};

    lua_add(lua, "a", "+60000", "mail");
    lua_add(lua, "b", "+60000", "sms");
    struct call *c = lua_begin(lua, SCRIPT_RUN);
    for (int i = 0; i < 4; i++)
        call_add_record_key(c, lua_keys(lua), ids[i]);
    call_begin_args(c, lua_keys(lua));
    for (int i = 0; i < 4; i++) {
        call_add_str(c, ids[i]);
        call_add_str(c, "0");
    }
    redisReply *r = lua_send(lua);
    cr_assert_eq(r->elements, 4);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(r->element[i]->element[0]->integer, found[i], "%s", ids[i]);
    freeReplyObject(r);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 2);
}
