#include "../support/store_fixture.h"
#include "../support/wait.h"
#include "base/mem.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The store's port on a Redis that does what it should. */

#define TIMEOUT_MS 10000
#define LARGEST_MS 20000
#define MANY 3000
#define BIG_BYTES (1 << 20)

static struct redis_fixture *redis;
static struct redis_opts opts;
static struct lua_fixture *lua;
static struct store *store;
static struct ask ask;
static atomic_llong scheduled_ms;
static atomic_int scheduled_calls;

static void on_scheduled(void *ctx, int64_t due_at_ms)
{
    (void)ctx;
    atomic_store(&scheduled_ms, due_at_ms);
    atomic_fetch_add(&scheduled_calls, 1);
}

static void start_store(void)
{
    const struct store_opts o = {.redis = opts, .on_scheduled = on_scheduled};

    cr_assert_eq(store_create(&o, &store), ERR_OK);
    store_wait_up(store);
}

static void set_up(void)
{
    redis = redis_fixture_create(false);
    opts = store_redis_opts(redis);
    start_store();
    lua = lua_fixture_attach(redis);
}

static void tear_down(void)
{
    store_destroy(&store);
    lua_fixture_destroy(&lua);
    redis_opts_deinit(&opts);
    redis_fixture_destroy(&redis);
}

TestSuite(store, .init = set_up, .fini = tear_down);

static void create(const char *id, int64_t delay_ms)
{
    ask_create(&ask, id, delay_ms, NULL);
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
}

/* -------------------------------------------------------------- create and get */

LUA_TEST(store, a_created_task_is_told_its_times_and_can_be_got)
{
    ask_create(&ask, "a", 5000, "request");
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    int64_t due = ask.op.task->run_at_ms;
    cr_expect_eq(ask.op.task->state, TASK_SCHEDULED);
    cr_expect_eq(ask.op.task->created_at_ms, due - 5000);
    cr_expect_null(ask.op.existing);
    cr_expect_eq(atomic_load(&scheduled_ms), due);
    cr_expect_eq(atomic_load(&scheduled_calls), 1);
    ask_end(&ask);

    ask_get(&ask, "a");
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    cr_expect_str_eq(ask.op.task->id, "a");
    cr_expect_str_eq(ask.op.task->url, "http://receiver/a");
    cr_expect_eq(ask.op.task->run_at_ms, due);
    cr_expect(ask.op.task->has_digest);
    ask_end(&ask);
}

LUA_TEST(store, an_absolute_due_time_is_kept)
{
    ask_create(&ask, "a", 0, NULL);
    ask.op.task->is_due_absolute = true;
    ask.op.task->due_ms = 4102444800123;
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    cr_expect_eq(ask.op.task->run_at_ms, 4102444800123);
    ask_end(&ask);
}

LUA_TEST(store, a_task_that_is_not_there_is_not_found)
{
    ask_get(&ask, "a");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_TASK_NOT_FOUND);
    cr_expect_null(ask.op.task);
    ask_end(&ask);
}

LUA_TEST(store, the_same_request_again_gives_the_task_as_it_is_now)
{
    ask_create(&ask, "a", 5000, "request");
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    ask_create(&ask, "a", 5000, "request");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    cr_expect(ask.op.is_repeat);
    cr_assert_not_null(ask.op.existing);
    cr_expect_eq(ask.op.existing->state, TASK_CANCELLED);
    ask_end(&ask);
    cr_expect_eq(lua_counter(lua, "totals", "duplicates"), 1);
    cr_expect_eq(atomic_load(&scheduled_calls), 1, "a repeat schedules nothing");
}

LUA_TEST(store, another_request_with_the_same_id_is_a_conflict)
{
    static const char *const others[] = {"another", NULL};

    ask_create(&ask, "a", 5000, "request");
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    for (size_t i = 0; i < 2; i++) {
        ask_create(&ask, "a", 5000, others[i]);
        cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_ID_CONFLICT);
        cr_expect_not(ask.op.is_repeat);
        cr_assert_not_null(ask.op.existing);
        cr_expect_eq(ask.op.existing->state, TASK_SCHEDULED);
        ask_end(&ask);
    }
}

