#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The limits of a queue, which hold in move.lua and claim.lua: pause, slots, tokens. */

#define DUE_MS 5000
#define READ_MAX 400

static struct lua_fixture *lua;
static struct lua_entry entries[READ_MAX];

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_limits, .init = set_up, .fini = tear_down, .timeout = 120);

static void add_many(const char *queue, int count)
{
    struct lua_new tasks[200];
    char ids[200][24];

    for (int done = 0; done < count;) {
        int n = count - done < 200 ? count - done : 200;
        for (int i = 0; i < n; i++) {
            (void)snprintf(ids[i], sizeof(ids[i]), "%s-%d", queue, done + i);
            tasks[i] = (struct lua_new){ids[i], "+0", queue};
        }
        freeReplyObject(lua_create(lua, tasks, (size_t)n));
        done += n;
    }
}

static void put(const char *queue, const char *settings)
{
    int answer = lua_queue_do(lua, "put", queue, settings);

    cr_assert(answer == 2 || answer == 3, "put %s: %d", settings, answer);
}

static int64_t move(void)
{
    return lua_move(lua, 1000, 200).moved;
}

/* Read and claim all that waits; how many are ours. */
static size_t take(void)
{
    size_t count = lua_read(lua, "g/1", entries, READ_MAX);

    return count > 0 ? lua_claim(lua, entries, count) : 0;
}

/* When the lane of a queue is due in the index; "" when it is not there. */
static const char *indexed(const char *queue)
{
    static char text[64];
    redisReply *r = redis_fixture_command(lua_redis(lua), "ZSCORE %s %s", lua_keys(lua)->lanes, queue);

    (void)snprintf(text, sizeof(text), "%s", r->type == REDIS_REPLY_STRING ? r->str : "");
    freeReplyObject(r);
    return text;
}

/* ------------------------------------------------------------------ paused */

LUA_TEST(lua_limits, a_paused_queue_releases_nothing_and_asks_for_no_look)
{
    add_many("mail", 3);
    cr_assert_eq(lua_queue_do(lua, "pause", "mail", NULL), 2);
    struct lua_moved m = lua_move(lua, 1000, 200);

    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, -1, "nothing will be due by itself");
    cr_expect_str_eq(indexed("mail"), "inf");
    cr_assert_eq(lua_queue_do(lua, "resume", "mail", NULL), 2);
    cr_expect_eq(lua_move(lua, 1000, 200).moved, 3);
}

LUA_TEST(lua_limits, a_task_that_comes_to_a_paused_queue_stays)
{
    put("mail", "1 0 0 {}");
    lua_add(lua, "later", "+60000", "mail");
    lua_add(lua, "now", "+0", "mail");
    struct lua_moved m = lua_move(lua, 1000, 200);

    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, -1);
    cr_expect_str_eq(indexed("mail"), "inf");
}

LUA_TEST(lua_limits, a_paused_queue_takes_nothing_from_another)
{
    add_many("held", 200);
    cr_assert_eq(lua_queue_do(lua, "pause", "held", NULL), 2);
    add_many("mail", 10);
    cr_expect_eq(lua_move(lua, 10, 10).moved, 10);
    cr_expect_eq(lua_counter(lua, "out", "mail"), 10);
}

LUA_TEST(lua_limits, resume_goes_on_in_due_order)
{
    add_many("mail", 3);
    redis_fixture_run(lua_redis(lua), "ZADD %s:q:mail 3000 mail-0 1000 mail-1 2000 mail-2", lua_keys(lua)->base);
    lua_queue_do(lua, "pause", "mail", NULL);
    cr_assert_eq(move(), 0);
    lua_queue_do(lua, "resume", "mail", NULL);
    cr_assert_eq(move(), 3);
    cr_assert_eq(lua_read(lua, "g/1", entries, READ_MAX), 3);
    cr_expect_str_eq(entries[0].id, "mail-1");
    cr_expect_str_eq(entries[1].id, "mail-2");
    cr_expect_str_eq(entries[2].id, "mail-0");
}

