/* create.lua with Idempotency-Keys: the outcome of each task of a call, and what the key remembers. How requests are
 * told apart by a client's view is in tests/e2e/test_idempotency.c. */
#include "../support/lua_fixture.h"
#include "../support/store_fixture.h"
#include "../support/wait.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 20000
#define DOWN_MS 10000

static struct redis_fixture *redis;
static struct redis_opts opts;
static struct store *store;
static struct lua_fixture *lua;
static struct ask ask;

static void set_up(void)
{
    redis = redis_fixture_create(false);
    opts = store_redis_opts(redis);
    cr_assert_eq(store_create(&(struct store_opts){.redis = opts}, &store), ERR_OK);
    store_wait_up(store);
    lua = lua_fixture_attach(redis);
}

static void tear_down(void)
{
    store_destroy(&store);
    lua_fixture_destroy(&lua);
    redis_opts_deinit(&opts);
    redis_fixture_destroy(&redis);
}

TestSuite(lua_create_keys, .init = set_up, .fini = tear_down);

static struct store_key key_of(char name, char request)
{
    struct store_key key;

    memset(key.name, name, sizeof(key.name));
    memset(key.request, request, sizeof(key.request));
    return key;
}

/* As the gateway does for a task whose id it made; the answer is in `ask` until ask_end(). */
static enum err create(const char *id, const struct store_key *key)
{
    ask_create(&ask, id, 60000, NULL);
    ask.op.key = key;
    return ask_now(&ask, store, TIMEOUT_MS);
}

LUA_TEST(lua_create_keys, the_first_id_is_kept_for_every_later_one)
{
    const struct store_key key = key_of('k', 'r');

    cr_assert_eq(create("first", &key), ERR_OK);
    cr_expect_null(ask.op.existing);
    ask_end(&ask);
    cr_assert_eq(create("second", &key), ERR_OK);
    cr_expect(ask.op.is_repeat);
    cr_assert_not_null(ask.op.existing);
    cr_expect_str_eq(ask.op.existing->id, "first");
    ask_end(&ask);
    cr_expect_eq(lua_state(lua, "second"), -1);
    cr_expect_eq(lua_counter(lua, "totals", "created"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "duplicates"), 1);
}

LUA_TEST(lua_create_keys, another_request_is_a_conflict_and_no_duplicate)
{
    const struct store_key key = key_of('k', 'r'), other = key_of('k', 's');

    cr_assert_eq(create("first", &key), ERR_OK);
    ask_end(&ask);
    cr_expect_eq(create("second", &other), ERR_KEY_CONFLICT);
    cr_expect_not(ask.op.is_repeat);
    cr_assert_not_null(ask.op.existing);
    ask_end(&ask);
    cr_expect_eq(lua_counter(lua, "totals", "duplicates"), 0);
}

LUA_TEST(lua_create_keys, a_key_whose_task_is_gone_still_knows_its_id)
{
    const struct store_key key = key_of('k', 'r'), other = key_of('k', 's');

    cr_assert_eq(create("first", &key), ERR_OK);
    ask_end(&ask);
    cr_assert_eq(lua_cancel(lua, "first"), TASK_SCHEDULED);
    cr_assert_eq(lua_sweep(lua, 0, 1000, 100), 1);
    cr_assert_eq(create("second", &key), ERR_OK);
    cr_expect_null(ask.op.existing);
    cr_expect_str_eq(ask.op.gone_id, "first");
    ask_end(&ask);
    cr_expect_eq(create("third", &other), ERR_KEY_CONFLICT);
    cr_expect_str_eq(ask.op.gone_id, "first");
    ask_end(&ask);
}

/* All wait until Redis goes on, so that they come in one call. */
LUA_TEST(lua_create_keys, one_call_takes_tasks_with_and_without_keys)
{
    static const char *const ids[] = {"plain", "a1", "b1", "a2", "other", "b2"};
    static const char keys[] = {0, 'a', 'b', 'a', 0, 'b'};
    struct store_key key[6];
    struct ask asks[6];

    redis_fixture_pause(redis);
    for (size_t i = 0; i < 6; i++) {
        key[i] = key_of(keys[i], i == 5 ? 'x' : 'r');
        ask_create(&asks[i], ids[i], 60000, NULL);
        asks[i].op.key = keys[i] ? &key[i] : NULL;
        ask_submit(&asks[i], store, TIMEOUT_MS);
    }
    redis_fixture_resume(redis);
    for (size_t i = 0; i < 6; i++)
        ask_wait(&asks[i]);
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(asks[i].op.err, ERR_OK, "%s", ids[i]);
        cr_expect_eq(asks[i].op.is_repeat, i == 3, "%s", ids[i]);
    }
    cr_expect_str_eq(asks[3].op.existing->id, "a1");
    cr_expect_eq(asks[5].op.err, ERR_KEY_CONFLICT);
    for (size_t i = 0; i < 6; i++)
        ask_end(&asks[i]);
    cr_expect_eq(lua_counter(lua, "totals", "created"), 4);
}

