#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAKE_MS 5000

static struct lua_fixture *lua;
static redisContext *listener;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    if (listener)
        redisFree(listener);
    lua_fixture_destroy(&lua);
}

TestSuite(lua_create, .init = set_up, .fini = tear_down);

static void expect_counts(int created, int duplicates)
{
    cr_expect_eq(lua_counter(lua, "totals", "created"), created);
    cr_expect_eq(lua_counter(lua, "totals", "duplicates"), duplicates);
}

LUA_TEST(lua_create, a_new_task_is_scheduled_with_a_due_time_from_now)
{
    int64_t before = lua_now_ms(lua);
    int64_t due = lua_add(lua, "a", "+5000", "default");
    int64_t after = lua_now_ms(lua);
    struct task *t = lua_task(lua, "a");

    cr_assert(due >= before + 5000 && due <= after + 5000, "due %lld", (long long)due);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_eq(t->run_at_ms, due);
    cr_expect_eq(t->created_at_ms, due - 5000);
    cr_expect_eq(t->attempts, 0);
    cr_expect_not(t->cancel_requested);
    cr_expect_str_eq(t->url, "http://receiver/");
    cr_expect_str_eq(t->body, "hello");
    expect_counts(1, 0);
    task_destroy(&t);
}

LUA_TEST(lua_create, an_absolute_due_time_is_kept_to_the_millisecond)
{
    cr_expect_eq(lua_add(lua, "a", "4102444800123", "default"), 4102444800123);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->run_at_ms, 4102444800123);
    task_destroy(&t);
}

LUA_TEST(lua_create, a_due_time_in_the_past_means_now)
{
    int64_t before = lua_now_ms(lua);
    int64_t due = lua_add(lua, "a", "1000", "default");

    cr_expect(due >= before && due <= lua_now_ms(lua), "due %lld", (long long)due);
}

LUA_TEST(lua_create, the_longest_delay_is_exact)
{
    int64_t before = lua_now_ms(lua);
    int64_t due = lua_add(lua, "a", "+315619200000", "default"); /* 3653 days */

    cr_expect(due >= before + 315619200000 && due <= lua_now_ms(lua) + 315619200000);
}

LUA_TEST(lua_create, an_id_that_exists_gives_its_record_and_changes_nothing)
{
    int64_t due = lua_add(lua, "a", "+5000", "mail");
    redisReply *r = lua_create(lua, &(struct lua_new){"a", "+1", "other"}, 1);

    cr_assert_eq(r->element[1]->type, REDIS_REPLY_STRING);
    freeReplyObject(r);
    struct task *t = lua_task(lua, "a");
    cr_expect_eq(t->run_at_ms, due);
    cr_expect_str_eq(t->queue, "mail");
    cr_expect_eq(lua_counter(lua, "queues", "mail"), 1);
    cr_expect_eq(lua_counter(lua, "queues", "other"), 0);
    expect_counts(1, 1);
    task_destroy(&t);
}

LUA_TEST(lua_create, an_id_is_taken_in_every_state)
{
    struct lua_entry e = lua_start(lua, "a", "default", "g/1");
    redisReply *r = lua_create(lua, &(struct lua_new){"a", "+1", "default"}, 1);

    cr_expect_eq(r->element[1]->type, REDIS_REPLY_STRING, "while delivering");
    freeReplyObject(r);
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    r = lua_create(lua, &(struct lua_new){"a", "+1", "default"}, 1);
    cr_expect_eq(r->element[1]->type, REDIS_REPLY_STRING, "when delivered");
    freeReplyObject(r);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERED);
}