/* It was ready, even read already, when the queue was paused. */
LUA_TEST(lua_limits, ready_tasks_of_a_paused_queue_are_not_given_out)
{
    add_many("mail", 3);
    int64_t due = lua_add(lua, "other", "+0", "other");
    cr_assert_eq(move(), 4);
    cr_assert_eq(lua_read(lua, "g/1", entries, 2), 2);
    lua_queue_do(lua, "pause", "mail", NULL);
    size_t ours = lua_claim(lua, entries, 2) + take();

    cr_expect_eq(ours, 1, "that of the other queue");
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0);
    cr_expect_eq(lua_state(lua, "mail-0"), TASK_SCHEDULED);
    cr_expect_eq(lua_state(lua, "other"), TASK_DELIVERING);
    struct task *t = lua_task(lua, "mail-0");
    cr_expect_eq(t->attempts, 0);
    cr_expect_leq(t->run_at_ms, due, "in its old place");
    task_destroy(&t);
    cr_expect_str_eq(indexed("mail"), "inf", "held, and not overdue for a moment");
    cr_expect_eq(move(), 0);
    lua_queue_do(lua, "resume", "mail", NULL);
    cr_expect_eq(move(), 3);
}

LUA_TEST(lua_limits, a_retry_of_a_paused_queue_waits)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_queue_do(lua, "pause", "mail", NULL);
    cr_assert_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED);
    cr_expect_eq(move(), 0);
    lua_queue_do(lua, "resume", "mail", NULL);
    WAIT_UNTIL(move() == 1, DUE_MS);
}

/* ------------------------------------------------------------------- slots */

LUA_TEST(lua_limits, no_more_are_out_than_there_are_slots)
{
    put("mail", "0 3 0 {}");
    add_many("mail", 10);
    struct lua_moved m = lua_move(lua, 1000, 200);

    cr_expect_eq(m.moved, 3);
    cr_expect_eq(m.next_us, -1, "a slot comes free by a settle, not by itself");
    cr_expect_eq(move(), 0);
    cr_assert_eq(take(), 3);
    cr_expect_eq(move(), 0);
    cr_expect_eq(lua_settle(lua, &entries[0], 'd', 0), TASK_DELIVERED);
    cr_expect_eq(move(), 1);
    cr_expect_eq(move(), 0);
}

enum way { WAY_DELIVERED, WAY_RETRIED, WAY_DEAD, WAY_GIVEN_BACK, WAY_CANCELLED_READY, WAY_RECOVERED, WAY_FORGOTTEN };

static void leave(enum way way)
{
    static const char how[] = {[WAY_DELIVERED] = 'd', [WAY_RETRIED] = 'r', [WAY_DEAD] = 'x', [WAY_GIVEN_BACK] = 'b'};

    switch (way) {
    case WAY_DELIVERED:
    case WAY_RETRIED:
    case WAY_DEAD:
    case WAY_GIVEN_BACK:
        cr_assert_eq(take(), 1);
        cr_assert_geq(lua_settle(lua, &entries[0], how[way], 60000), 0);
        break;
    case WAY_CANCELLED_READY:
        cr_assert_eq(lua_cancel(lua, "mail-0"), TASK_READY);
        break;
    case WAY_RECOVERED:
        cr_assert_eq(take(), 1);
        lua_make_idle(lua, &entries[0], "g/1", 60000);
        cr_assert_eq(lua_recover(lua, "other", 1000), 1);
        cr_assert_eq(lua_cancel(lua, "mail-0"), TASK_SCHEDULED);
        break;
    case WAY_FORGOTTEN:
        redis_fixture_run(lua_redis(lua), "DEL %smail-0", lua_keys(lua)->base);
        cr_assert_eq(take(), 0);
        break;
    }
}

