#include "../support/lua_fixture.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
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

TestSuite(lua_settle, .init = set_up, .fini = tear_down);

struct want {
    int attempts, delivered, failed_attempts, retried, dead, cancelled, pending;
};

static void expect_totals(struct want want)
{
    cr_expect_eq(lua_counter(lua, "totals", "attempts"), want.attempts, "attempts");
    cr_expect_eq(lua_counter(lua, "totals", "delivered"), want.delivered, "delivered");
    cr_expect_eq(lua_counter(lua, "totals", "failed_attempts"), want.failed_attempts, "failed_attempts");
    cr_expect_eq(lua_counter(lua, "totals", "retried"), want.retried, "retried");
    cr_expect_eq(lua_counter(lua, "totals", "dead"), want.dead, "dead");
    cr_expect_eq(lua_counter(lua, "totals", "cancelled"), want.cancelled, "cancelled");
    cr_expect_eq(lua_counter(lua, "totals", "pending"), want.pending, "pending");
    cr_expect_eq(lua_counter(lua, "out", "mail"), 0, "out");
    cr_expect_eq(lua_counter(lua, "busy", "mail"), 0, "busy");
    cr_expect_eq(redis_fixture_integer(lua_redis(lua), "XLEN %s", lua_keys(lua)->ready), 0);
}

static void expect_last_attempt(const struct task *t, int status, const char *error)
{
    cr_assert_eq(t->history_count, 1);
    cr_expect_eq(t->history[0].at_ms, 1234567890123);
    cr_expect_eq(t->history[0].duration_us, 17000);
    cr_expect_eq(t->history[0].status, status);
    cr_expect_eq(!t->history[0].error, !error);
    if (error)
        cr_expect_str_eq(t->history[0].error, error);
}

LUA_TEST(lua_settle, a_delivered_task_keeps_its_record_without_the_body)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    int64_t before = lua_now_ms(lua);

    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_DELIVERED);
    cr_expect_eq(t->attempts, 1);
    cr_expect_geq(t->when_ms, before);
    cr_expect_leq(t->when_ms, lua_now_ms(lua));
    cr_expect_null(t->body);
    cr_expect_str_eq(t->url, "http://receiver/");
    expect_last_attempt(t, 204, NULL);
    task_destroy(&t);
    expect_totals((struct want){.attempts = 1, .delivered = 1});
    cr_expect_eq(lua_counter(lua, "queues", "mail"), 1);
}

LUA_TEST(lua_settle, a_retry_is_scheduled_again_with_all_it_needs)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    int64_t before = lua_now_ms(lua);

    cr_assert_eq(lua_settle(lua, &e, 'r', 5000), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_eq(t->attempts, 1);
    cr_expect_geq(t->when_ms, before + 5000);
    cr_expect_leq(t->when_ms, lua_now_ms(lua) + 5001);
    cr_expect_leq(t->run_at_ms, before, "run_at does not change");
    cr_expect_str_eq(t->body, "hello");
    expect_last_attempt(t, 500, "broken");
    task_destroy(&t);
    expect_totals((struct want){.attempts = 1, .failed_attempts = 1, .retried = 1, .pending = 1});
}

LUA_TEST(lua_settle, a_dead_task_keeps_its_body)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->state, TASK_DEAD);
    cr_expect_eq(t->attempts, 1);
    cr_expect_str_eq(t->body, "hello");
    expect_last_attempt(t, 500, "broken");
    task_destroy(&t);
    expect_totals((struct want){.attempts = 1, .failed_attempts = 1, .dead = 1});
}

LUA_TEST(lua_settle, a_task_given_back_counts_no_attempt)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'b', 0), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->attempts, 0);
    cr_expect_eq(t->history_count, 0);
    cr_expect_str_eq(t->body, "hello");
    task_destroy(&t);
    expect_totals((struct want){.pending = 1});
    cr_expect_eq(lua_move(lua, 100, 100).moved, 1, "it is due again at once");
}