LUA_TEST(lua_create_keys, what_was_sent_twice_for_a_lost_answer_is_no_repeat)
{
    const struct store_key key = key_of('k', 'r');

    redis_fixture_pause(redis);
    ask_create(&ask, "a", 60000, NULL);
    ask.op.key = &key;
    ask_submit(&ask, store, TIMEOUT_MS);
    WAIT_UNTIL(!store_is_up(store), DOWN_MS);
    redis_fixture_resume(redis);
    ask_wait(&ask);
    cr_expect_eq(ask.op.err, ERR_OK);
    cr_expect_not(ask.op.is_repeat, "its own first try");
    cr_expect_null(ask.op.existing);
    cr_expect_eq(ask.op.task->run_at_ms - ask.op.task->created_at_ms, 60000);
    ask_end(&ask);
    cr_expect_eq(lua_counter(lua, "totals", "created"), 1);
    cr_expect_eq(lua_counter(lua, "totals", "duplicates"), 0);
}

/* Whether the request was the same is read out of the record, whatever members it has before and behind the digest. */
LUA_TEST(lua_create_keys, a_task_known_by_its_id_is_compared_by_its_digest)
{
    static const char *const urls[] = {"http://r/",
                                       "http://receiver.example/a/rather/long/path/that/needs/two/bytes/for"
                                       "/its/length/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    static const char *const queues[] = {"default", "mail"};

    for (size_t i = 0; i < 4; i++) {
        char id[] = {'t', (char)('0' + i), '\0'};
        const struct store_key key = key_of((char)('k' + i), 'r');
        for (int round = 0; round < 3; round++) {
            ask_create(&ask, id, 60000, round == 1 ? "another" : "request");
            free(ask.op.task->url);
            free(ask.op.task->queue);
            ask.op.task->url = xstrdup(urls[i % 2]);
            ask.op.task->queue = xstrdup(queues[i / 2]);
            ask.op.key = round > 0 ? &key : NULL;
            cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), round == 1 ? ERR_ID_CONFLICT : ERR_OK);
            cr_expect_eq(ask.op.is_repeat, round == 2);
            ask_end(&ask);
            cr_expect_eq(lua_counter(lua, "totals", "duplicates"), (int64_t)i + (round == 2));
        }
    }
    redisReply *r = redis_fixture_command(redis, "KEYS duepost{0}:k:*");
    cr_expect_eq(r->elements, 4, "each was claimed by its third request");
    freeReplyObject(r);
}

LUA_TEST(lua_create_keys, beyond_the_limit_a_key_is_not_claimed)
{
    const struct store_key key = key_of('k', 'r');
    struct redis_opts limited = store_redis_opts(redis);

    store_destroy(&store);
    limited.max_pending = 1;
    cr_assert_eq(store_create(&(struct store_opts){.redis = limited}, &store), ERR_OK);
    store_wait_up(store);
    cr_assert_eq(create("first", NULL), ERR_OK);
    ask_end(&ask);
    cr_assert_eq(create("second", &key), ERR_TOO_MANY_PENDING);
    ask_end(&ask);
    cr_assert_eq(lua_cancel(lua, "first"), TASK_SCHEDULED);
    cr_assert_eq(create("third", &key), ERR_OK);
    cr_expect_not(ask.op.is_repeat);
    ask_end(&ask);
    store_destroy(&store);
    redis_opts_deinit(&limited);
}

LUA_TEST(lua_create_keys, out_of_memory_claims_no_key)
{
    const struct store_key key = key_of('k', 'r');

    redis_fixture_run(redis, "CONFIG SET maxmemory 1");
    cr_expect_eq(create("a", &key), ERR_UNAVAILABLE);
    ask_end(&ask);
    redis_fixture_run(redis, "CONFIG SET maxmemory 0");
    cr_expect_eq(lua_state(lua, "a"), -1);
    redisReply *r = redis_fixture_command(redis, "KEYS duepost{0}:k:*");
    cr_expect_eq(r->elements, 0);
    freeReplyObject(r);
}
