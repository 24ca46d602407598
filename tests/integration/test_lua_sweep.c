#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS 3600000
#define AGED_MS 5000
#define MANY 1000000

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_sweep, .init = set_up, .fini = tear_down);

static void finish(const char *id, const char *queue, char how)
{
    struct lua_entry e = lua_start(lua, id, queue, "g/1");

    cr_assert_geq(lua_settle(lua, &e, how, 0), (int)TASK_DELIVERED);
}

static void finish_many(const char *queue, int count, char how)
{
    char id[48];

    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof(id), "%s-%c%d", queue, how, i);
        finish(id, queue, how);
    }
}

struct swept {
    int64_t removed, next_ms;
};

static struct swept sweep(const int64_t retention[4], int64_t max_finished, int64_t limit)
{
    struct call *c = lua_begin(lua, SCRIPT_SWEEP);

    call_begin_args(c, lua_keys(lua));
    for (int i = 0; i < 4; i++)
        call_add_int(c, retention[i]);
    call_add_int(c, max_finished);
    call_add_int(c, limit);
    redisReply *r = lua_send(lua);
    cr_assert_eq(r->elements, 2);
    struct swept s = {r->element[0]->integer, r->element[1]->integer};
    freeReplyObject(r);
    return s;
}

static const int64_t LONG[4] = {HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS};

LUA_TEST(lua_sweep, nothing_finished_sweeps_nothing)
{
    lua_add(lua, "a", "+0", "mail");
    struct swept s = sweep((const int64_t[]){0, 0, 0, 0}, 0, 100);

    cr_expect_eq(s.removed, 0);
    cr_expect_eq(s.next_ms, -1);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
}

Test(lua_sweep, a_record_that_breaks_off_holds_up_no_other)
{
    finish("a", "mail", 'd');
    finish("b", "mail", 'd');
    redisReply *head = redis_fixture_command(lua_redis(lua), "GETRANGE %sa 0 19", lua_keys(lua)->base);

    redis_fixture_run(lua_redis(lua), "SET %sa %b", lua_keys(lua)->base, head->str, head->len);
    freeReplyObject(head);
    cr_expect_eq(sweep((const int64_t[]){0, 0, 0, 0}, MANY, 100).next_ms, -1, "the container is empty");
    cr_expect_eq(lua_state(lua, "b"), -1);
}

LUA_TEST(lua_sweep, a_finished_task_stays_for_its_retention)
{
    finish("a", "mail", 'd');
    struct swept s = sweep(LONG, MANY, 100);

    cr_expect_eq(s.removed, 0);
    cr_expect(s.next_ms > HOUR_MS - 60000 && s.next_ms <= HOUR_MS, "next in %lld ms", (long long)s.next_ms);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERED);
}

LUA_TEST(lua_sweep, after_its_retention_nothing_of_a_task_is_left)
{
    finish("a", "mail", 'x');
    cr_expect_eq(lua_sweep(lua, 0, MANY, 100), 1);
    cr_expect_eq(lua_state(lua, "a"), -1);
    cr_expect_eq(lua_counter(lua, "queues", "mail"), 0);
    redisReply *r = redis_fixture_command(lua_redis(lua), "KEYS %s:*", lua_keys(lua)->base);
    for (size_t i = 0; i < r->elements; i++)
        cr_expect(strstr(r->element[i]->str, ":totals") || strstr(r->element[i]->str, ":ready") ||
                      strstr(r->element[i]->str, ":meta") || strstr(r->element[i]->str, ":flight"),
                  "%s is left over", r->element[i]->str);
    freeReplyObject(r);
    cr_expect_eq(lua_sweep(lua, 0, MANY, 100), 0, "a repeat finds nothing");
}

LUA_TEST(lua_sweep, each_finished_state_has_its_own_retention)
{
    static const struct {
        int64_t retention[4]; /* delivered, dead, cancelled, expired */
        const char *gone;
    } cases[] = {{{0, HOUR_MS, HOUR_MS, HOUR_MS}, "delivered"},
                 {{HOUR_MS, 0, HOUR_MS, HOUR_MS}, "dead"},
                 {{HOUR_MS, HOUR_MS, 0, HOUR_MS}, "cancelled"}};

    finish("delivered", "mail", 'd');
    finish("dead", "mail", 'x');
    lua_add(lua, "cancelled", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "cancelled"), TASK_SCHEDULED);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_neq(lua_state(lua, cases[i].gone), -1);
        cr_expect_eq(sweep(cases[i].retention, MANY, 100).removed, 1);
        cr_expect_eq(lua_state(lua, cases[i].gone), -1, "%s", cases[i].gone);
    }
}