LUA_TEST(store, too_many_pending_tasks_are_refused)
{
    store_destroy(&store);
    opts.max_pending = 1;
    start_store();
    create("a", 60000);
    ask_create(&ask, "b", 60000, NULL);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_TOO_MANY_PENDING);
    ask_end(&ask);
}

static void give_body(struct task *t, size_t bytes, char byte)
{
    t->body_kind = TASK_BODY_BYTES;
    t->body_bytes = bytes;
    t->body = xcalloc(bytes + 1, 1);
    memset(t->body, byte, bytes);
}

LUA_TEST(store, an_id_without_a_digest_is_another_s)
{
    create("a", 60000);
    ask_create(&ask, "a", 1000, NULL);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_ID_CONFLICT);
    ask_end(&ask);
}

LUA_TEST(store, big_bodies_travel_whole)
{
    enum { BIG = 6 };
    static struct ask asks[BIG];
    char id[24];

    for (int i = 0; i < BIG; i++) {
        (void)snprintf(id, sizeof(id), "big-%d", i);
        ask_create(&asks[i], id, 60000, NULL);
        give_body(asks[i].op.task, BIG_BYTES, (char)('a' + i));
        ask_submit(&asks[i], store, TIMEOUT_MS);
    }
    for (int i = 0; i < BIG; i++) {
        ask_wait(&asks[i]);
        cr_assert_eq(asks[i].op.err, ERR_OK);
        ask_get(&ask, asks[i].id);
        cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
        cr_assert_eq(ask.op.task->body_bytes, BIG_BYTES);
        cr_expect_eq(memcmp(ask.op.task->body, asks[i].op.task->body, BIG_BYTES), 0);
        ask_end(&ask);
        ask_end(&asks[i]);
    }
}

/* What nobody sees is not sent either: many at once would hold Redis and its connection. */
LUA_TEST(store, an_answer_that_shows_no_body_brings_none)
{
    ask_create(&ask, "a", 60000, NULL);
    give_body(ask.op.task, BIG_BYTES, 'a');
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    long long before = redis_fixture_info(redis, "total_net_output_bytes");
    ask_create(&ask, "a", 60000, NULL);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_ID_CONFLICT);
    ask_end(&ask);
    ask_cancel(&ask, "a");
    ask.op.kind = STORE_RUN;
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    long long sent = redis_fixture_info(redis, "total_net_output_bytes") - before;
    cr_expect_lt(sent, 2 * 49152 + 20000, "%lld", sent);
}

/* The largest that max-body allows; the record is a little larger. */
LUA_TEST(store, the_largest_body_of_all_is_stored_whole)
{
    size_t bytes = (size_t)64 << 20;

    ask_create(&ask, "whale", 60000, NULL);
    give_body(ask.op.task, bytes, 'w');
    cr_assert_eq(ask_now(&ask, store, LARGEST_MS), ERR_OK);
    ask_end(&ask);
    cr_expect_geq(redis_fixture_integer(redis, "STRLEN duepost{0}whale"), (long long)bytes);
}

/* ---------------------------------------------------------------------- cancel */

static enum err cancel(const char *id)
{
    ask_cancel(&ask, id);
    return ask_now(&ask, store, TIMEOUT_MS);
}

LUA_TEST(store, a_scheduled_task_is_cancelled_once_and_for_all)
{
    create("a", 60000);
    cr_expect_eq(cancel("a"), ERR_OK);
    cr_expect_eq(ask.op.state, TASK_CANCELLED);
    cr_expect_not(ask.op.is_repeat);
    ask_end(&ask);
    cr_expect_eq(cancel("a"), ERR_OK);
    cr_expect_eq(ask.op.state, TASK_CANCELLED);
    cr_expect(ask.op.is_repeat);
    ask_end(&ask);
}

LUA_TEST(store, the_cancel_of_a_task_under_way_gives_the_task)
{
    lua_start(lua, "a", "mail", "g/1");
    cr_expect_eq(cancel("a"), ERR_OK);
    cr_expect_eq(ask.op.state, TASK_DELIVERING);
    cr_assert_not_null(ask.op.task);
    cr_expect(ask.op.task->cancel_requested);
    cr_expect_str_eq(ask.op.task->id, "a");
    ask_end(&ask);
}

