#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include "base/mem.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* purge.lua and redrive_queue.lua: many tasks of a queue, a step at a time. */

#define DUE_MS 5000

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_purge, .init = set_up, .fini = tear_down, .timeout = 120);

static void add_range(const char *queue, int from, int to, const char *due)
{
    for (int done = from; done < to;) {
        struct lua_new tasks[200];
        char ids[200][32];
        int n = to - done < 200 ? to - done : 200;
        for (int i = 0; i < n; i++) {
            (void)snprintf(ids[i], sizeof(ids[i]), "%s-%05d", queue, done + i);
            tasks[i] = (struct lua_new){ids[i], due, queue};
        }
        freeReplyObject(lua_create(lua, tasks, (size_t)n));
        done += n;
    }
}

static void add_many(const char *queue, int count, const char *due)
{
    add_range(queue, 0, count, due);
}

struct purge {
    int64_t began_ms, count;
    char at[256];
    bool is_done, is_missing;
    int steps;
};

static void step(struct purge *p, const char *queue, int limit)
{
    struct call *c = lua_begin(lua, SCRIPT_PURGE);

    call_begin_args(c, lua_keys(lua));
    call_add_str(c, queue);
    call_add_int(c, p->began_ms);
    call_add_str(c, p->at);
    call_add_int(c, limit);
    redisReply *r = lua_send(lua);
    p->is_missing = r->elements == 1 && r->element[0]->integer == -1;
    if (!p->is_missing) {
        cr_assert_eq(r->elements, 3);
        cr_assert_leq(r->element[1]->integer, limit);
        p->began_ms = r->element[0]->integer;
        p->count += r->element[1]->integer;
        (void)snprintf(p->at, sizeof(p->at), "%s", r->element[2]->str);
    }
    p->is_done = p->is_missing || p->at[0] == '\0';
    p->steps++;
    freeReplyObject(r);
}

static struct purge purge(const char *queue, int limit)
{
    struct purge p = {0};

    do
        step(&p, queue, limit);
    while (!p.is_done && p.steps < 10000);
    cr_assert(p.is_done, "it does not end: %s", p.at);
    return p;
}

static int64_t records(void)
{
    return redis_fixture_integer(lua_redis(lua), "DBSIZE");
}

LUA_TEST(lua_purge, a_queue_nobody_made_is_missing)
{
    cr_expect(purge("mail", 100).is_missing);
}

LUA_TEST(lua_purge, a_queue_with_settings_alone_is_there)
{
    lua_queue_do(lua, "put", "mail", "0 0 0 {}");
    struct purge p = purge("mail", 100);

    cr_expect_not(p.is_missing);
    cr_expect_eq(p.count, 0);
}

LUA_TEST(lua_purge, what_is_scheduled_and_ready_goes_and_nothing_else)
{
    struct lua_entry dead = lua_start(lua, "dead", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &dead, 'x', 0), TASK_DEAD);
    struct lua_entry gone = lua_start(lua, "delivered", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &gone, 'd', 0), TASK_DELIVERED);
    struct lua_entry under_way = lua_start(lua, "under-way", "mail", "g/1");
    lua_start(lua, "elsewhere", "other", "g/1");
    lua_add(lua, "ready-1", "+0", "mail");
    lua_add(lua, "ready-2", "+0", "mail");
    lua_add(lua, "ready-3", "+0", "other");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 3);
    lua_add(lua, "scheduled-1", "+60000", "mail");
    lua_add(lua, "scheduled-2", "+0", "mail");
    lua_add(lua, "scheduled-3", "+60000", "other");
    struct purge p = purge("mail", 100);

    cr_expect_eq(p.count, 4);
    static const char *const dropped[] = {"ready-1", "ready-2", "scheduled-1", "scheduled-2"};
    for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++)
        cr_expect_eq(lua_state(lua, dropped[i]), -1, "%s", dropped[i]);
    cr_expect_eq(lua_state(lua, "dead"), TASK_DEAD);
    cr_expect_eq(lua_state(lua, "delivered"), TASK_DELIVERED);
    cr_expect_eq(lua_state(lua, "under-way"), TASK_DELIVERING);
    cr_expect_eq(lua_state(lua, "elsewhere"), TASK_DELIVERING);
    cr_expect_eq(lua_state(lua, "ready-3"), TASK_READY);
    cr_expect_eq(lua_state(lua, "scheduled-3"), TASK_SCHEDULED);
    cr_expect_eq(lua_counter(lua, "totals", "purged"), 4);
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), 0);
    cr_expect_eq(lua_settle(lua, &under_way, 'd', 0), TASK_DELIVERED);
}

LUA_TEST(lua_purge, it_takes_steps)
{
    add_many("mail", 1000, "+60000");
    lua_add(lua, "other", "+60000", "other");
    struct purge p = {0};

    step(&p, "mail", 100);
    cr_expect_eq(p.count, 100);
    cr_expect_not(p.is_done);
    while (!p.is_done)
        step(&p, "mail", 100);
    cr_expect_eq(p.count, 1000);
    cr_expect_leq(p.steps, 12);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 1);
    cr_expect_eq(lua_counter(lua, "queues", "mail"), 0);
}