LUA_TEST(lua_sweep, no_more_is_removed_in_a_call_than_asked_for)
{
    finish_many("mail", 5, 'd');
    finish_many("sms", 5, 'x');
    struct swept s = sweep((const int64_t[]){0, 0, 0, 0}, MANY, 7);
    cr_expect_eq(s.removed, 7);
    cr_expect_eq(s.next_ms, 0, "more is due now");
    s = sweep((const int64_t[]){0, 0, 0, 0}, MANY, 7);
    cr_expect_eq(s.removed, 3);
    cr_expect_eq(s.next_ms, -1);
}

LUA_TEST(lua_sweep, beyond_the_limit_the_oldest_go_and_are_counted)
{
    finish_many("mail", 6, 'd');
    redis_fixture_run(lua_redis(lua), "ZADD %s:delivered XX 1000 mail-d4 2000 mail-d2", lua_keys(lua)->base);
    struct swept s = sweep((const int64_t[]){9000000000000, 0, 0, 0}, 4, 100);

    cr_expect_eq(s.removed, 2);
    cr_expect_eq(lua_state(lua, "mail-d4"), -1);
    cr_expect_eq(lua_state(lua, "mail-d2"), -1);
    cr_expect_eq(lua_state(lua, "mail-d0"), TASK_DELIVERED);
    cr_expect_eq(lua_counter(lua, "totals", "trimmed"), 2);
    cr_expect_eq(lua_counter(lua, "queues", "mail"), 4);
}

LUA_TEST(lua_sweep, the_oldest_of_all_states_go_first)
{
    finish_many("mail", 3, 'd');
    finish_many("sms", 2, 'x');
    redis_fixture_run(lua_redis(lua), "ZADD %s:dead XX 1000 sms-x1", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "ZADD %s:delivered XX 2000 mail-d1", lua_keys(lua)->base);
    cr_expect_eq(sweep((const int64_t[]){9000000000000, 9000000000000, 0, 0}, 3, 100).removed, 2);
    cr_expect_eq(lua_state(lua, "sms-x1"), -1);
    cr_expect_eq(lua_state(lua, "mail-d1"), -1);
}

LUA_TEST(lua_sweep, the_limit_is_kept_with_several_finished_states)
{
    finish_many("mail", 3, 'd');
    finish_many("sms", 3, 'x');
    lua_add(lua, "c", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "c"), TASK_SCHEDULED);
    int64_t removed = 0;
    struct swept s;
    do {
        s = sweep(LONG, 1, 100);
        removed += s.removed;
    } while (s.removed > 0);
    cr_expect_eq(removed, 6);
    cr_expect_eq(lua_counter(lua, "totals", "trimmed"), 6);
    cr_expect_eq(lua_counter(lua, "queues", "mail") + lua_counter(lua, "queues", "sms"), 1);
}

/* Else a busy gateway finishes tasks faster than they go. */
LUA_TEST(lua_sweep, while_there_are_too_many_more_is_due_now)
{
    finish_many("mail", 6, 'd');
    struct swept s = sweep(LONG, 1, 2);

    cr_expect_eq(s.removed, 2);
    cr_expect_eq(s.next_ms, 0);
    s = sweep(LONG, 1, 100);
    cr_expect_eq(s.removed, 3);
    cr_expect_gt(s.next_ms, 0);
}

LUA_TEST(lua_sweep, unfinished_tasks_do_not_count_towards_the_limit)
{
    lua_add(lua, "a", "+60000", "mail");
    lua_add(lua, "b", "+60000", "mail");
    finish("c", "mail", 'd');
    cr_expect_eq(sweep(LONG, 1, 100).removed, 0);
}

/* Its record was deleted by hand, and the id came back as a new task. */
LUA_TEST(lua_sweep, a_live_task_is_never_removed)
{
    finish("a", "mail", 'd');
    redis_fixture_run(lua_redis(lua), "DEL %sa", lua_keys(lua)->base);
    redis_fixture_run(lua_redis(lua), "HDEL %s:queues mail", lua_keys(lua)->base);
    lua_add(lua, "a", "+60000", "mail");
    lua_sweep(lua, 0, MANY, 100);
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
}

LUA_TEST(lua_sweep, memory_returns_to_where_it_was)
{
    finish_many("mail", 50, 'd');
    cr_assert_eq(lua_sweep(lua, 0, MANY, 100), 50);
    long long before = redis_fixture_info(lua_redis(lua), "used_memory");
    for (int round = 0; round < 4; round++) {
        finish_many("mail", 50, 'd');
        cr_assert_eq(lua_sweep(lua, 0, MANY, 100), 50);
    }
    /* Records are freed in a thread of Redis. */
    WAIT_UNTIL(redis_fixture_info(lua_redis(lua), "used_memory") < before + 65536, AGED_MS);
}