LUA_TEST(store, a_finished_task_cannot_be_cancelled)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    cr_expect_eq(cancel("a"), ERR_STATE_CONFLICT);
    cr_expect_eq(ask.op.state, TASK_DELIVERED);
    ask_end(&ask);
    e = lua_start(lua, "b", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    cr_expect_eq(cancel("b"), ERR_STATE_CONFLICT);
    cr_expect_eq(ask.op.state, TASK_DEAD);
    ask_end(&ask);
}

LUA_TEST(store, what_is_not_there_cannot_be_cancelled)
{
    cr_expect_eq(cancel("a"), ERR_TASK_NOT_FOUND);
    ask_end(&ask);
}

/* ---------------------------------------------------------------------- settle */

static const struct {
    enum store_settle how;
    enum task_state want;
    int attempts;
} outcomes[] = {
    {STORE_SETTLE_DELIVERED, TASK_DELIVERED, 1},
    {STORE_SETTLE_RETRY, TASK_SCHEDULED, 1},
    {STORE_SETTLE_DEAD, TASK_DEAD, 1},
    {STORE_SETTLE_RELEASE, TASK_SCHEDULED, 0},
};

LUA_TEST(store, every_outcome_is_written_and_a_repeat_is_stale)
{
    char id[24];

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++) {
        (void)snprintf(id, sizeof(id), "t%zu", i);
        struct lua_entry e = lua_start(lua, id, "mail", "g/1");
        ask_settle(&ask, lua_task(lua, e.id), &e, outcomes[i].how, 60000);
        cr_expect_eq(ask_now(&ask, store, 0), ERR_OK);
        cr_expect_not(ask.op.is_stale);
        cr_expect_eq(ask.op.state, outcomes[i].want);
        ask_end(&ask);
        struct task *t = lua_task(lua, id);
        cr_expect_eq(t->state, outcomes[i].want);
        cr_expect_eq(t->attempts, outcomes[i].attempts);
        task_destroy(&t);
        ask_settle(&ask, lua_task(lua, e.id), &e, outcomes[i].how, 60000);
        cr_expect_eq(ask_now(&ask, store, 0), ERR_OK);
        cr_expect(ask.op.is_stale);
        ask_end(&ask);
    }
}

LUA_TEST(store, a_retry_tells_when_it_is_due)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    int64_t before = lua_now_ms(lua);

    ask_settle(&ask, lua_task(lua, e.id), &e, STORE_SETTLE_RETRY, 5000);
    cr_assert_eq(ask_now(&ask, store, 0), ERR_OK);
    ask_end(&ask);
    cr_expect_geq(atomic_load(&scheduled_ms), before + 5000);
    cr_expect_leq(atomic_load(&scheduled_ms), lua_now_ms(lua) + 5001, "at the next whole ms");
}

/* ----------------------------------------------------- renew, statistics, probe */

LUA_TEST(store, renewing_keeps_a_delivery_from_being_taken_over)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", 60000);
    ask_kind(&ask, STORE_RENEW);
    ask.op.consumer = "g/1";
    ask.op.leases = &e.lease;
    ask.op.lease_count = 1;
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    cr_expect_eq(lua_recover(lua, "h", 15000), 0);
}

LUA_TEST(store, the_statistics_know_redis_too)
{
    create("a", 60000);
    lua_start(lua, "b", "mail", "g/1");
    ask_kind(&ask, STORE_STATS);
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    const struct store_stats *s = ask.op.stats;
    cr_assert_not_null(s);
    cr_expect_eq(s->all.scheduled, 1);
    cr_expect_eq(s->all.delivering, 1);
    cr_expect_eq(s->queue_count, 2);
    cr_expect_str_eq(s->queues[0].name, "default");
    cr_expect_eq(s->created, 2);
    cr_expect_str_neq(s->redis_version, "");
    cr_expect_gt(s->used_memory_bytes, 100000);
    cr_expect_geq(s->rtt_us, 0);
    cr_expect_leq(s->rtt_us, 10000000);
    ask_end(&ask);
}

LUA_TEST(store, a_probe_succeeds)
{
    ask_kind(&ask, STORE_PROBE);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
}

/* ------------------------------------------------------------------------ many */

