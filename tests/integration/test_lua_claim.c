#include "../support/lua_fixture.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES ((size_t)9 << 20) /* two of them pass the limit of claim.lua */

static struct lua_fixture *lua;
static struct lua_entry entries[STORE_CALL_MAX];

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_claim, .init = set_up, .fini = tear_down);

/* One task that was read and not claimed. */
static struct lua_entry read_one(const char *id, const char *queue)
{
    lua_add(lua, id, "+0", queue);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", entries, 1), 1);
    return entries[0];
}

static long long stream_length(void)
{
    return redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready);
}

static long long pending(void)
{
    redisReply *r = redis_fixture_command(lua_redis(lua), "XPENDING %s %s", lua_keys(lua)->ready, KEYS_GROUP);
    long long n = r->element[0]->integer;

    freeReplyObject(r);
    return n;
}

LUA_TEST(lua_claim, a_ready_task_is_delivering_then)
{
    struct lua_entry e = read_one("a", "mail");

    cr_expect_eq(lua_state(lua, "a"), TASK_READY);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERING);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 1);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 1);
    cr_expect_eq(pending(), 1);
}

/* As after an answer that was lost. */
LUA_TEST(lua_claim, a_repeat_gives_the_record_again_and_counts_nothing)
{
    struct lua_entry e = read_one("a", "mail");

    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_expect_eq(lua_claim_again(lua, &e, 1), 1);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 1);
    cr_expect_eq(pending(), 1);
}

/* As when the group was made again at 0 while a task was under way. */
LUA_TEST(lua_claim, an_entry_that_is_read_twice_is_given_to_the_first_reader_only)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1"), again;

    redis_fixture_run(lua_redis(lua), "XGROUP DESTROY %s %s", lua_keys(lua)->ready, KEYS_GROUP);
    redis_fixture_run(lua_redis(lua), "XGROUP CREATE %s %s 0", lua_keys(lua)->ready, KEYS_GROUP);
    cr_assert_eq(lua_read(lua, "h/1", &again, 1), 1);
    cr_assert_str_eq(again.lease.entry_id, e.lease.entry_id);
    cr_expect_eq(lua_claim(lua, &again, 1), 0);
    cr_expect_eq(stream_length(), 1, "should the first one be dead, recovery finds it");
    cr_expect_eq(pending(), 1);
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(stream_length(), 0);
}

LUA_TEST(lua_claim, a_cancelled_task_is_dropped_with_its_entry)
{
    struct lua_entry e = read_one("a", "mail");

    cr_assert_eq(lua_cancel(lua, "a"), TASK_READY);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
    cr_expect_eq(lua_state(lua, "a"), TASK_CANCELLED);
    cr_expect_eq(stream_length(), 0);
    cr_expect_eq(pending(), 0);
}

LUA_TEST(lua_claim, a_task_without_a_record_is_dropped_with_its_entry_and_leaves_every_count)
{
    struct lua_entry e = read_one("a", "mail");

    redis_fixture_run(lua_redis(lua), "DEL %sa", lua_keys(lua)->base);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
    cr_expect_eq(stream_length(), 0);
    cr_expect_eq(pending(), 0);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
}

LUA_TEST(lua_claim, the_entry_of_an_earlier_generation_is_dropped_and_the_newer_one_kept)
{
    struct lua_entry old = read_one("a", "mail"), newer;

    lua_make_idle(lua, &old, "g/1", 60000);
    cr_assert_eq(lua_recover(lua, "h", 15000), 1);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "h/1", &newer, 1), 1);
    cr_expect_eq(lua_claim(lua, &old, 1), 0, "the old owner is late");
    cr_expect_eq(lua_state(lua, "a"), TASK_READY);
    cr_expect_eq(lua_claim(lua, &newer, 1), 1);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 1);
}

LUA_TEST(lua_claim, the_entry_of_a_settled_task_is_dropped)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'r', 60000), TASK_SCHEDULED);
    cr_expect_eq(lua_claim(lua, &e, 1), 0);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0);
}

LUA_TEST(lua_claim, a_task_under_way_with_a_cancel_mark_is_given_to_its_owner_again)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    cr_expect_eq(lua_claim_again(lua, &e, 1), 1);
}