/* Younger tasks stand between the old ones, before them and behind them, more than a step can see. */
LUA_TEST(lua_purge, tasks_created_after_it_began_stay)
{
    add_many("mail", 500, "+60000");
    struct purge p = {0};
    step(&p, "mail", 50);
    int64_t began = p.began_ms;
    WAIT_UNTIL(lua_now_ms(lua) > began, DUE_MS);
    add_range("mail", 500, 800, "+30000");
    add_range("mail", 800, 1000, "+60000");
    add_range("mail", 1000, 1200, "+90000");
    while (!p.is_done && p.steps < 1000)
        step(&p, "mail", 50);

    cr_expect_eq(p.count, 500);
    cr_expect_eq(p.began_ms, began);
    cr_expect_eq(lua_counter(lua, "totals", "pending"), 700);
    cr_expect_eq(lua_state(lua, "mail-00000"), -1);
    cr_expect_eq(lua_state(lua, "mail-00499"), -1);
    cr_expect_eq(lua_state(lua, "mail-00500"), TASK_SCHEDULED);
    cr_expect_eq(lua_state(lua, "mail-01199"), TASK_SCHEDULED);
}

/* All are due at the same time, so only the ids order them; and those that tell how far it got vanish. */
LUA_TEST(lua_purge, it_finds_its_way_when_the_last_task_it_saw_is_gone)
{
    char due[32];

    (void)snprintf(due, sizeof(due), "%lld", (long long)lua_now_ms(lua) + 60000);
    add_range("mail", 0, 100, due);
    add_range("mail", 300, 400, due);
    struct purge p = {0};
    step(&p, "mail", 1);
    int64_t began = p.began_ms;
    WAIT_UNTIL(lua_now_ms(lua) > began, DUE_MS);
    add_range("mail", 100, 300, due);
    while (!p.is_done && p.steps < 2000) {
        char *id = strchr(p.at, ' ');
        if (id && p.steps % 3 == 0)
            lua_cancel(lua, id + 1);
        step(&p, "mail", 7);
    }

    cr_expect(p.is_done);
    cr_expect_eq(p.count, 200);
    cr_expect_eq(lua_state(lua, "mail-00399"), -1);
}

LUA_TEST(lua_purge, tasks_that_move_while_it_goes_on_are_dropped_too)
{
    add_many("mail", 300, "+0");
    struct purge p = {0};
    step(&p, "mail", 10);
    cr_assert_eq(lua_move(lua, 50, 50).moved, 50);
    while (!p.is_done && p.steps < 1000)
        step(&p, "mail", 10);

    cr_expect_eq(p.count, 300);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready), 0);
}

/* Seen as ready when the way through the lane was over, and put back before the Stream was looked at. */
LUA_TEST(lua_purge, tasks_that_come_back_to_the_lane_are_dropped_too)
{
    static struct lua_entry entries[20];

    add_many("mail", 20, "+0");
    cr_assert_eq(lua_move(lua, 20, 20).moved, 20);
    struct purge p = {0};
    step(&p, "mail", 100);
    cr_assert_eq(p.at[0], 's');
    cr_assert_eq(lua_read(lua, "g/1", entries, 20), 20);
    lua_queue_do(lua, "pause", "mail", NULL);
    cr_assert_eq(lua_claim(lua, entries, 20), 0);
    while (!p.is_done && p.steps < 100)
        step(&p, "mail", 100);

    cr_expect_eq(p.count, 20);
}

LUA_TEST(lua_purge, a_worker_that_has_read_a_purged_task_gets_nothing)
{
    static struct lua_entry entries[5];

    add_many("mail", 5, "+0");
    cr_assert_eq(lua_move(lua, 20, 20).moved, 5);
    cr_assert_eq(lua_read(lua, "g/1", entries, 5), 5);
    cr_expect_eq(purge("mail", 100).count, 5);
    cr_expect_eq(lua_claim(lua, entries, 5), 0);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 0);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
}

LUA_TEST(lua_purge, a_free_slot_is_used_by_those_that_stay)
{
    lua_queue_do(lua, "put", "mail", "0 1 0 {}");
    add_many("mail", 3, "+0");
    cr_assert_eq(lua_move(lua, 20, 20).moved, 1);
    struct purge p = {0};
    step(&p, "mail", 1);
    int64_t began = p.began_ms;
    WAIT_UNTIL(lua_now_ms(lua) > began, DUE_MS);
    lua_add(lua, "young", "+0", "mail");
    while (!p.is_done && p.steps < 100)
        step(&p, "mail", 1);
    cr_expect_eq(p.count, 3);
    cr_expect_eq(lua_move(lua, 20, 20).moved, 1);
    cr_expect_eq(lua_state(lua, "young"), TASK_READY);
}

