#include "../support/lua_ends.h"
#include "../support/store_fixture.h"
#include "../support/wait.h"
#include "store/lanes.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The mover's port where tasks expire and call back; the rest is in test_store_lanes.c. */

#define ANSWER_MS 10000
#define HOUR_US INT64_C(3600000000)

static struct redis_fixture *redis;
static struct redis_opts opts;
static struct lua_fixture *lua;
static struct loop *loop;
static struct lanes *lanes;
static int answers;
static bool was_ok, is_more;
static struct lanes_moved moved;
static int64_t expired, announced, next_us;

static void on_moved(void *ctx, bool ok, const struct lanes_moved *m)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    moved = *m;
}

static void on_expired(void *ctx, bool ok, int64_t count, int64_t next)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    expired = count;
    next_us = next;
}

static void on_announced(void *ctx, bool ok, int64_t count, bool more)
{
    (void)ctx;
    answers++;
    was_ok = ok;
    announced = count;
    is_more = more;
}

static void on_wake(void *ctx, int64_t due_at_ms)
{
    (void)ctx;
    (void)due_at_ms;
}

static void on_up(void *ctx)
{
    (void)ctx;
}

static void turn(void)
{
    int64_t wait_ms = lanes_tick(lanes);

    loop_turn(loop, (wait_ms < 5 ? wait_ms : 5) * 1000);
}

#define TURN_UNTIL(cond)                                                                  \
    for (int64_t turn_end_ = wait_mono_ms() + wait_scaled_ms(ANSWER_MS); !(cond); turn()) \
    cr_assert(wait_mono_ms() < turn_end_, "%s:%d: not in time: %s", __FILE__, __LINE__, #cond)

static void set_up(void)
{
    cr_assert_neq(signal(SIGPIPE, SIG_IGN), SIG_ERR); /* as main() does */
    redis = redis_fixture_create(false);
    opts = store_redis_opts(redis);
    lua = lua_fixture_attach(redis);
    loop = loop_create();
    const struct lanes_opts o = {.redis = &opts,
                                 .loop = loop,
                                 .on_moved = on_moved,
                                 .on_expired = on_expired,
                                 .on_announced = on_announced,
                                 .on_wake = on_wake,
                                 .on_up = on_up};
    cr_assert_eq(lanes_create(&o, &lanes), ERR_OK);
    TURN_UNTIL(lanes_is_up(lanes));
}

static void tear_down(void)
{
    lanes_destroy(&lanes);
    loop_destroy(&loop);
    lua_fixture_destroy(&lua);
    redis_opts_deinit(&opts);
    redis_fixture_destroy(&redis);
}

TestSuite(lanes_ends, .init = set_up, .fini = tear_down);

static void expect_one_answer(void (*ask)(struct lanes *), bool ok)
{
    int before = answers;

    ask(lanes);
    TURN_UNTIL(answers > before);
    cr_assert_eq(answers, before + 1);
    cr_assert_eq(was_ok, ok);
    cr_assert_not(lanes_is_busy(lanes));
}

static void move(struct lanes *l)
{
    lanes_move(l, 0, 0, 100);
}

static void end_delivered(const char *id)
{
    struct lua_entry e = lua_start_ending(
        lua, &(struct lua_ending){.id = id, .due = "+0", .queue = "mail", .on_success = "http://127.0.0.1/told"});

    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
}

Test(lanes_ends, a_move_tells_what_else_is_to_be_done)
{
    expect_one_answer(move, true);
    cr_expect(!moved.has_expired && !moved.has_callbacks);
    lua_add_ending(lua, &(struct lua_ending){.id = "a", .due = "+0", .queue = "mail", .expires_in_ms = -1});
    expect_one_answer(move, true);
    cr_expect(moved.has_expired && !moved.has_callbacks);
    cr_assert_eq(lua_expire(lua, 100, NULL), 1);
    end_delivered("b");
    expect_one_answer(move, true);
    cr_expect(!moved.has_expired && moved.has_callbacks);
    lua_check(lua);
}

Test(lanes_ends, expiring_tells_when_the_next_task_expires)
{
    expect_one_answer(lanes_expire, true);
    cr_expect_eq(expired, 0);
    cr_expect_eq(next_us, -1);
    lua_add_ending(lua, &(struct lua_ending){.id = "a", .due = "+0", .queue = "mail", .expires_in_ms = -1});
    lua_add_ending(lua, &(struct lua_ending){.id = "b", .due = "+0", .queue = "mail", .expires_in_ms = 3600000});
    expect_one_answer(lanes_expire, true);
    cr_expect_eq(expired, 1);
    cr_expect(next_us > HOUR_US - 60000000 && next_us <= HOUR_US, "%lld", (long long)next_us);
    cr_expect_eq(lua_state(lua, "a"), TASK_EXPIRED);
    lua_check(lua);
}

Test(lanes_ends, announcing_creates_the_news_of_each_end)
{
    char id[16];

    expect_one_answer(lanes_announce, true);
    cr_expect(announced == 0 && !is_more);
    for (int i = 0; i < 60; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        end_delivered(id);
    }
    expect_one_answer(lanes_announce, true);
    cr_expect_eq(announced, 50);
    cr_expect(is_more);
    expect_one_answer(lanes_announce, true);
    cr_expect_eq(announced, 10);
    cr_expect_not(is_more);
    expect_one_answer(lanes_announce, true);
    cr_expect_eq(announced, 0);
    cr_expect_eq(lua_counter(lua, "totals", "callbacks"), 60);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 60);
    lua_check(lua);
}

