#include "../support/lua_ends.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS 86400000

static struct lua_fixture *lua;
static struct lua_marked marked;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_callbacks, .init = set_up, .fini = tear_down);

static const struct lua_ending BOTH = {
    .id = "a", .due = "+0", .queue = "mail", .on_success = "http://s/", .on_failure = "http://f/"};

static void end_as(const struct lua_ending *e, char how)
{
    struct lua_entry entry = lua_start_ending(lua, e);

    cr_assert_neq(lua_settle(lua, &entry, how, 0), -1);
}

static void look(void)
{
    lua_callbacks(lua, 50, 49152, &marked);
}

static int64_t announce_first(const char *news, int64_t *left)
{
    look();
    cr_assert_geq(marked.count, 1);
    return lua_announce(lua, marked.tasks[0].id, marked.tasks[0].mark, news, left);
}

/* --------------------------------------------------------- who calls back */

LUA_TEST(lua_callbacks, each_end_calls_back_whom_it_should)
{
    static const struct {
        const char *id, *on_success, *on_failure;
        char how; /* as lua_settle(); c: cancelled before, C: cancelled under way, e: expired */
        bool is_marked;
    } rows[] = {
        {"delivered-both", "http://s/", "http://f/", 'd', true},
        {"delivered-s", "http://s/", NULL, 'd', true},
        {"delivered-f", NULL, "http://f/", 'd', false},
        {"delivered", NULL, NULL, 'd', false},
        {"dead-both", "http://s/", "http://f/", 'x', true},
        {"dead-s", "http://s/", NULL, 'x', false},
        {"dead-f", NULL, "http://f/", 'x', true},
        {"retry-both", "http://s/", "http://f/", 'r', false},
        {"expired-both", "http://s/", "http://f/", 'e', true},
        {"expired-s", "http://s/", NULL, 'e', false},
        {"expired-f", NULL, "http://f/", 'e', true},
        {"cancelled-both", "http://s/", "http://f/", 'c', false},
        {"stopped-both", "http://s/", "http://f/", 'C', false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct lua_ending e = {.id = rows[i].id,
                               .due = "+0",
                               .queue = "mail",
                               .on_success = rows[i].on_success,
                               .on_failure = rows[i].on_failure};
        if (rows[i].how == 'e') {
            e.expires_in_ms = -1;
            lua_add_ending(lua, &e);
            cr_assert_eq(lua_expire(lua, 100, NULL), 1);
        } else if (rows[i].how == 'c') {
            lua_add_ending(lua, &e);
            cr_assert_eq(lua_cancel(lua, e.id), TASK_SCHEDULED);
        } else {
            struct lua_entry entry = lua_start_ending(lua, &e);
            if (rows[i].how == 'C')
                cr_assert_eq(lua_cancel(lua, e.id), TASK_DELIVERING);
            cr_assert_neq(lua_settle(lua, &entry, rows[i].how == 'C' ? 'r' : rows[i].how, DAY_MS), -1);
        }
        look();
        cr_expect_eq(marked.in_all, rows[i].is_marked, "%s", rows[i].id);
        if (marked.count > 0) {
            cr_expect_str_eq(marked.tasks[0].id, rows[i].id);
            cr_expect_eq(lua_announce(lua, marked.tasks[0].id, marked.tasks[0].mark, NULL, NULL), 0);
        }
    }
}

LUA_TEST(lua_callbacks, a_task_whose_workers_were_lost_calls_back)
{
    struct lua_entry e = lua_start_ending(lua, &BOTH);

    for (int i = 1; i <= TASK_TAKEOVERS_MAX; i++) {
        lua_make_idle(lua, &e, "g/1", 60000);
        cr_assert_eq(lua_recover(lua, "h", 1000), 1);
        if (i == TASK_TAKEOVERS_MAX)
            break;
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
    }
    cr_assert_eq(lua_state(lua, "a"), TASK_DEAD);
    look();
    cr_expect_eq(marked.in_all, 1);
}

LUA_TEST(lua_callbacks, a_move_tells_that_there_are_some)
{
    end_as(&BOTH, 'd');
    struct call *c = lua_begin(lua, SCRIPT_MOVE);
    call_begin_args(c, lua_keys(lua));
    call_add_int(c, 0);
    call_add_int(c, 100);
    call_add_int(c, 0);
    redisReply *r = lua_send(lua);
    cr_expect_eq(r->element[4]->integer, 2);
    freeReplyObject(r);
}

/* --------------------------------------------------------------- looking */

LUA_TEST(lua_callbacks, a_look_shows_the_beginning_of_records_and_changes_nothing)
{
    struct task *t;

    end_as(&BOTH, 'x');
    t = lua_task(lua, "a");
    for (int i = 0; i < 2; i++) {
        lua_callbacks(lua, 50, 30, &marked);
        cr_assert_eq(marked.count, 1);
        cr_expect_eq(marked.in_all, 1);
        cr_expect_str_eq(marked.tasks[0].id, "a");
        cr_expect_eq(strtoll(marked.tasks[0].mark, NULL, 10), t->when_ms);
        cr_expect_eq(marked.tasks[0].record_bytes, 30);
    }
    look();
    cr_expect_gt(marked.tasks[0].record_bytes, 30);
    task_destroy(&t);
}

LUA_TEST(lua_callbacks, a_look_shows_a_limited_number)
{
    char id[16];
    struct lua_ending e = BOTH;

    e.id = id;
    for (int i = 0; i < 7; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        end_as(&e, 'd');
    }
    lua_callbacks(lua, 5, 49152, &marked);
    cr_expect_eq(marked.count, 5);
    cr_expect_eq(marked.in_all, 7);
}

LUA_TEST(lua_callbacks, what_has_no_record_or_lives_is_forgotten)
{
    end_as(&BOTH, 'd');
    redis_fixture_run(lua_redis(lua), "ZADD %s:callbacks 1 nobody", lua_keys(lua)->base);
    lua_add(lua, "living", "+3600000", "mail");
    redis_fixture_run(lua_redis(lua), "ZADD %s:callbacks 1 living", lua_keys(lua)->base);
    look();
    cr_expect_eq(marked.in_all, 1);
    cr_expect_str_eq(marked.tasks[0].id, "a");
    cr_expect_eq(lua_state(lua, "living"), TASK_SCHEDULED);
}

LUA_TEST(lua_callbacks, without_any_the_lane_goes)
{
    redis_fixture_run(lua_redis(lua), "ZADD %s:callbacks 1 nobody", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "ZADD %s 1 :callbacks", lua_keys(lua)->lanes);
    look();
    cr_expect_eq(marked.in_all, 0);
    cr_expect_eq(lua_move(lua, 100, 100).next_us, -1);
}

/* ------------------------------------------------------------ announcing */

LUA_TEST(lua_callbacks, a_callback_is_a_task_that_is_due)
{
    int64_t left = -1, before = lua_now_ms(lua);

    end_as(&BOTH, 'd');
    cr_expect_eq(announce_first("news", &left), 1);
    cr_expect_eq(left, 0);
    struct task *t = lua_task(lua, "news");
    cr_assert_not_null(t);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_str_eq(t->queue, "mail");
    cr_expect_geq(t->run_at_ms, before);
    cr_expect_eq(t->created_at_ms, t->run_at_ms);
    task_destroy(&t);
    cr_expect_eq(lua_counter(lua, "totals", "created"), 2);
    cr_expect_eq(lua_counter(lua, "totals", "callbacks"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 1);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1);
}

LUA_TEST(lua_callbacks, the_lane_stays_as_long_as_some_are_left)
{
    int64_t left;
    struct lua_ending other = BOTH;

    other.id = "b";
    end_as(&BOTH, 'd');
    end_as(&other, 'd');
    lua_move(lua, 100, 100);
    cr_assert_eq(announce_first("news", &left), 1);
    cr_expect_eq(left, 1);
    cr_expect_eq(lua_move(lua, 0, 100).next_us, 0, "the news are due");
    redisReply *r = redis_fixture_command(lua_redis(lua), "ZSCORE %s :callbacks", lua_keys(lua)->lanes);
    cr_expect_eq(r->type, REDIS_REPLY_STRING);
    freeReplyObject(r);
    cr_assert_eq(announce_first("more-news", &left), 1);
    r = redis_fixture_command(lua_redis(lua), "ZSCORE %s :callbacks", lua_keys(lua)->lanes);
    cr_expect_eq(r->type, REDIS_REPLY_NIL, "nobody wakes up for it");
    freeReplyObject(r);
}

LUA_TEST(lua_callbacks, it_is_created_once)
{
    int64_t left;

    end_as(&BOTH, 'd');
    cr_expect_eq(announce_first("news", &left), 1);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(lua_announce(lua, "a", marked.tasks[0].mark, i ? "more-news" : "news", &left), 0);
    cr_expect_eq(lua_state(lua, "more-news"), -1);
    cr_expect_eq(lua_counter(lua, "totals", "callbacks"), 1);
    look();
    cr_expect_eq(marked.in_all, 0);
}

LUA_TEST(lua_callbacks, an_id_that_is_taken_already_overwrites_nothing)
{
    int64_t left;

    lua_add(lua, "news", "+3600000", "sms");
    end_as(&BOTH, 'd');
    cr_expect_eq(announce_first("news", &left), 0);
    cr_expect_eq(left, 1, "the next call takes another id");
    struct task *t = lua_task(lua, "news");
    cr_expect_str_eq(t->queue, "sms");
    task_destroy(&t);
    cr_expect_eq(announce_first("other", &left), 1);
}

LUA_TEST(lua_callbacks, what_cannot_be_told_is_dropped)
{
    int64_t left;

    end_as(&BOTH, 'd');
    cr_expect_eq(announce_first(NULL, &left), 0);
    cr_expect_eq(left, 0);
    cr_expect_eq(lua_counter(lua, "totals", "callbacks"), 0);
}

LUA_TEST(lua_callbacks, another_end_than_the_one_seen_is_left_for_the_next_look)
{
    int64_t left;

    end_as(&BOTH, 'x');
    look();
    redis_fixture_run(lua_redis(lua), "ZADD %s:callbacks 12345 a", lua_keys(lua)->base);
    cr_expect_eq(lua_announce(lua, "a", marked.tasks[0].mark, "news", &left), 0);
    cr_expect_eq(left, 1);
    cr_expect_eq(lua_state(lua, "news"), -1);
    cr_expect_eq(announce_first("news", &left), 1);
}

LUA_TEST(lua_callbacks, a_task_that_was_redriven_calls_back_at_its_next_end)
{
    int64_t left;
    struct lua_entry e;

    end_as(&BOTH, 'x');
    look();
    cr_assert_eq(lua_redrive(lua, "a", false, NULL), TASK_DEAD);
    cr_expect_eq(lua_announce(lua, "a", marked.tasks[0].mark, "news", &left), 0, "it lives");
    WAIT_UNTIL(lua_move(lua, 100, 100).moved == 1, 5000);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(announce_first("news", &left), 1);
    cr_expect_eq(lua_counter(lua, "totals", "callbacks"), 1);
}

LUA_TEST(lua_callbacks, nothing_is_created_while_redis_is_out_of_memory)
{
    struct redis_fixture *redis = lua_redis(lua);

    end_as(&BOTH, 'd');
    look();
    redis_fixture_run(redis, "CONFIG SET maxmemory 1");
    struct call *c = lua_begin(lua, SCRIPT_ANNOUNCE);
    call_add_record_key(c, lua_keys(lua), "news");
    call_begin_args(c, lua_keys(lua));
    call_add_str(c, "a");
    call_add_str(c, marked.tasks[0].mark);
    call_add_str(c, "news");
    call_add_str(c, "mail");
    call_add_str(c, "a specification");
    redisReply *r = lua_try(lua);
    cr_expect_eq(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
    redis_fixture_run(redis, "CONFIG SET maxmemory 0");
    cr_expect_eq(lua_state(lua, "news"), -1);
    look();
    cr_expect_eq(marked.in_all, 1, "it is made later");
}

/* ------------------------------------------------------------- sweeping */

LUA_TEST(lua_callbacks, a_record_stays_until_its_callback_was_made)
{
    int64_t left;

    end_as(&BOTH, 'd');
    end_as(&(struct lua_ending){.id = "b", .due = "+0", .queue = "mail", .on_failure = "http://f/"}, 'd');
    cr_expect_eq(lua_sweep(lua, 0, 100, 100), 1, "by age");
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERED);
    cr_expect_eq(lua_state(lua, "b"), -1);
    cr_expect_eq(lua_sweep(lua, DAY_MS, 0, 100), 0, "by number");
    cr_expect_eq(lua_counter(lua, "totals", "trimmed"), 0);
    cr_expect_eq(announce_first("news", &left), 1);
    cr_expect_eq(lua_sweep(lua, DAY_MS, 0, 100), 1);
    cr_expect_eq(lua_state(lua, "a"), -1);
    cr_expect_eq(lua_counter(lua, "totals", "trimmed"), 1);
}