LUA_TEST(lua_limits, every_way_out_of_the_stream_frees_the_slot)
{
    put("mail", "0 1 0 {}");
    for (enum way way = WAY_DELIVERED; way <= WAY_FORGOTTEN; way++) {
        add_many("mail", 2);
        cr_assert_eq(move(), 1, "way %d", (int)way);
        cr_assert_eq(move(), 0, "way %d", (int)way);
        leave(way);
        cr_expect_eq(move(), 1, "way %d", (int)way);
        cr_assert_eq(take(), 1);
        cr_assert_str_eq(entries[0].id, "mail-1");
        cr_assert_eq(lua_settle(lua, &entries[0], 'd', 0), TASK_DELIVERED);
        lua_cancel(lua, "mail-0");
        lua_sweep(lua, -60000, 0, 100);
    }
}

LUA_TEST(lua_limits, fewer_slots_count_at_once)
{
    put("mail", "0 5 0 {}");
    add_many("mail", 20);
    cr_assert_eq(move(), 5);
    cr_assert_eq(take(), 5);
    put("mail", "0 2 0 {}");
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(move(), 0, "with %d out", 5 - i);
        cr_assert_eq(lua_settle(lua, &entries[i], 'd', 0), TASK_DELIVERED);
    }
    cr_expect_eq(move(), 0, "two are out, as many as may be");
    cr_assert_eq(lua_settle(lua, &entries[3], 'd', 0), TASK_DELIVERED);
    cr_expect_eq(move(), 1);
}

LUA_TEST(lua_limits, more_slots_count_at_once)
{
    put("mail", "0 2 0 {}");
    add_many("mail", 20);
    cr_assert_eq(move(), 2);
    cr_assert_eq(move(), 0);
    put("mail", "0 6 0 {}");
    cr_expect_eq(move(), 4);
    put("mail", "0 0 0 {}");
    cr_expect_eq(move(), 14, "any number");
}

LUA_TEST(lua_limits, what_slots_hold_back_is_not_overdue)
{
    put("mail", "0 1 0 {}");
    add_many("mail", 5);
    cr_assert_eq(move(), 1);
    int64_t now = lua_now_ms(lua);
    WAIT_UNTIL(lua_now_ms(lua) > now + 2, DUE_MS);
    struct store_stats *s = lua_stats(lua);

    cr_expect_eq(s->all.overdue, 0);
    cr_expect_eq(s->queue_count, 1);
    cr_expect_eq(s->queues[0].overdue, 0);
    cr_expect_eq(s->queues[0].scheduled, 4);
    cr_expect_eq(s->queues[0].settings.max_concurrency, 1);
    store_stats_destroy(&s);
}

/* ------------------------------------------------------------------ tokens */

LUA_TEST(lua_limits, a_bucket_holds_a_tenth_of_a_second_and_at_least_one)
{
    static const struct {
        const char *settings;
        int64_t at_once, wait_us; /* for the next ones */
    } rows[] = {{"0 0 0.5 {}", 1, 2000000}, {"0 0 1 {}", 1, 1000000}, {"0 0 10 {}", 1, 100000},
                {"0 0 15 {}", 1, 66667},    {"0 0 50 {}", 5, 20000},  {"0 0 200 {}", 20, 5000},
                {"0 0 1000 {}", 100, 5000}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char queue[24];
        (void)snprintf(queue, sizeof(queue), "q%zu", i);
        put(queue, rows[i].settings);
        add_many(queue, 200);
        struct lua_moved m = lua_move(lua, 1000, 200);
        cr_expect_eq(m.moved, rows[i].at_once, "%s: %lld at once", rows[i].settings, (long long)m.moved);
        cr_expect(m.next_us * 5 > rows[i].wait_us * 2 && m.next_us <= rows[i].wait_us + 1, "%s: the next in %lld us",
                  rows[i].settings, (long long)m.next_us);
        redis_fixture_run(lua_redis(lua), "ZADD %s inf %s", lua_keys(lua)->lanes, queue); /* out of the way */
        lua_queue_do(lua, "pause", queue, NULL);
    }
}

/* Empty the bucket; then move again and again, for `ms`; how many went. When this machine stands still, a bucket gets
 * no more than full: of each pause only the first 90 ms are in *used_us. */