LUA_TEST(lua_create, one_call_takes_many_tasks_of_several_queues_each_with_its_own_outcome)
{
    const struct lua_new tasks[] = {
        {"a", "+1000", "mail"}, {"b", "+2000", "sms"}, {"a", "+3000", "mail"}, {"c", "+500", "mail"}};
    redisReply *r = lua_create(lua, tasks, 4);

    cr_assert_eq(r->elements, 5);
    int64_t now = r->element[0]->integer;
    cr_expect_eq(r->element[1]->integer, now + 1000);
    cr_expect_eq(r->element[2]->integer, now + 2000);
    cr_expect_eq(r->element[3]->type, REDIS_REPLY_STRING, "the same id twice in one call");
    cr_expect_eq(r->element[4]->integer, now + 500);
    freeReplyObject(r);
    cr_expect_eq(lua_counter(lua, "queues", "mail"), 2);
    cr_expect_eq(lua_counter(lua, "queues", "sms"), 1);
    expect_counts(3, 1);
}

LUA_TEST(lua_create, a_full_call_is_taken)
{
    static char ids[STORE_CALL_MAX][24];
    struct lua_new tasks[STORE_CALL_MAX];

    for (int i = 0; i < STORE_CALL_MAX; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "task-%d", i);
        tasks[i] = (struct lua_new){ids[i], "+60000", i % 2 ? "odd" : "even"};
    }
    freeReplyObject(lua_create(lua, tasks, STORE_CALL_MAX));
    expect_counts(STORE_CALL_MAX, 0);
    cr_expect_eq(lua_counter(lua, "queues", "odd"), STORE_CALL_MAX / 2);
}

LUA_TEST(lua_create, an_id_of_any_allowed_form_meets_no_container)
{
    lua_add(lua, "0:lanes", "+60000", "a");
    lua_add(lua, "q:x", "+60000", "dead");
    lua_add(lua, "dead", "+60000", "lanes");
    cr_expect_eq(lua_counter(lua, "totals", "created"), 3);
}

/* A worker that was cut off for long comes with the entry of a task that is gone, whose id has been used again. */
LUA_TEST(lua_create, the_owner_of_an_earlier_task_of_the_same_id_is_late)
{
    struct lua_entry old = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &old, 'd', 0), TASK_DELIVERED);
    cr_assert_eq(lua_sweep(lua, 0, 1000, 100), 1);
    lua_start(lua, "a", "mail", "h/1");
    cr_expect_eq(lua_claim(lua, &old, 1), 0);
    cr_expect_eq(lua_settle(lua, &old, 'd', 0), -1);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERING);
}

/* ------------------------------------------------------------------- the limit */

LUA_TEST(lua_create, beyond_the_limit_nothing_new_is_taken)
{
    const struct lua_new tasks[] = {{"a", "+60000", "x"}, {"b", "+60000", "y"}, {"c", "+60000", "x"}};
    redisReply *r = lua_create_limited(lua, 2, tasks, 3);

    cr_expect_gt(r->element[1]->integer, 0);
    cr_expect_gt(r->element[2]->integer, 0);
    cr_expect_eq(r->element[3]->integer, -1);
    freeReplyObject(r);
    r = lua_create_limited(lua, 2, &tasks[2], 1);
    cr_expect_eq(r->element[1]->integer, -1);
    freeReplyObject(r);
    cr_expect_eq(lua_state(lua, "c"), -1);
    expect_counts(2, 0);
}

LUA_TEST(lua_create, a_repeat_is_known_even_beyond_the_limit)
{
    lua_add(lua, "a", "+60000", "x");
    redisReply *r = lua_create_limited(lua, 1, &(struct lua_new){"a", "+60000", "x"}, 1);

    cr_expect_eq(r->element[1]->type, REDIS_REPLY_STRING);
    freeReplyObject(r);
}

LUA_TEST(lua_create, what_is_finished_makes_room_again)
{
    const struct lua_new next = {"next", "+60000", "x"};
    struct lua_entry e = lua_start(lua, "a", "x", "g/1");
    redisReply *r = lua_create_limited(lua, 1, &next, 1);

    cr_expect_eq(r->element[1]->integer, -1, "one is under way");
    freeReplyObject(r);
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    r = lua_create_limited(lua, 1, &next, 1);
    cr_expect_gt(r->element[1]->integer, 0);
    freeReplyObject(r);
}