LUA_TEST(lua_claim, one_call_takes_good_and_stale_ones_of_several_queues)
{
    const struct lua_new tasks[] = {{"a", "+0", "x"}, {"b", "+0", "y"}, {"c", "+0", "x"}};

    freeReplyObject(lua_create(lua, tasks, 3));
    cr_assert_eq(lua_move(lua, 100, 100).moved, 3);
    cr_assert_eq(lua_read(lua, "g/1", entries, 3), 3);
    cr_assert_eq(lua_cancel(lua, "b"), TASK_READY);
    cr_expect_eq(lua_claim(lua, entries, 3), 2);
    cr_expect_eq(lua_counter(lua, "busy", "x"), 2);
    cr_expect_eq(lua_counter(lua, "busy", "y"), 0);
    cr_expect_eq(pending(), 2);
}

LUA_TEST(lua_claim, a_full_call_of_stale_ones_is_dropped)
{
    char id[24];

    for (int i = 0; i < STORE_CALL_MAX; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        lua_add(lua, id, "+0", "mail");
    }
    cr_assert_eq(lua_move(lua, 1000, STORE_CALL_MAX).moved, STORE_CALL_MAX);
    cr_assert_eq(lua_read(lua, "g/1", entries, STORE_CALL_MAX), STORE_CALL_MAX);
    for (int i = 0; i < STORE_CALL_MAX; i++)
        lua_cancel(lua, entries[i].id);
    cr_expect_eq(lua_claim(lua, entries, STORE_CALL_MAX), 0);
    cr_expect_eq(stream_length(), 0);
    cr_expect_eq(pending(), 0);
}

/* As if the task had been created with a large body. */
static void make_large(const char *id, const char *queue)
{
    struct task *t = task_create();
    redisReply *head = redis_fixture_command(lua_redis(lua), "GETRANGE %s%s 0 19", lua_keys(lua)->base, id);
    struct buf record;

    free(t->queue);
    t->queue = xstrdup(queue);
    t->url = xstrdup("http://receiver/");
    t->body_kind = TASK_BODY_TEXT;
    t->body_bytes = LARGE_BYTES;
    t->body = xcalloc(1, LARGE_BYTES + 1);
    memset(t->body, 'x', LARGE_BYTES);
    buf_init(&record, 2 * LARGE_BYTES);
    buf_append(&record, head->str, head->len);
    record_write_spec(&record, t);
    redis_fixture_run(lua_redis(lua), "SET %s%s %b", lua_keys(lua)->base, id, record.data, record.len);
    buf_deinit(&record);
    freeReplyObject(head);
    task_destroy(&t);
}

LUA_TEST(lua_claim, what_is_too_much_for_one_answer_goes_back_to_its_lane)
{
    static const char *const ids[] = {"a", "b", "c", "d"};

    for (size_t i = 0; i < 4; i++) {
        lua_add(lua, ids[i], "+0", "mail");
        make_large(ids[i], "mail");
    }
    cr_assert_eq(lua_move(lua, 100, 100).moved, 4);
    cr_assert_eq(lua_read(lua, "g/1", entries, 4), 4);
    cr_expect_eq(lua_claim(lua, entries, 4), 2);
    cr_expect_eq(pending(), 2);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 2);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 2, "the others are due at once");
    cr_assert_eq(lua_read(lua, "g/1", entries, 4), 2);
    cr_expect_eq(lua_claim(lua, entries, 2), 2);
}

LUA_TEST(lua_claim, a_repeat_that_is_too_much_gives_back_what_was_ours)
{
    lua_add(lua, "a", "+0", "mail");
    lua_add(lua, "b", "+0", "mail");
    lua_add(lua, "c", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 3);
    cr_assert_eq(lua_read(lua, "g/1", entries, 3), 3);
    cr_assert_eq(lua_claim(lua, entries, 3), 3);
    make_large("a", "mail");
    make_large("b", "mail");
    cr_expect_eq(lua_claim_again(lua, entries, 3), 2);
    cr_expect_eq(lua_state(lua, "c"), TASK_SCHEDULED);
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 2);
}
