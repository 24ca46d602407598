#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* queue.lua: reading and changing one queue. What its limits do is in test_lua_limits.c. */

#define NOT_THERE 0
#define NOT_EMPTY 1
#define DONE 2
#define MADE 3

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_queue, .init = set_up, .fini = tear_down);

static int ask(const char *action, const char *queue)
{
    return lua_queue_do(lua, action, queue, NULL);
}

static int put(const char *queue, const char *settings)
{
    return lua_queue_do(lua, "put", queue, settings);
}

/* The settings of a queue as Redis has them; "" when it has none. */
static const char *kept(const char *queue)
{
    static char text[256];
    redisReply *r = redis_fixture_command(lua_redis(lua), "HGET %s:settings %s", lua_keys(lua)->base, queue);

    (void)snprintf(text, sizeof(text), "%s", r->type == REDIS_REPLY_STRING ? r->str : "");
    freeReplyObject(r);
    return text;
}

static int64_t changes(void)
{
    return lua_counter(lua, "settings", ":");
}

LUA_TEST(lua_queue, a_queue_nobody_made_is_not_there)
{
    static const char *const actions[] = {"read", "pause", "resume", "delete"};

    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
        cr_expect_eq(ask(actions[i], "mail"), NOT_THERE, "%s", actions[i]);
    cr_expect_str_eq(kept("mail"), "");
}

LUA_TEST(lua_queue, put_makes_a_queue_once)
{
    cr_expect_eq(put("mail", "0 0 0 {}"), MADE);
    cr_expect_eq(put("mail", "0 0 0 {}"), DONE);
    cr_expect_eq(put("mail", "0 5 0 {}"), DONE);
    cr_expect_eq(ask("read", "mail"), DONE);
    cr_expect_str_eq(kept("mail"), "0 5 0 {}");
}

LUA_TEST(lua_queue, a_task_makes_a_queue_too)
{
    lua_add(lua, "a", "+60000", "mail");
    cr_expect_eq(ask("read", "mail"), DONE);
    cr_expect_eq(put("mail", "0 5 0 {}"), DONE, "it was there");
}