static int64_t run_for(int64_t ms, int64_t *took_us, int64_t *used_us)
{
    struct lua_moved m = lua_move(lua, 100000, 200);

    while (m.moved > 0)
        m = lua_move(lua, 100000, 200);
    int64_t began_us = m.now_us, last_us = m.now_us, count = 0;

    *used_us = 0;
    while (m.now_us < began_us + ms * 1000) {
        m = lua_move(lua, 100000, 200);
        count += m.moved;
        *used_us += m.now_us - last_us < 90000 ? m.now_us - last_us : 90000;
        last_us = m.now_us;
    }
    *took_us = m.now_us - began_us;
    return count;
}

LUA_TEST(lua_limits, in_the_long_run_the_rate_is_exact)
{
    static const double rates[] = {7, 33.3, 50, 200, 1000, 2500};
    char settings[64];

    add_many("mail", 6000);
    for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
        int64_t took_us, used_us;
        (void)snprintf(settings, sizeof(settings), "0 0 %.15g {}", rates[i]);
        put("mail", settings);
        int64_t count = run_for(1000, &took_us, &used_us);
        double slack = fmax(1, rates[i] * 0.005) + 0.5; /* it gathers 5 ms of them */
        cr_expect((double)count <= rates[i] * (double)took_us / 1e6 + slack &&
                      (double)count >= rates[i] * (double)used_us / 1e6 - slack,
                  "%g/s: %lld in %lld us, %lld of them used", rates[i], (long long)count, (long long)took_us,
                  (long long)used_us);
    }
}

LUA_TEST(lua_limits, a_look_too_early_costs_no_token)
{
    put("mail", "0 0 10 {}");
    add_many("mail", 5);
    cr_assert_eq(move(), 1);
    for (int i = 0; i < 20; i++) {
        redis_fixture_run(lua_redis(lua), "ZADD %s 0 mail", lua_keys(lua)->lanes);
        cr_expect_eq(move(), 0);
    }
    int64_t took_us, used_us;
    int64_t count = run_for(350, &took_us, &used_us);
    /* Had the looks cost anything, none would be left. One is lost when the machine stands still for 100 ms. */
    cr_expect(count >= used_us / 100000 - 1 && count <= took_us / 100000 + 1, "%lld in %lld us", (long long)count,
              (long long)took_us);
}

LUA_TEST(lua_limits, no_room_costs_no_token)
{
    put("mail", "0 0 100 {}");
    add_many("mail", 30);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(lua_move(lua, 0, 200).moved, 0);
    cr_expect_eq(lua_move(lua, 4, 200).moved, 4);
    int64_t moved = lua_move(lua, 1000, 200).moved;
    cr_expect(moved >= 6 && moved <= 7, "%lld", (long long)moved);
}

LUA_TEST(lua_limits, an_idle_queue_saves_up_no_more_than_its_bucket)
{
    int64_t now = lua_now_ms(lua);

    put("mail", "0 0 50 {}");
    lua_add(lua, "first", "+0", "mail");
    cr_assert_eq(move(), 1);
    WAIT_UNTIL(lua_now_ms(lua) > now + 500, DUE_MS);
    add_many("mail", 50);
    cr_expect_eq(move(), 5);
}