static struct task *only_news(void)
{
    struct lua_entry e;

    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/2", &e, 1), 1);
    return lua_task(lua, e.id);
}

Test(lanes_ends, the_news_of_a_task_with_a_large_body_is_small)
{
    size_t bytes = 1000000;
    char *body = malloc(bytes + 1);
    struct task *t = NULL;

    memset(body, 'x', bytes);
    body[bytes] = '\0';
    lua_add_ending(lua, &(struct lua_ending){.id = "big",
                                             .due = "+3600000",
                                             .queue = "mail",
                                             .expires_in_ms = wait_scaled_ms(200),
                                             .on_failure = "http://127.0.0.1/told"});
    cr_assert_eq(lua_patch(lua, &(struct lua_patch){.id = "big", .body = body}, &t), TASK_SCHEDULED);
    cr_assert_not_null(t);
    task_destroy(&t);
    while (lua_state(lua, "big") != TASK_EXPIRED)
        expect_one_answer(lanes_expire, true);
    expect_one_answer(lanes_announce, true);
    cr_expect_eq(announced, 1);
    t = only_news();
    cr_expect_str_eq(t->url, "http://127.0.0.1/told");
    cr_expect_str_eq(t->queue, "mail");
    cr_expect(t->body_bytes > 200 && t->body_bytes < 1000, "%zu bytes", t->body_bytes);
    cr_expect_not_null(strstr(t->body, "\"type\":\"task.expired\""), "%s", t->body);
    task_destroy(&t);
    free(body);
}

/* More members than any version has, in the set behind the history, the queue's name and the kinds: the scripts do not
 * look at those. */
static void spoil_members(const char *id)
{
    redisReply *r = redis_fixture_command(redis, "GETRANGE %s%s 18 19", lua_keys(lua)->base, id);
    int history = (unsigned char)r->str[0] * 256 + (unsigned char)r->str[1];

    freeReplyObject(r);
    redis_fixture_run(redis, "SETRANGE %s%s %d %b", lua_keys(lua)->base, id, 20 + history + 1 + (int)strlen("mail") + 1,
                      "\xff\xff\xff", (size_t)3);
}

Test(lanes_ends, a_record_that_cannot_be_read_holds_up_no_others)
{
    end_delivered("broken");
    end_delivered("whole");
    spoil_members("broken");
    expect_one_answer(lanes_announce, true);
    cr_expect_eq(announced, 1);
    cr_expect_not(is_more);
    struct task *t = only_news();
    cr_expect_not_null(strstr(t->body, "\"id\":\"whole\""), "%s", t->body);
    task_destroy(&t);
}

Test(lanes_ends, without_redis_the_answer_is_no)
{
    end_delivered("a");
    redis_fixture_kill(redis);
    TURN_UNTIL(!lanes_is_up(lanes));
    expect_one_answer(lanes_expire, false);
    expect_one_answer(lanes_announce, false);
}