LUA_TEST(lua_settle, a_task_given_back_with_a_delay_waits_that_long)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'b', 60000), TASK_SCHEDULED);
    struct lua_moved m = lua_move(lua, 100, 100);
    cr_expect_eq(m.moved, 0);
    cr_expect_gt(m.next_us, 50000000);
}

LUA_TEST(lua_settle, a_task_given_back_after_an_attempt_keeps_what_is_known_of_it)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_assert_eq(lua_settle(lua, &e, 'b', 7000), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->attempts, 1);
    expect_last_attempt(t, 500, "broken");
    task_destroy(&t);
}

LUA_TEST(lua_settle, a_newer_attempt_replaces_the_history)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    for (int i = 1; i <= 3; i++) {
        cr_assert_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
    }
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->attempts, 4);
    expect_last_attempt(t, 204, NULL);
    cr_expect_str_eq(t->url, "http://receiver/");
    task_destroy(&t);
    expect_totals((struct want){.attempts = 4, .delivered = 1, .failed_attempts = 3, .retried = 3});
}

/* After an answer that was lost. */
LUA_TEST(lua_settle, a_repeat_is_stale_and_changes_nothing)
{
    static const char hows[] = {'d', 'r', 'x', 'b'};
    char id[24];

    for (size_t i = 0; i < sizeof(hows); i++) {
        (void)snprintf(id, sizeof(id), "t%zu", i);
        struct lua_entry e = lua_start(lua, id, "mail", "g/1");
        int reached = lua_settle(lua, &e, hows[i], 60000);
        struct task *first = lua_task(lua, id);
        for (size_t again = 0; again < sizeof(hows); again++)
            cr_expect_eq(lua_settle(lua, &e, hows[again], 1), -1, "%c after %c", hows[again], hows[i]);
        struct task *second = lua_task(lua, id);
        cr_expect_eq((int)second->state, reached);
        cr_expect_eq(second->when_ms, first->when_ms);
        cr_expect_eq(second->attempts, first->attempts);
        cr_expect_eq(second->generation, first->generation);
        task_destroy(&first);
        task_destroy(&second);
    }
    expect_totals(
        (struct want){.attempts = 3, .delivered = 1, .failed_attempts = 2, .retried = 1, .dead = 1, .pending = 2});
}

LUA_TEST(lua_settle, the_old_owner_of_a_task_that_was_taken_over_settles_nothing)
{
    struct lua_entry old = lua_start(lua, "a", "mail", "g/1"), newer;

    lua_make_idle(lua, &old, "g/1", 60000);
    cr_assert_eq(lua_recover(lua, "h", 15000), 1);
    cr_expect_eq(lua_settle(lua, &old, 'd', 0), -1, "while it is scheduled");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_expect_eq(lua_settle(lua, &old, 'd', 0), -1, "while it is ready");
    cr_assert_eq(lua_read(lua, "h/1", &newer, 1), 1);
    cr_assert_eq(lua_claim(lua, &newer, 1), 1);
    cr_expect_eq(lua_settle(lua, &old, 'd', 0), -1, "while another delivers it");
    cr_expect_eq(lua_settle(lua, &newer, 'r', 60000), TASK_SCHEDULED);
}

LUA_TEST(lua_settle, a_scheduled_task_cannot_be_settled)
{
    struct lua_entry e = {.id = "a", .lease = {.entry_id = "1-1"}};

    lua_add(lua, "a", "+0", "mail");
    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
}

/* A failover lost the claim, and the read before it or not. The entry goes with the settling, so a task that stayed
 * ready would be in no container and never be found again. */