/* The tokens that are left are all that the bucket of the new rate holds. */
LUA_TEST(lua_limits, a_new_rate_takes_over_the_tokens)
{
    static const struct {
        const char *from, *to;
        int64_t min_us, max_us;
    } rows[] = {
        {"0 0 1 {}", "0 0 100 {}", 0, 10001},                                                     /* not a second */
        {"0 0 5 {}", "0 0 0.1 {}", 5000000, 10000001},                                            /* not two of them */
        {"0 0 100 {}", "0 0 100 {}", 0, 10001},                                                   /* no refill */
        {"0 0 0.001 {}", "0 0 1000 {}", 0, 10001},     {"0 0 1 {}", "0 5 1 {}", 500000, 1000001}, /* another setting */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char queue[24];
        (void)snprintf(queue, sizeof(queue), "q%zu", i);
        put(queue, rows[i].from);
        add_many(queue, 200);
        cr_assert_gt(move(), 0);
        struct lua_moved m;
        while ((m = lua_move(lua, 1000, 200)).moved > 0)
            ; /* the last of the bucket */
        put(queue, rows[i].to);
        m = lua_move(lua, 1000, 200);
        cr_expect(m.moved <= 1, "%s to %s: %lld at once", rows[i].from, rows[i].to, (long long)m.moved);
        cr_expect(m.next_us >= rows[i].min_us && m.next_us <= rows[i].max_us, "%s to %s: the next in %lld us",
                  rows[i].from, rows[i].to, (long long)m.next_us);
        lua_queue_do(lua, "pause", queue, NULL);
    }
}

LUA_TEST(lua_limits, without_a_rate_there_is_no_bucket)
{
    put("mail", "0 0 1 {}");
    add_many("mail", 10);
    cr_assert_eq(move(), 1);
    put("mail", "0 0 0 {}");
    cr_expect_eq(move(), 9);
    cr_expect_eq(lua_counter(lua, "rates", "mail"), 0);
}

LUA_TEST(lua_limits, both_limits_hold_together)
{
    put("mail", "0 2 50 {}");
    add_many("mail", 20);
    cr_assert_eq(move(), 2);
    cr_assert_eq(take(), 2);
    cr_expect_eq(move(), 0);
    lua_settle(lua, &entries[0], 'd', 0);
    lua_settle(lua, &entries[1], 'd', 0);
    cr_expect_eq(move(), 2);
    cr_assert_eq(take(), 2);
    lua_settle(lua, &entries[0], 'd', 0);
    lua_settle(lua, &entries[1], 'd', 0);
    int64_t last = move();
    cr_expect(last == 1 || last == 2, "the bucket held five, and maybe one more by now: %lld", (long long)last);
}

LUA_TEST(lua_limits, a_retry_takes_a_token_again)
{
    put("mail", "0 0 10 {}");
    add_many("mail", 1);
    cr_assert_eq(move(), 1);
    cr_assert_eq(take(), 1);
    cr_assert_eq(lua_settle(lua, &entries[0], 'r', 0), TASK_SCHEDULED);
    struct lua_moved m = lua_move(lua, 1000, 200);

    cr_expect_eq(m.moved, 0);
    cr_expect(m.next_us > 0 && m.next_us <= 100000, "%lld", (long long)m.next_us);
    WAIT_UNTIL(move() == 1, DUE_MS);
}

LUA_TEST(lua_limits, a_limited_queue_with_a_backlog_delays_no_other)
{
    put("slow", "0 0 10 {}");
    add_many("slow", 400);
    move();
    for (int i = 0; i < 20; i++) {
        char id[24];
        (void)snprintf(id, sizeof(id), "fast-%d", i);
        lua_add(lua, id, "+0", "fast");
        int64_t before = lua_counter(lua, "out", "fast");
        move();
        cr_expect_eq(lua_counter(lua, "out", "fast"), before + 1, "%s did not go at once", id);
    }
}

LUA_TEST(lua_limits, the_head_of_a_limited_lane_that_is_not_due_yet_is_waited_for)
{
    put("mail", "0 0 100 {}");
    int64_t due = lua_add(lua, "a", "+60000", "mail");
    struct lua_moved m = lua_move(lua, 1000, 200);

    cr_expect_eq(m.moved, 0);
    cr_expect_eq(m.next_us, due * 1000 - m.now_us);
}

LUA_TEST(lua_limits, settings_broken_by_hand_limit_nothing)
{
    put("mail", "0 1 1 {}");
    redis_fixture_run(lua_redis(lua), "HSET %s:settings mail nonsense", lua_keys(lua)->base);
    add_many("mail", 5);
    cr_expect_eq(move(), 5);
    put("mail", "0 0 0 {}");
}