LUA_TEST(lua_queue, what_is_shown_is_what_is_there)
{
    put("mail", "0 7 2.5 {\"timeout\":500}");
    put("mail", "0 7 0 {\"timeout\":500}");
    struct lua_entry e = lua_start(lua, "dead", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    lua_start(lua, "delivering", "mail", "g/1");
    lua_start(lua, "other", "other", "g/1");
    lua_add(lua, "ready", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    lua_add(lua, "overdue", "+0", "mail");
    lua_add(lua, "scheduled", "+60000", "mail");
    int64_t now = lua_now_ms(lua);
    WAIT_UNTIL(lua_now_ms(lua) > now + 5, 5000);
    struct lua_queue q = lua_queue(lua, "read", "mail", NULL);

    cr_expect_str_eq(q.found.name, "mail");
    cr_expect_eq(q.found.scheduled, 2);
    cr_expect_eq(q.found.overdue, 1);
    cr_expect_geq(q.found.oldest_overdue_ms, 5);
    cr_expect_eq(q.found.ready, 1);
    cr_expect_eq(q.found.delivering, 1);
    cr_expect_geq(q.found.oldest_delivering_ms, 5);
    cr_expect_eq(q.found.dead, 1);
    cr_expect_eq(q.found.settings.max_concurrency, 7);
    cr_expect_eq(q.found.settings.timeout_ms, 500);
    free(q.found.name);
    queue_settings_deinit(&q.found.settings);
}

LUA_TEST(lua_queue, the_oldest_delivery_is_that_of_the_queue)
{
    lua_start(lua, "other", "other", "g/1");
    int64_t now = lua_now_ms(lua);
    WAIT_UNTIL(lua_now_ms(lua) > now + 200, 5000);
    lua_start(lua, "mail", "mail", "g/1");
    struct lua_queue q = lua_queue(lua, "read", "mail", NULL);

    cr_expect_lt(q.found.oldest_delivering_ms, 150);
    free(q.found.name);
    lua_add(lua, "idle", "+60000", "idle");
    q = lua_queue(lua, "read", "idle", NULL);
    cr_expect_eq(q.found.oldest_delivering_ms, -1);
    cr_expect_eq(q.found.oldest_overdue_ms, -1);
    free(q.found.name);
}

LUA_TEST(lua_queue, pause_and_resume_keep_the_other_settings)
{
    static const char text[] = "0 5 2.5 {\"timeout\":500}";

    put("mail", text);
    cr_expect_eq(ask("pause", "mail"), DONE);
    cr_expect_str_eq(kept("mail"), "1 5 2.5 {\"timeout\":500}");
    cr_expect_eq(ask("pause", "mail"), DONE);
    cr_expect_str_eq(kept("mail"), "1 5 2.5 {\"timeout\":500}");
    cr_expect_eq(ask("resume", "mail"), DONE);
    cr_expect_eq(ask("resume", "mail"), DONE);
    cr_expect_str_eq(kept("mail"), text);
}

LUA_TEST(lua_queue, resume_leaves_no_trace_of_a_pause)
{
    lua_add(lua, "a", "+60000", "mail");
    ask("pause", "mail");
    cr_expect_str_eq(kept("mail"), "1 0 0 {}");
    ask("resume", "mail");
    cr_expect_str_eq(kept("mail"), "");
    cr_expect_eq(ask("read", "mail"), DONE);
}

LUA_TEST(lua_queue, a_queue_made_by_put_stays_without_records)
{
    put("mail", "0 0 0 {}");
    ask("pause", "mail");
    ask("resume", "mail");
    cr_expect_eq(ask("read", "mail"), DONE);
}

LUA_TEST(lua_queue, a_queue_without_settings_vanishes_with_its_last_record)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_settle(lua, &e, 'd', 0);
    cr_expect_eq(ask("read", "mail"), DONE);
    cr_assert_eq(lua_sweep(lua, -1000, 0, 10), 1);
    cr_expect_eq(ask("read", "mail"), NOT_THERE);
}

LUA_TEST(lua_queue, only_a_change_of_defaults_is_counted)
{
    static const struct {
        const char *action, *settings;
        int64_t counted;
    } rows[] = {
        {"put", "0 0 0 {}", 0},
        {"put", "0 5 7 {}", 0},
        {"put", "0 5 7 {\"timeout\":500}", 1},
        {"put", "0 5 7 {\"timeout\":500}", 1},
        {"pause", NULL, 1},
        {"put", "0 0 0 {\"timeout\":500}", 1},
        {"put", "0 0 0 {\"timeout\":501}", 2},
        {"pause", NULL, 2},
        {"resume", NULL, 2},
        {"delete", NULL, 3},
        {"put", "1 0 0 {\"retry\":{\"jitter\":0}}", 4},
        {"put", "0 0 0 {}", 5},
        {"delete", NULL, 5},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        lua_queue_do(lua, rows[i].action, "mail", rows[i].settings);
        cr_expect_eq(changes(), rows[i].counted, "row %zu: %lld", i, (long long)changes());
    }
}

static redisReply *create_by(int64_t count)
{
    struct call *c = lua_begin(lua, SCRIPT_CREATE);

    call_add_record_key(c, lua_keys(lua), "a");
    call_begin_args(c, lua_keys(lua));
    call_add_int(c, 0);
    call_add_int(c, count);
    static const char *const rest[] = {"a", "+0", "mail", ""};
    for (size_t i = 0; i < 4; i++)
        call_add_str(c, rest[i]);
    static const char spec[] = {4, 'm', 'a', 'i', 'l', 0, 0, 8, 'h', 't', 't', 'p', ':', '/', '/', 'a'};
    call_add(c, spec, sizeof(spec));
    return lua_send(lua);
}

LUA_TEST(lua_queue, creates_by_an_old_count_are_refused)
{
    put("mail", "0 0 0 {\"timeout\":500}");
    redisReply *r = create_by(0);

    cr_expect_eq(r->elements, 1);
    cr_expect_eq(r->element[0]->integer, -1);
    cr_expect_eq(lua_state(lua, "a"), -1);
    freeReplyObject(r);
    r = create_by(1);
    cr_expect_eq(r->elements, 2);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    freeReplyObject(r);
}

LUA_TEST(lua_queue, a_queue_with_pending_tasks_is_not_deleted)
{
    put("mail", "0 5 0 {}");
    lua_add(lua, "a", "+0", "mail");
    cr_expect_eq(ask("delete", "mail"), NOT_EMPTY, "scheduled");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(ask("delete", "mail"), NOT_EMPTY, "ready");
    struct lua_entry e;
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_expect_eq(ask("delete", "mail"), NOT_EMPTY, "delivering");
    cr_expect_str_eq(kept("mail"), "0 5 0 {}");
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(ask("delete", "mail"), DONE, "delivered");
    cr_expect_str_eq(kept("mail"), "");
    cr_expect_eq(ask("read", "mail"), DONE, "its record is there");
    cr_assert_eq(lua_sweep(lua, -1000, 0, 10), 1);
    cr_expect_eq(ask("delete", "mail"), NOT_THERE);
}

LUA_TEST(lua_queue, delete_takes_the_bucket_along)
{
    put("mail", "0 0 1 {}");
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_assert_neq(lua_counter(lua, "rates", "mail"), 0);
    cr_expect_eq(ask("delete", "mail"), DONE);
    cr_expect_eq(lua_counter(lua, "rates", "mail"), 0);
}

LUA_TEST(lua_queue, a_queue_is_listed_while_it_has_settings_or_records)
{
    put("b", "0 0 0 {}");
    lua_add(lua, "x", "+60000", "a");
    put("c", "1 0 0 {}");
    lua_add(lua, "y", "+60000", "c");
    struct store_stats *s = lua_stats(lua);

    cr_assert_eq(s->queue_count, 3);
    cr_expect_str_eq(s->queues[0].name, "a");
    cr_expect_str_eq(s->queues[1].name, "b");
    cr_expect_str_eq(s->queues[2].name, "c");
    cr_expect(s->queues[2].settings.is_paused);
    cr_expect_not(s->queues[1].settings.is_paused);
    store_stats_destroy(&s);
}

LUA_TEST(lua_queue, resume_wakes_the_movers)
{
    redisContext *ear = redisConnectUnix(redis_fixture_socket(lua_redis(lua)));
    struct timeval patience = {5, 0};
    redisReply *r;

    cr_assert(ear && ear->err == 0);
    cr_assert_eq(redisSetTimeout(ear, patience), REDIS_OK);
    int64_t due = lua_add(lua, "a", "+60000", "mail");
    ask("pause", "mail");
    r = redisCommand(ear, "SUBSCRIBE %s", lua_keys(lua)->wake);
    cr_assert_not_null(r);
    freeReplyObject(r);
    ask("resume", "mail");
    cr_assert_eq(redisGetReply(ear, (void **)&r), REDIS_OK, "nobody was woken");
    cr_expect_eq(strtoll(r->element[2]->str, NULL, 10), due);
    freeReplyObject(r);
    redisFree(ear);
}