LUA_TEST(lua_settle, a_task_whose_claim_redis_forgot_is_settled_all_the_same)
{
    static const char hows[] = {'d', 'r', 'x', 'b'};
    static const int states[] = {TASK_DELIVERED, TASK_SCHEDULED, TASK_DEAD, TASK_SCHEDULED};
    struct lua_entry e;
    char id[24];

    for (size_t i = 0; i < sizeof(hows); i++) {
        (void)snprintf(id, sizeof(id), "t%zu", i);
        lua_add(lua, id, "+0", "mail");
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_expect_eq(lua_settle(lua, &e, hows[i], 60000), states[i], "%c", hows[i]);
        cr_expect_eq(lua_settle(lua, &e, hows[i], 60000), -1, "%c again", hows[i]);
        cr_expect_eq(lua_state(lua, id), states[i], "%c", hows[i]);
    }
    expect_totals(
        (struct want){.attempts = 3, .delivered = 1, .failed_attempts = 2, .retried = 1, .dead = 1, .pending = 2});
}

/* Without what differs from task to task: generation, run_at, created_at and `when`, and the digest at the end. */
static redisReply *settled_record(const struct lua_entry *e)
{
    enum { GENERATION_AT = 4, HISTORY_BYTES_AT = 18, WHEN_BYTES = 6, DIGEST_BYTES = 16 };
    redisReply *r = redis_fixture_command(lua_redis(lua), "GET %s%s", lua_keys(lua)->base, e->id);
    const unsigned char *generation = (const unsigned char *)r->str + GENERATION_AT;

    cr_assert_gt(r->len, RECORD_HEAD_BYTES + WHEN_BYTES + DIGEST_BYTES);
    cr_expect_eq(generation[0] << 8 | generation[1], (e->lease.generation + 1) % 65536);
    memset(r->str + GENERATION_AT, 0, HISTORY_BYTES_AT - GENERATION_AT);
    memset(r->str + RECORD_HEAD_BYTES, 0, WHEN_BYTES);
    memset(r->str + r->len - DIGEST_BYTES, 0, DIGEST_BYTES);
    return r;
}

/* The script has a path of its own for what is claimed and delivered at the first attempt; what is still ready takes
 * the other. */
LUA_TEST(lua_settle, both_ways_to_deliver_leave_the_same_record)
{
    static const char *const queues[] = {"mail", "default"};

    for (int i = 0; i < 2; i++) {
        struct lua_entry plain = lua_start(lua, i ? "c" : "a", queues[i], "g/1"), other;
        lua_add(lua, i ? "d" : "b", "+0", queues[i]);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &other, 1), 1);
        cr_assert_eq(lua_settle(lua, &plain, 'd', 0), TASK_DELIVERED);
        cr_assert_eq(lua_settle(lua, &other, 'd', 0), TASK_DELIVERED);
        redisReply *one = settled_record(&plain), *two = settled_record(&other);
        cr_assert_eq(one->len, two->len);
        cr_expect_arr_eq(one->str, two->str, one->len, "%s", queues[i]);
        freeReplyObject(one);
        freeReplyObject(two);
        cr_expect_eq(lua_counter(lua, "out", queues[i]), 0);
        cr_expect_eq(lua_counter(lua, "busy", queues[i]), 0);
    }
    expect_totals((struct want){.attempts = 4, .delivered = 4});
}

LUA_TEST(lua_settle, a_task_that_is_gone_is_stale)
{
    struct lua_entry e = {.id = "never-was", .lease = {.entry_id = "1-1"}};

    cr_expect_eq(lua_settle(lua, &e, 'd', 0), -1);
}

static const struct {
    char how;
    enum task_state want;
    struct want totals;
} after_cancel[] = {
    {'d', TASK_DELIVERED, {.attempts = 1, .delivered = 1}},
    {'r', TASK_CANCELLED, {.attempts = 1, .failed_attempts = 1, .cancelled = 1}},
    {'x', TASK_CANCELLED, {.attempts = 1, .failed_attempts = 1, .cancelled = 1}},
    {'b', TASK_CANCELLED, {.cancelled = 1}},
};

static void expect_outcome_after_cancel(size_t i)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_cancel(lua, "a"), TASK_DELIVERING);
    cr_expect_eq(lua_settle(lua, &e, after_cancel[i].how, 5000), (int)after_cancel[i].want);
    cr_expect_eq(lua_state(lua, "a"), (int)after_cancel[i].want);
    expect_totals(after_cancel[i].totals);
}