LUA_TEST(store, a_chain_of_many_is_answered_one_by_one)
{
    struct ask *asks = xcalloc(MANY, sizeof(*asks));
    char id[24];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i % (MANY / 2)); /* each id twice */
        ask_create(&asks[i], id, 60000, id);
        if (i > 0)
            asks[i - 1].op.node.next = &asks[i].op.node;
    }
    store_submit_chain(store, &asks[0].op, &asks[MANY - 1].op);
    for (int i = 0; i < MANY; i++) {
        ask_wait(&asks[i]);
        cr_assert_eq(asks[i].op.err, ERR_OK, "%d: %s", i, err_code(asks[i].op.err));
        cr_assert_eq(asks[i].op.is_repeat, i >= MANY / 2, "%d", i);
    }
    for (int i = 0; i < MANY; i++)
        ask_end(&asks[i]);
    free(asks);
    cr_expect_eq(lua_counter(lua, "totals", "created"), MANY / 2);
    cr_expect_eq(lua_counter(lua, "totals", "duplicates"), MANY / 2);
    redis_fixture_run(redis, "FLUSHALL"); /* too many for a thorough check */
    ask_kind(&ask, STORE_STATS);
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
}

/* ----------------------------------------------------------------------- logging in */

static void start_with_login(const char *username, const char *password, int db)
{
    store_destroy(&store);
    opts.username = username ? xstrdup(username) : NULL;
    opts.password = xstrdup(password);
    opts.db = db;
    start_store();
}

Test(store, a_password_and_a_database_are_used_on_every_connection)
{
    redis_fixture_run(redis, "CONFIG SET requirepass secret");
    start_with_login(NULL, "secret", 3);
    create("a", 60000);
    redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
    create("b", 60000);
    redis_fixture_run(redis, "SELECT 3");
    cr_expect_eq(redis_fixture_integer(redis, "EXISTS duepost{0}a duepost{0}b"), 2);
}

Test(store, a_user_with_the_rights_it_needs_is_enough)
{
    redis_fixture_run(redis,
                      "ACL SETUSER duepost on >secret ~duepost{0}* &duepost{0}:wake +@all -@dangerous -@admin +info "
                      "+role");
    start_with_login("duepost", "secret", 0);
    create("a", 60000);
    ask_kind(&ask, STORE_STATS);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
}

/* --------------------------------------------------------------- damaged records */

Test(store, a_record_that_cannot_be_read_is_an_error_of_its_own)
{
    redis_fixture_run(redis, "SET duepost{0}bad 0123456789012345678901234567890");
    create("good", 60000);
    ask_get(&ask, "bad");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_INTERNAL);
    ask_end(&ask);
    ask_create(&ask, "bad", 1000, "x");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_INTERNAL);
    ask_end(&ask);
    ask_get(&ask, "good");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
}

Test(store, a_record_under_way_that_cannot_be_read_is_no_fault_of_who_cancels_it)
{
    lua_start(lua, "a", "mail", "g/1");
    redis_fixture_run(redis, "SETRANGE duepost{0}a 26 %b", "\xff\xff\xff\xff\xff\xff\xff\xff", (size_t)8); /* varints */
    cr_expect_eq(cancel("a"), ERR_INTERNAL);
    ask_end(&ask);
}

LUA_TEST(store, one_bad_key_fails_nobody_else_in_its_call)
{
    enum { GROUP = 60, BAD = 31 };
    struct ask asks[GROUP];
    char id[24];

    redis_fixture_run(redis, "LPUSH duepost{0}t%d x", BAD);
    for (int i = 0; i < GROUP; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        ask_create(&asks[i], id, 60000, NULL);
        asks[i].op.deadline_mono_ms = wait_mono_ms() + TIMEOUT_MS;
        if (i > 0)
            asks[i - 1].op.node.next = &asks[i].op.node;
    }
    store_submit_chain(store, &asks[0].op, &asks[GROUP - 1].op);
    for (int i = 0; i < GROUP; i++) {
        ask_wait(&asks[i]);
        cr_expect_eq(asks[i].op.err, i == BAD ? ERR_INTERNAL : ERR_OK, "%d: %s", i, err_code(asks[i].op.err));
        ask_end(&asks[i]);
    }
    redis_fixture_run(redis, "DEL duepost{0}t%d", BAD);
}