LUA_TEST(lua_purge, memory_comes_back)
{
    lua_add(lua, "other", "+60000", "other");
    int64_t before = records();

    add_many("mail", 300, "+60000");
    cr_expect_eq(purge("mail", 100).count, 300);
    cr_expect_eq(records(), before);
}

LUA_TEST(lua_purge, what_expires_leaves_that_index)
{
    lua_add_expiring(lua, "a", "+60000", "mail", 30000);
    lua_add_expiring(lua, "b", "+0", "mail", 30000);
    cr_assert_eq(lua_move(lua, 20, 20).moved, 1);
    cr_expect_eq(purge("mail", 100).count, 2);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "ZCARD %s:expiry", lua_keys(lua)->base), 0);
}

LUA_TEST(lua_purge, an_id_without_a_record_is_counted_as_an_orphan)
{
    add_many("mail", 3, "+60000");
    redis_fixture_run(lua_redis(lua), "DEL %smail-00001", lua_keys(lua)->base);
    cr_expect_eq(purge("mail", 100).count, 2);
    cr_expect_eq(lua_counter(lua, "totals", "orphans"), 1);
}

/* --------------------------------------------------------------- redrive */

struct redrive {
    int64_t began_ms, count;
    bool has_more, is_missing;
};

static void redrive(struct redrive *d, const char *queue, int limit)
{
    struct call *c = lua_begin(lua, SCRIPT_REDRIVE_QUEUE);

    call_begin_args(c, lua_keys(lua));
    call_add_str(c, queue);
    call_add_int(c, d->began_ms);
    call_add_int(c, limit);
    redisReply *r = lua_send(lua);
    d->is_missing = r->elements == 1 && r->element[0]->integer == -1;
    if (!d->is_missing) {
        cr_assert_eq(r->elements, 3);
        d->began_ms = r->element[0]->integer;
        d->count += r->element[1]->integer;
        d->has_more = r->element[2]->integer == 1;
    }
    freeReplyObject(r);
}

static void kill_task(const char *id, const char *queue)
{
    struct lua_entry e = lua_start(lua, id, queue, "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
}

TestSuite(lua_redrive_queue, .init = set_up, .fini = tear_down, .timeout = 120);

LUA_TEST(lua_redrive_queue, a_queue_nobody_made_is_missing)
{
    struct redrive d = {0};

    redrive(&d, "mail", 100);
    cr_expect(d.is_missing);
}

LUA_TEST(lua_redrive_queue, the_dead_live_again_oldest_first)
{
    kill_task("third", "mail");
    kill_task("first", "mail");
    kill_task("second", "mail");
    kill_task("other", "other");
    redis_fixture_run(lua_redis(lua), "ZADD %s:dead:mail 3000 third 1000 first 2000 second", lua_keys(lua)->base);
    struct redrive d = {0};
    redrive(&d, "mail", 2);

    cr_expect_eq(d.count, 2);
    cr_expect(d.has_more);
    cr_expect_eq(lua_state(lua, "first"), TASK_SCHEDULED);
    cr_expect_eq(lua_state(lua, "second"), TASK_SCHEDULED);
    cr_expect_eq(lua_state(lua, "third"), TASK_DEAD);
    redrive(&d, "mail", 100);
    cr_expect_eq(d.count, 3);
    cr_expect_not(d.has_more);
    cr_expect_eq(lua_state(lua, "other"), TASK_DEAD);
    struct task *t = lua_task(lua, "first");
    cr_expect_eq(t->attempts, 0);
    cr_expect_eq(t->history_count, 1, "what was tried is still told");
    cr_expect_eq(t->run_at_ms, d.began_ms);
    task_destroy(&t);
    cr_expect_eq(lua_move(lua, 100, 100).moved, 3);
}

LUA_TEST(lua_redrive_queue, one_that_dies_again_is_not_driven_in_a_circle)
{
    static struct lua_entry e;

    kill_task("a", "mail");
    kill_task("b", "mail");
    struct redrive d = {0};
    redrive(&d, "mail", 1);
    int64_t began = d.began_ms;
    WAIT_UNTIL(lua_now_ms(lua) > began, DUE_MS);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    redrive(&d, "mail", 100);
    cr_expect_eq(d.count, 2, "each once");
    redrive(&d, "mail", 100);
    cr_expect_eq(d.count, 2);
    cr_expect_not(d.has_more);
    cr_expect_eq(lua_state(lua, e.id), TASK_DEAD);
}

LUA_TEST(lua_redrive_queue, an_id_that_lives_again_is_left_alone)
{
    kill_task("a", "mail");
    redis_fixture_run(lua_redis(lua), "ZADD %s:dead:mail 1 nobody", lua_keys(lua)->base);
    struct redrive d = {0};
    redrive(&d, "mail", 100);

    cr_expect_eq(d.count, 1);
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "EXISTS %s:dead:mail", lua_keys(lua)->base), 0);
}
