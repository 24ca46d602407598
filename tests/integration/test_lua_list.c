#include "../support/lua_fixture.h"
#include "base/buf.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* lua/list.lua: which tasks come next, step by step. How steps become pages is in tests/e2e/test_list.c. */

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_list, .init = set_up, .fini = tear_down, .timeout = 120);

struct step {
    enum task_state state;
    const char *queue; /* NULL: all */
    const char *score, *id;
    int limit;
};

/* One step: the ids it found, each with a blank behind it; *has_more and what it looked at last. */
static char *list(const struct step *s, bool *has_more, char last[200])
{
    struct call *c = lua_begin(lua, SCRIPT_LIST);
    struct buf ids;

    call_begin_args(c, lua_keys(lua));
    call_add_int(c, s->state);
    call_add_str(c, s->queue ? s->queue : "");
    call_add_str(c, s->score ? s->score : "");
    call_add_str(c, s->id ? s->id : "");
    call_add_int(c, s->limit);
    call_add_str(c, "0");
    redisReply *r = lua_send(lua);
    cr_assert_geq(r->elements, 4);
    cr_expect_str_eq(r->element[0]->str, "0");
    *has_more = r->element[1]->integer == 1;
    (void)snprintf(last, 200, "%s %s", r->element[2]->str, r->element[3]->str);
    buf_init(&ids, 1 << 20);
    buf_puts(&ids, "");
    for (size_t i = 4; i + 1 < r->elements; i += 2)
        buf_printf(&ids, "%s ", r->element[i + 1]->str);
    freeReplyObject(r);
    return buf_take(&ids, NULL);
}

static void expect_list(struct step s, const char *want, bool wants_more)
{
    bool has_more = false;
    char last[200];
    char *ids = list(&s, &has_more, last);

    cr_expect_str_eq(ids, want, "found \"%s\", not \"%s\"", ids, want);
    cr_expect_eq(has_more, wants_more, "after %s", want);
    free(ids);
}

#define DUE "2000000000000"

LUA_TEST(lua_list, lanes_are_merged_in_due_order_and_equal_times_by_id)
{
    (void)lua_add(lua, "c", DUE, "x");
    (void)lua_add(lua, "a", DUE, "y");
    (void)lua_add(lua, "B", DUE, "y"); /* capitals first, whatever the locale */
    (void)lua_add(lua, "z", "1999999999999", "z");
    expect_list((struct step){TASK_SCHEDULED, NULL, NULL, NULL, 10}, "z B a c ", false);
    expect_list((struct step){TASK_SCHEDULED, NULL, NULL, NULL, 3}, "z B a ", true);
    expect_list((struct step){TASK_SCHEDULED, NULL, DUE, "B", 10}, "a c ", false);
    expect_list((struct step){TASK_SCHEDULED, "y", NULL, NULL, 1}, "B ", true);
    expect_list((struct step){TASK_SCHEDULED, "y", DUE, "B", 1}, "a ", true);
    expect_list((struct step){TASK_SCHEDULED, "y", DUE, "a", 1}, "", false);
}

LUA_TEST(lua_list, the_task_to_go_on_behind_may_have_gone)
{
    char id[16];

    for (int i = 0; i < 100; i++) {
        (void)snprintf(id, sizeof(id), "t%02d", i);
        (void)lua_add(lua, id, DUE, "x");
    }
    for (int i = 40; i < 60; i++) {
        (void)snprintf(id, sizeof(id), "t%02d", i);
        cr_assert_eq(lua_cancel(lua, id), TASK_SCHEDULED);
    }
    expect_list((struct step){TASK_SCHEDULED, "x", DUE, "t50", 3}, "t60 t61 t62 ", true);
    expect_list((struct step){TASK_SCHEDULED, "x", DUE, "t39", 1}, "t60 ", true);
    expect_list((struct step){TASK_SCHEDULED, "x", DUE, "zzz", 1}, "", false);
    expect_list((struct step){TASK_SCHEDULED, "x", "1", "zzz", 1}, "t00 ", true);
    expect_list((struct step){TASK_SCHEDULED, "x", "2000000000001", "a", 1}, "", false);
}

LUA_TEST(lua_list, the_stream_shows_who_is_ready_and_who_is_delivering)
{
    (void)lua_start(lua, "under-way", "x", "g/1");

    (void)lua_add(lua, "ready-x", "+0", "x");
    (void)lua_add(lua, "ready-y", "+0", "y");
    cr_assert_eq(lua_move(lua, 10, 10).moved, 2);
    expect_list((struct step){TASK_DELIVERING, NULL, NULL, NULL, 10}, "under-way ", false);
    expect_list((struct step){TASK_DELIVERING, "y", NULL, NULL, 10}, "", false);
    expect_list((struct step){TASK_READY, "y", NULL, NULL, 10}, "ready-y ", false);
}

LUA_TEST(lua_list, the_finished_of_one_queue_are_looked_for_a_bounded_way)
{
    enum { OTHERS = 250 };
    char id[16], last[200];
    bool has_more = false;

    for (int i = 0; i < OTHERS; i++) {
        (void)snprintf(id, sizeof(id), "o%03d", i);
        (void)lua_add(lua, id, DUE, "other");
        cr_assert_eq(lua_cancel(lua, id), TASK_SCHEDULED);
    }
    (void)lua_add(lua, "rare", DUE, "rare");
    cr_assert_eq(lua_cancel(lua, "rare"), TASK_SCHEDULED);

    char *ids = list(&(struct step){TASK_CANCELLED, "rare", NULL, NULL, 10}, &has_more, last);
    cr_expect_str_eq(ids, "");
    cr_expect(has_more);
    free(ids);
    char *blank = strchr(last, ' ');
    *blank = '\0';
    expect_list((struct step){TASK_CANCELLED, "rare", last, blank + 1, 10}, "rare ", false);
}

LUA_TEST(lua_list, the_dead_of_a_queue_have_their_own_order)
{
    struct lua_entry one = lua_start(lua, "one", "x", "g/1");
    struct lua_entry two = lua_start(lua, "two", "y", "g/1");

    cr_assert_eq(lua_settle(lua, &two, 'x', 0), TASK_DEAD);
    cr_assert_eq(lua_settle(lua, &one, 'x', 0), TASK_DEAD);
    expect_list((struct step){TASK_DEAD, "x", NULL, NULL, 10}, "one ", false);
    expect_list((struct step){TASK_DEAD, "z", NULL, NULL, 10}, "", false);
}

LUA_TEST(lua_list, a_glance_shows_what_is_there_and_nil_for_what_is_gone)
{
    struct call *c = NULL;

    (void)lua_add(lua, "here", DUE, "x");
    c = lua_begin(lua, SCRIPT_GLANCE);
    call_add_record_key(c, lua_keys(lua), "gone");
    call_begin_args(c, lua_keys(lua));
    redisReply *r = lua_send(lua);
    cr_assert_eq(r->elements, 1);
    cr_expect_eq(r->element[0]->type, REDIS_REPLY_NIL);
    freeReplyObject(r);

    c = lua_begin(lua, SCRIPT_GLANCE);
    call_add_record_key(c, lua_keys(lua), "here");
    call_begin_args(c, lua_keys(lua));
    r = lua_send(lua);
    cr_assert_eq(r->element[0]->type, REDIS_REPLY_STRING);
    freeReplyObject(r);
}