/* ------------------------------------------------------------ waking the movers */

static void listen_for_wakes(void)
{
    listener = redisConnectUnix(redis_fixture_socket(lua_redis(lua)));
    cr_assert(listener && !listener->err);
    redisReply *r = redisCommand(listener, "SUBSCRIBE %s", lua_keys(lua)->wake);
    cr_assert(r && r->type == REDIS_REPLY_ARRAY);
    freeReplyObject(r);
}

/* The next message; a mark that we publish ourselves stands for "none came before". */
static int64_t next_wake(void)
{
    redisReply *r = NULL;

    redis_fixture_run(lua_redis(lua), "PUBLISH %s -1", lua_keys(lua)->wake);
    cr_assert_eq(redisGetReply(listener, (void **)&r), REDIS_OK);
    int64_t due = strtoll(r->element[2]->str, NULL, 10);
    freeReplyObject(r);
    if (due >= 0) {
        cr_assert_eq(redisGetReply(listener, (void **)&r), REDIS_OK);
        cr_assert_str_eq(r->element[2]->str, "-1", "woken twice by one call");
        freeReplyObject(r);
    }
    return due;
}

LUA_TEST(lua_create, the_movers_are_woken_only_by_what_is_due_earlier_than_all_before)
{
    listen_for_wakes();
    cr_expect_eq(next_wake(), -1);
    int64_t first = lua_add(lua, "first", "+60000", "a");
    cr_expect_eq(next_wake(), first, "the first task of all");
    lua_add(lua, "later", "+70000", "a");
    cr_expect_eq(next_wake(), -1, "a later one of the same queue");
    lua_add(lua, "other", "+65000", "b");
    cr_expect_eq(next_wake(), -1, "a later one of another queue");
    int64_t earlier = lua_add(lua, "earlier", "+50000", "b");
    cr_expect_eq(next_wake(), earlier);
    freeReplyObject(lua_create(lua, &(struct lua_new){"later", "+1", "a"}, 1));
    cr_expect_eq(next_wake(), -1, "a repeated id schedules nothing");
}

LUA_TEST(lua_create, one_call_wakes_once_for_the_earliest)
{
    const struct lua_new tasks[] = {{"a", "+60000", "x"}, {"b", "+40000", "y"}, {"c", "+50000", "x"}};

    listen_for_wakes();
    redisReply *r = lua_create(lua, tasks, 3);
    cr_expect_eq(next_wake(), r->element[2]->integer);
    freeReplyObject(r);
}

LUA_TEST(lua_create, out_of_memory_refuses_the_whole_call)
{
    const struct lua_new tasks[] = {{"a", "+1", "x"}, {"b", "+1", "x"}};
    struct call *c;

    redis_fixture_run(lua_redis(lua), "CONFIG SET maxmemory 1");
    c = lua_begin(lua, SCRIPT_CREATE);
    for (int i = 0; i < 2; i++)
        call_add_record_key(c, lua_keys(lua), tasks[i].id);
    call_begin_args(c, lua_keys(lua));
    call_add_int(c, 0);
    call_add_str(c, "0");
    for (int i = 0; i < 2; i++) {
        call_add_str(c, tasks[i].id);
        call_add_str(c, tasks[i].due);
        call_add_str(c, tasks[i].queue);
        call_add_str(c, "");
        call_add(c, "\0\0\0", 3); /* the queue "default", POST, no body, no members */
    }
    redisReply *r = lua_try(lua);
    cr_assert_eq(r->type, REDIS_REPLY_ERROR);
    cr_expect_not_null(strstr(r->str, "OOM"), "%s", r->str);
    freeReplyObject(r);
    redis_fixture_run(lua_redis(lua), "CONFIG SET maxmemory 0");
    cr_expect_eq(lua_state(lua, "a"), -1);
    cr_expect_eq(lua_state(lua, "b"), -1);
    expect_counts(0, 0);
}