LUA_TEST(lua_settle, success_wins_over_a_cancel)
{
    expect_outcome_after_cancel(0);
}

LUA_TEST(lua_settle, a_cancel_wins_over_a_retry)
{
    expect_outcome_after_cancel(1);
}

LUA_TEST(lua_settle, a_cancel_wins_over_death)
{
    expect_outcome_after_cancel(2);
}

LUA_TEST(lua_settle, a_cancel_wins_over_giving_back)
{
    expect_outcome_after_cancel(3);
}

LUA_TEST(lua_settle, a_settled_attempt_forgets_the_takeovers)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    for (int i = 0; i < TASK_TAKEOVERS_MAX - 1; i++) {
        lua_make_idle(lua, &e, "g/1", 60000);
        cr_assert_eq(lua_recover(lua, "h", 15000), 1);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
    }
    cr_assert_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->takeovers, 0);
    task_destroy(&t);
}

LUA_TEST(lua_settle, the_generation_wraps_around)
{
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    redis_fixture_run(lua_redis(lua), "SETRANGE %sa 4 %b", lua_keys(lua)->base, "\xff\xff", (size_t)2);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(e.lease.generation, 65535);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_expect_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED);
    cr_expect_eq(lua_settle(lua, &e, 'r', 0), -1);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->generation, 0);
    task_destroy(&t);
}

/* Three of two queues in one call, one of them stale: each has its own answer, each queue its own count. */
LUA_TEST(lua_settle, one_call_takes_several_tasks_each_with_its_own_outcome)
{
    struct lua_entry e[3] = {lua_start(lua, "a", "mail", "g/1"), lua_start(lua, "b", "sms", "g/1"),
                             lua_start(lua, "c", "mail", "g/1")};
    static const char *const hows[] = {"d", "r", "x"};
    struct task none = {0};
    struct buf attempts;

    cr_assert_eq(lua_settle(lua, &e[2], 'd', 0), TASK_DELIVERED);
    buf_init(&attempts, 1024);
    record_write_attempts(&attempts, &none, &(struct task_attempt){.status = 500});
    struct call *c = lua_begin(lua, SCRIPT_SETTLE);
    for (int i = 0; i < 3; i++)
        call_add_record_key(c, lua_keys(lua), e[i].id);
    call_begin_args(c, lua_keys(lua));
    for (int i = 0; i < 3; i++) {
        call_add_str(c, e[i].id);
        call_add_str(c, e[i].lease.entry_id);
        call_add_int(c, e[i].lease.generation);
        call_add_str(c, hows[i]);
        call_add_int(c, 60000);
        call_add_int(c, -1);
        call_add(c, attempts.data, attempts.len);
    }
    redisReply *r = lua_send(lua);
    cr_assert_eq(r->elements, 3);
    cr_expect_eq(r->element[0]->integer, TASK_DELIVERED);
    cr_expect_gt(r->element[1]->integer, lua_now_ms(lua) + 50000);
    cr_expect_eq(r->element[2]->integer, -1);
    freeReplyObject(r);
    buf_deinit(&attempts);
    cr_expect_eq(lua_counter(lua, "busy", "sms"), 0);
    expect_totals((struct want){.attempts = 3, .delivered = 2, .failed_attempts = 1, .retried = 1, .pending = 1});
}

LUA_TEST(lua_settle, outcomes_are_written_when_memory_has_run_out)
{
    struct lua_entry a = lua_start(lua, "a", "mail", "g/1"), b = lua_start(lua, "b", "mail", "g/1");

    redis_fixture_run(lua_redis(lua), "CONFIG SET maxmemory 1");
    cr_expect_eq(lua_settle(lua, &a, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(lua_settle(lua, &b, 'r', 60000), TASK_SCHEDULED);
    redis_fixture_run(lua_redis(lua), "CONFIG SET maxmemory 0");
}
