#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_patch, .init = set_up, .fini = tear_down);

static int64_t lane_score(const char *key, const char *member)
{
    redisReply *r = redis_fixture_command(lua_redis(lua), "ZSCORE %s %s", key, member);
    int64_t score = r->type == REDIS_REPLY_STRING ? (int64_t)strtod(r->str, NULL) : -1;

    freeReplyObject(r);
    return score;
}

static int64_t index_score(const char *lane)
{
    return lane_score(lua_keys(lua)->lanes, lane);
}

LUA_TEST(lua_patch, a_scheduled_task_gets_the_new_specification)
{
    struct task *t = NULL;
    int64_t due = lua_add(lua, "a", "+60000", "mail");

    cr_expect_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "bye"}, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    cr_expect_str_eq(t->body, "bye");
    cr_expect_str_eq(t->queue, "mail");
    cr_expect_eq(t->run_at_ms, due, "its time stays");
    cr_expect(t->has_digest, "a repeat of its creation is still known");
    task_destroy(&t);
    t = lua_task(lua, "a");
    cr_expect_str_eq(t->body, "bye");
    task_destroy(&t);
}

LUA_TEST(lua_patch, a_new_time_moves_it_in_its_lane)
{
    static const struct {
        const char *due;
        int64_t from_now_ms;
    } rows[] = {{"+30000", 30000}, {"+90000", 90000}, {"+0", 0}, {"1000", 0}};

    lua_add(lua, "a", "+60000", "mail");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct task *t = NULL;
        int64_t before = lua_now_ms(lua);
        cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .due = rows[i].due}, &t), TASK_SCHEDULED);
        cr_expect_geq(t->run_at_ms, before + rows[i].from_now_ms, "%s", rows[i].due);
        cr_expect_leq(t->run_at_ms, lua_now_ms(lua) + rows[i].from_now_ms, "%s", rows[i].due);
        cr_expect_str_eq(t->body, "hello");
        cr_expect_leq(index_score("mail"), t->run_at_ms, "the mover looks in time");
        task_destroy(&t);
        lua_check(lua);
    }
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1, "a past time is now");
}

LUA_TEST(lua_patch, an_absolute_time_is_kept_to_the_millisecond)
{
    struct task *t = NULL;

    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .due = "4000000000123"}, &t), TASK_SCHEDULED);
    cr_expect_eq(t->run_at_ms, 4000000000123);
    task_destroy(&t);
}

LUA_TEST(lua_patch, the_head_of_a_lane_that_moves_later_holds_up_nobody)
{
    struct task *t = NULL;

    lua_add(lua, "head", "+50", "mail");
    lua_add(lua, "next", "+3600000", "mail");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "head", .due = "+7200000"}, &t), TASK_SCHEDULED);
    int64_t first = lua_now_ms(lua) + 100;
    WAIT_UNTIL(lua_now_ms(lua) > first, 2000);
    struct lua_moved m = lua_move(lua, 100, 100);
    cr_expect_eq(m.moved, 0);
    cr_expect_gt(m.next_us, 3500000000, "the mover sleeps until the next one: %lld", (long long)m.next_us);
    task_destroy(&t);
}

LUA_TEST(lua_patch, a_ready_task_keeps_its_place_when_its_time_stays)
{
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "bye"}, NULL), TASK_READY);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_expect_eq(lua_claim(lua, &e, 1), 1);
    struct task *t = lua_task(lua, "a");
    cr_expect_str_eq(t->body, "bye", "the worker sends what it is now");
    task_destroy(&t);
}

LUA_TEST(lua_patch, a_ready_task_goes_back_to_its_lane_for_a_new_time)
{
    struct lua_entry e;
    struct task *t = NULL;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_expect_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .due = "+60000"}, &t), TASK_READY);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    task_destroy(&t);
    cr_expect_eq(lua_claim(lua, &e, 1), 0, "who has read it is late");
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 0);
}

LUA_TEST(lua_patch, a_task_that_waits_for_its_next_attempt_keeps_its_history)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    struct task *t = NULL;

    cr_assert_eq(lua_settle(lua, &e, 'r', 60000), TASK_SCHEDULED);
    struct task *before = lua_task(lua, "a");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "a longer body"}, &t), TASK_SCHEDULED);
    cr_expect_eq(t->when_ms, before->when_ms, "the next attempt is due as before");
    task_destroy(&t);
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .due = "+30000"}, &t), TASK_SCHEDULED);
    cr_expect_lt(t->when_ms, before->when_ms);
    cr_expect_eq(t->run_at_ms, t->when_ms);
    cr_expect_eq(t->attempts, 1);
    cr_assert_eq(t->history_count, 1);
    cr_expect_str_eq(t->history[0].error, "broken");
    cr_expect_str_eq(t->body, "a longer body");
    task_destroy(&before);
    task_destroy(&t);
}

LUA_TEST(lua_patch, a_large_record_is_changed_too)
{
    struct task *t = NULL;
    char *body = calloc(1, 100001);

    memset(body, 'x', 100000);
    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = body}, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    task_destroy(&t);
    t = lua_task(lua, "a");
    cr_expect_eq(t->body_bytes, 100000);
    task_destroy(&t);
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "short"}, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    task_destroy(&t);
    t = lua_task(lua, "a");
    cr_expect_str_eq(t->body, "short");
    task_destroy(&t);
    free(body);
}

LUA_TEST(lua_patch, of_two_from_the_same_state_the_second_changes_nothing)
{
    struct task *t = NULL;

    lua_add(lua, "a", "+60000", "mail");
    struct task *read = lua_task(lua, "a");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "one", .read = read}, NULL), TASK_SCHEDULED);
    cr_expect_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "two", .due = "+0", .read = read}, &t),
                 TASK_SCHEDULED);
    cr_expect_null(t);
    task_destroy(&read);
    t = lua_task(lua, "a");
    cr_expect_str_eq(t->body, "one");
    cr_expect_gt(t->run_at_ms, lua_now_ms(lua) + 50000);
    task_destroy(&t);
}

LUA_TEST(lua_patch, a_repeat_after_a_lost_answer_is_done_in_any_state)
{
    struct task *read = NULL, *t = NULL;

    lua_add(lua, "a", "+0", "mail");
    read = lua_task(lua, "a");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "bye"}, NULL), TASK_SCHEDULED);
    struct lua_patch again = {.id = "a", .body = "bye", .read = read, .was_sent = true};
    cr_expect_eq(lua_patch(lua, &again, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    cr_expect_str_eq(t->body, "bye");
    task_destroy(&t);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    struct lua_entry e;
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_expect_eq(lua_patch(lua, &again, &t), TASK_DELIVERING);
    cr_expect_not_null(t, "it took effect before the attempt began");
    task_destroy(&t);
    again.body = "another";
    cr_expect_eq(lua_patch(lua, &again, &t), TASK_DELIVERING);
    cr_expect_null(t);
    task_destroy(&read);
}

LUA_TEST(lua_patch, a_repeat_of_a_new_time_is_done_when_the_task_went_on)
{
    static const char *const times[] = {"+0", "1", NULL};

    for (size_t i = 0; times[i]; i++) {
        char id[8];
        struct lua_entry e;
        struct task *t = NULL;

        (void)snprintf(id, sizeof(id), "t%zu", i);
        lua_add(lua, id, "+60000", "mail");
        cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = id, .due = times[i]}, NULL), TASK_SCHEDULED);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
        struct lua_patch again = {.id = id, .due = times[i], .was_sent = true};
        cr_expect_eq(lua_patch(lua, &again, &t), TASK_DELIVERING);
        cr_expect_not_null(t, "%s: it took effect before the attempt began", times[i]);
        task_destroy(&t);
        again.was_sent = false;
        cr_expect_eq(lua_patch(lua, &again, &t), TASK_DELIVERING);
        cr_expect_null(t, "%s: this one is another's", times[i]);
        again = (struct lua_patch){.id = id, .due = "+60000", .was_sent = true};
        cr_expect_eq(lua_patch(lua, &again, &t), TASK_DELIVERING);
        cr_expect_null(t, "it was never due then");
    }
}

LUA_TEST(lua_patch, an_expiry_is_set_moved_and_counted_from_now)
{
    struct task *t = NULL;
    int64_t before = lua_now_ms(lua);

    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .expires_in_ms = 90000}, &t), TASK_SCHEDULED);
    cr_expect(t->has_expiry);
    cr_expect_geq(t->expires_ms, before + 90000);
    cr_expect_leq(t->expires_ms, lua_now_ms(lua) + 90000);
    cr_expect_leq(index_score(":expiry"), t->expires_ms);
    task_destroy(&t);
    lua_check(lua);
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .expires_in_ms = 30000}, &t), TASK_SCHEDULED);
    cr_expect_lt(t->expires_ms, before + 60000);
    cr_expect_leq(index_score(":expiry"), t->expires_ms, "it is looked at earlier now");
    task_destroy(&t);
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .body = "bye"}, &t), TASK_SCHEDULED);
    cr_expect(t->has_expiry, "another change keeps it");
    task_destroy(&t);
}

LUA_TEST(lua_patch, a_repeat_with_an_expiry_from_now_is_recognised)
{
    struct task *t = NULL;

    lua_add(lua, "a", "+60000", "mail");
    struct task *read = lua_task(lua, "a");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .expires_in_ms = 90000}, NULL), TASK_SCHEDULED);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    struct lua_patch again = {.id = "a", .expires_in_ms = 90000, .read = read, .was_sent = true};
    cr_expect_eq(lua_patch(lua, &again, &t), TASK_CANCELLED);
    cr_expect_not_null(t);
    task_destroy(&t);
    again.expires_in_ms = 80000;
    again.body = "bye";
    cr_expect_eq(lua_patch(lua, &again, &t), TASK_CANCELLED);
    cr_expect_null(t);
    task_destroy(&read);
}

LUA_TEST(lua_patch, a_task_under_way_or_finished_is_not_changed)
{
    static const struct {
        char how; /* '-': still under way, 'c': cancelled */
        int state;
    } rows[] = {{'-', TASK_DELIVERING}, {'d', TASK_DELIVERED}, {'x', TASK_DEAD}, {'c', TASK_CANCELLED}};

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
        cr_expect_eq(lua_patch(lua, &(struct lua_patch){.id = ids[i], .body = "bye", .due = "+0"}, &t), rows[i].state);
        cr_expect_null(t);
        struct task *after = lua_task(lua, ids[i]);
        cr_expect_eq(after->run_at_ms, before->run_at_ms);
        cr_expect_eq(after->generation, before->generation);
        cr_expect(!after->body || strcmp(after->body, "hello") == 0);
        task_destroy(&before);
        task_destroy(&after);
    }
}

LUA_TEST(lua_patch, there_is_nothing_to_change_without_a_task)
{
    cr_expect_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .due = "+0"}, NULL), -1);
}

LUA_TEST(lua_patch, other_settings_of_a_queue_refuse_the_whole_call)
{
    lua_add(lua, "a", "+60000", "mail");
    redis_fixture_run(lua_redis(lua), "HSET %s:settings : 7", lua_keys(lua)->base);
    struct call *c = lua_begin(lua, SCRIPT_PATCH);
    call_add_record_key(c, lua_keys(lua), "a");
    call_begin_args(c, lua_keys(lua));
    call_add_str(c, "0");
    call_add_str(c, "a");
    call_add_str(c, "+0");
    call_add_str(c, "0");
    call_add_str(c, "was");
    call_add_str(c, "is");
    redisReply *r = lua_send(lua);
    cr_assert_eq(r->elements, 1);
    cr_expect_eq(r->element[0]->integer, -1);
    freeReplyObject(r);
}

LUA_TEST(lua_patch, a_paused_queue_stays_held)
{
    lua_add(lua, "a", "+60000", "mail");
    redis_fixture_run(lua_redis(lua), "HSET %s:settings mail %s", lua_keys(lua)->base, "1 0 0 {}");
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "a", .due = "+0"}, NULL), TASK_SCHEDULED);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 0);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
}
