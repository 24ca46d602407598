#include "../support/random.h"
#include "../support/store_fixture.h"
#include "../support/wait.h"
#include "base/mem.h"
#include "base/thread.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The store's port on a Redis that forgets, dies, stands still or refuses. Whatever happens, each operation is answered
 * exactly once, in time, with what can be said, and work goes on by itself afterwards. */

#define TIMEOUT_MS 10000
#define DEADLINE_MS 600
#define SLACK_MS 400 /* of an answer after its deadline */
#define RECOVER_MS 5000

static struct redis_fixture *redis;
static struct redis_opts opts;
static struct lua_fixture *lua;
static struct store *store;
static struct ask ask;

static void start(bool aof)
{
    redis = redis_fixture_create(aof);
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

TestSuite(store_faults, .fini = tear_down);

static enum err create(const char *id, int64_t timeout_ms)
{
    ask_create(&ask, id, 3600000, "request");
    enum err err = ask_now(&ask, store, timeout_ms);
    ask_end(&ask);
    return err;
}

/* Within the time promised, a task can be created again. */
static void expect_recovery(const char *id)
{
    WAIT_UNTIL(create(id, DEADLINE_MS) == ERR_OK, RECOVER_MS);
}

static void expect_in_time(const struct ask *a, int64_t timeout_ms)
{
    int64_t took = atomic_load(&a->answered_mono_ms) - a->submitted_mono_ms;

    cr_expect_leq(took, wait_scaled_ms(timeout_ms + SLACK_MS), "answered after %lld ms", (long long)took);
}

/* Every kind of a call that has a deadline is refused, in time. */
static void expect_refusals(void)
{
    struct ask asks[5];

    ask_create(&asks[0], "refused", 1000, NULL);
    ask_get(&asks[1], "nobody");
    ask_cancel(&asks[2], "nobody"); /* whose outcome is unknown, so it may be done later */
    ask_kind(&asks[3], STORE_STATS);
    ask_kind(&asks[4], STORE_PROBE);
    for (int i = 0; i < 5; i++)
        ask_submit(&asks[i], store, DEADLINE_MS);
    for (int i = 0; i < 5; i++) {
        ask_wait(&asks[i]);
        cr_expect_eq(asks[i].op.err, ERR_UNAVAILABLE, "kind %d: %s", i, err_code(asks[i].op.err));
        expect_in_time(&asks[i], DEADLINE_MS);
        ask_end(&asks[i]);
    }
}

/* ------------------------------------------------------------------------ load */

#define CLIENTS 4
#define ROUNDS 150

/* A client that creates, gets and cancels tasks of its own, and knows what must be true afterwards. */
struct client {
    int number;
    int64_t timeout_ms;
    atomic_bool *is_ending; /* end early; NULL: do all the rounds */
    struct thread *thread;
    int done, unavailable, wrong, late, answers_wrong;
    bool is_created[ROUNDS], is_cancelled[ROUNDS];
};

static void note(struct client *c, struct ask *a, bool is_right)
{
    int64_t took = atomic_load(&a->answered_mono_ms) - a->submitted_mono_ms;

    c->done++;
    c->unavailable += a->op.err == ERR_UNAVAILABLE;
    c->wrong += a->op.err != ERR_UNAVAILABLE && !is_right;
    c->late += c->timeout_ms > 0 && took > wait_scaled_ms(c->timeout_ms + SLACK_MS);
    c->answers_wrong += atomic_load(&a->answers) != 1;
}

static void run_client(void *ctx)
{
    struct client *c = ctx;
    struct random dice = random_seeded((uint64_t)c->number + 1);
    char id[48];

    for (int i = 0; i < ROUNDS && (i == 0 || !c->is_ending || !atomic_load(c->is_ending)); i++) {
        struct ask a;
        (void)snprintf(id, sizeof(id), "c%d-%d", c->number, i);
        ask_create(&a, id, 3600000, id);
        enum err err = ask_now(&a, store, c->timeout_ms);
        note(c, &a, err == ERR_OK && strcmp(a.op.task->id, id) == 0);
        c->is_created[i] = err == ERR_OK;
        ask_end(&a);
        ask_get(&a, id);
        err = ask_now(&a, store, c->timeout_ms);
        note(c, &a,
             err == ERR_OK ? strcmp(a.op.task->id, id) == 0 && strstr(a.op.task->url, id)
                           : err == ERR_TASK_NOT_FOUND && !c->is_created[i]);
        ask_end(&a);
        if (random_below(&dice, 2)) {
            ask_cancel(&a, id);
            err = ask_now(&a, store, c->timeout_ms);
            note(c, &a, err == ERR_OK || (err == ERR_TASK_NOT_FOUND && !c->is_created[i]));
            c->is_cancelled[i] = err == ERR_OK;
            ask_end(&a);
        }
    }
}

static struct client *start_clients(int64_t timeout_ms, atomic_bool *is_ending)
{
    struct client *clients = xcalloc(CLIENTS, sizeof(*clients));

    for (int i = 0; i < CLIENTS; i++) {
        clients[i].number = i;
        clients[i].timeout_ms = timeout_ms;
        clients[i].is_ending = is_ending;
        cr_assert_eq(thread_start("client", run_client, &clients[i], &clients[i].thread), ERR_OK);
    }
    return clients;
}

/* What was answered with success is there, and what was cancelled stays so. Returns how many were refused. */
static int end_clients(struct client **clients)
{
    int unavailable = 0;
    char id[48];

    for (int c = 0; c < CLIENTS; c++) {
        struct client *client = &(*clients)[c];
        thread_join(&client->thread);
        cr_expect_gt(client->done, 0);
        cr_expect_eq(client->wrong, 0, "%d wrong answers", client->wrong);
        cr_expect_eq(client->late, 0, "%d late answers", client->late);
        cr_expect_eq(client->answers_wrong, 0);
        unavailable += client->unavailable;
        for (int i = 0; i < ROUNDS; i++) {
            (void)snprintf(id, sizeof(id), "c%d-%d", c, i);
            int state = client->is_created[i] || client->is_cancelled[i] ? lua_state(lua, id) : -1;
            cr_expect(!client->is_created[i] || state >= 0, "%s was lost", id);
            cr_expect(!client->is_cancelled[i] || state == TASK_CANCELLED, "%s is %d", id, state);
        }
    }
    free(*clients);
    *clients = NULL;
    return unavailable;
}

Test(store_faults, many_threads_each_get_their_own_answers)
{
    start(false);
    struct client *clients = start_clients(TIMEOUT_MS, NULL);
    cr_expect_eq(end_clients(&clients), 0);
}

/* ------------------------------------------------------------------- forgetting */

Test(store_faults, forgotten_scripts_are_loaded_again_under_load)
{
    atomic_bool is_ending = false;

    start(false);
    struct client *clients = start_clients(TIMEOUT_MS, &is_ending);
    for (int i = 0; i < 100; i++)
        redis_fixture_run(redis, "SCRIPT FLUSH");
    atomic_store(&is_ending, true);
    cr_expect_eq(end_clients(&clients), 0);
}

Test(store_faults, an_emptied_redis_takes_new_tasks)
{
    start(false);
    cr_assert_eq(create("a", TIMEOUT_MS), ERR_OK);
    redis_fixture_run(redis, "FLUSHALL");
    ask_get(&ask, "a");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_TASK_NOT_FOUND);
    ask_end(&ask);
    ask_kind(&ask, STORE_STATS);
    cr_assert_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK, "the group is made again");
    cr_expect_eq(ask.op.stats->created, 0);
    ask_end(&ask);
    cr_expect_eq(create("a", TIMEOUT_MS), ERR_OK);
    lua_check(lua);
}

Test(store_faults, a_delivery_of_an_emptied_redis_is_stale)
{
    start(false);
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    struct task *t = lua_task(lua, "a");
    redis_fixture_run(redis, "FLUSHALL");
    ask_settle(&ask, t, &e, STORE_SETTLE_DELIVERED, 0);
    cr_expect_eq(ask_now(&ask, store, 0), ERR_OK);
    cr_expect(ask.op.is_stale);
    ask_end(&ask);
    cr_expect_eq(lua_state(lua, "a"), -1);
}

/* ----------------------------------------------------------- connections and ends */

Test(store_faults, killed_connections_are_made_again_under_load)
{
    atomic_bool is_ending = false;

    start(false);
    struct client *clients = start_clients(TIMEOUT_MS, &is_ending);
    for (int i = 0; i < 8; i++) {
        redis_fixture_run(redis, "CLIENT KILL TYPE normal SKIPME yes");
        WAIT_UNTIL(store_is_up(store), RECOVER_MS);
        cr_expect_eq(create("between", TIMEOUT_MS), ERR_OK);
    }
    atomic_store(&is_ending, true);
    cr_expect_eq(end_clients(&clients), 0, "a lost connection is repaired within the deadline");
    lua_check(lua);
}

Test(store_faults, a_redis_killed_under_load_loses_nothing_that_was_answered)
{
    atomic_bool is_ending = false;

    start(true);
    struct client *clients = start_clients(DEADLINE_MS, &is_ending);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(create("before", TIMEOUT_MS), ERR_OK);
        redis_fixture_kill(redis);
        WAIT_UNTIL(!store_is_up(store), RECOVER_MS);
        redis_fixture_start(redis);
        expect_recovery("after");
    }
    atomic_store(&is_ending, true);
    end_clients(&clients);
    lua_check(lua);
}

Test(store_faults, an_outcome_survives_a_restart_of_redis_and_counts_once)
{
    start(true);
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    struct task *t = lua_task(lua, "a");
    redis_fixture_kill(redis);
    ask_settle(&ask, t, &e, STORE_SETTLE_DELIVERED, 0);
    ask_submit(&ask, store, 0);
    expect_refusals();
    cr_expect_eq(atomic_load(&ask.answers), 0, "it has no deadline");
    redis_fixture_start(redis);
    ask_wait(&ask);
    cr_expect_eq(ask.op.err, ERR_OK);
    cr_expect_not(ask.op.is_stale);
    ask_end(&ask);
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERED);
    cr_expect_eq(lua_counter(lua, "totals", "attempts"), 1);
    lua_check(lua);
}

/* What was sent before the stop is done after it, and so is its repeat. */
Test(store_faults, a_redis_that_stands_still_is_answered_for_in_time)
{
    start(false);
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    struct task *t = lua_task(lua, "a");
    struct ask settle;
    redis_fixture_pause(redis);
    ask_settle(&settle, t, &e, STORE_SETTLE_RETRY, 3600000);
    ask_submit(&settle, store, 0);
    expect_refusals();
    WAIT_UNTIL(!store_is_up(store), RECOVER_MS);
    expect_refusals();
    redis_fixture_resume(redis);
    ask_wait(&settle);
    cr_expect_eq(settle.op.err, ERR_OK);
    ask_end(&settle);
    expect_recovery("b");
    cr_expect_eq(lua_state(lua, "a"), TASK_SCHEDULED);
    cr_expect_eq(lua_counter(lua, "totals", "attempts"), 1);
    lua_check(lua);
}

Test(store_faults, a_task_created_twice_for_a_lost_answer_is_there_once)
{
    start(false);
    redis_fixture_pause(redis);
    ask_create(&ask, "a", 3600000, NULL);
    ask_submit(&ask, store, TIMEOUT_MS);
    WAIT_UNTIL(!store_is_up(store), RECOVER_MS);
    redis_fixture_resume(redis);
    ask_wait(&ask);
    cr_expect_eq(ask.op.err, ERR_OK, "%s: its own first try is no conflict", err_code(ask.op.err));
    cr_expect_null(ask.op.existing);
    cr_expect_gt(ask.op.task->run_at_ms, ask.op.task->created_at_ms);
    ask_end(&ask);
    cr_expect_eq(lua_counter(lua, "totals", "created"), 1);
    lua_check(lua);
}

Test(store_faults, a_redis_that_comes_later_is_waited_for)
{
    redis = redis_fixture_create_stopped(false);
    opts = store_redis_opts(redis);
    cr_assert_eq(store_create(&(struct store_opts){.redis = opts}, &store), ERR_OK);
    expect_refusals();
    cr_expect_not(store_is_up(store));
    ask_create(&ask, "a", 1000, NULL);
    ask_submit(&ask, store, 0);
    redis_fixture_start(redis);
    ask_wait(&ask);
    cr_expect_eq(ask.op.err, ERR_OK);
    ask_end(&ask);
    cr_expect(store_is_up(store));
}

/* A closing store answers all: what waits, and what is under way. */
Test(store_faults, the_end_of_the_store_answers_everything)
{
    enum { WAITING = 50 };
    struct ask asks[WAITING];
    char id[24];

    start(false);
    redis_fixture_pause(redis);
    for (int i = 0; i < WAITING; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        ask_create(&asks[i], id, 1000, NULL);
        ask_submit(&asks[i], store, i % 2 ? 0 : TIMEOUT_MS);
    }
    store_destroy(&store);
    for (int i = 0; i < WAITING; i++) {
        cr_expect_eq(asks[i].op.err, ERR_UNAVAILABLE);
        ask_end(&asks[i]);
    }
    redis_fixture_resume(redis);
}

/* --------------------------------------------------------------------- refusing */

Test(store_faults, a_replica_is_refused_until_it_is_a_master_again)
{
    start(false);
    cr_assert_eq(create("a", TIMEOUT_MS), ERR_OK);
    redis_fixture_run(redis, "REPLICAOF 127.0.0.1 1");
    cr_expect_eq(create("b", DEADLINE_MS), ERR_UNAVAILABLE);
    WAIT_UNTIL(!store_is_up(store), RECOVER_MS);
    expect_refusals();
    redis_fixture_run(redis, "REPLICAOF NO ONE");
    expect_recovery("c");
}

Test(store_faults, without_memory_no_task_is_taken_and_every_outcome_is_written)
{
    start(false);
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    redis_fixture_run(redis, "CONFIG SET maxmemory 1");
    ask_create(&ask, "b", 1000, NULL);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_UNAVAILABLE);
    expect_in_time(&ask, 0); /* at once, not at its deadline */
    ask_end(&ask);
    ask_kind(&ask, STORE_PROBE);
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_UNAVAILABLE, "not ready");
    ask_end(&ask);
    ask_get(&ask, "a");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    ask_settle(&ask, lua_task(lua, "a"), &e, STORE_SETTLE_DELIVERED, 0);
    cr_expect_eq(ask_now(&ask, store, 0), ERR_OK);
    cr_expect_not(ask.op.is_stale);
    ask_end(&ask);
    redis_fixture_run(redis, "CONFIG SET maxmemory 0");
    expect_recovery("b");
    cr_expect_eq(lua_state(lua, "a"), TASK_DELIVERED);
    lua_check(lua);
}

Test(store_faults, without_memory_a_task_can_be_cancelled)
{
    start(false);
    cr_assert_eq(create("a", TIMEOUT_MS), ERR_OK);
    redis_fixture_run(redis, "CONFIG SET maxmemory 1");
    ask_cancel(&ask, "a");
    cr_expect_eq(ask_now(&ask, store, TIMEOUT_MS), ERR_OK);
    ask_end(&ask);
    redis_fixture_run(redis, "CONFIG SET maxmemory 0");
    cr_expect_eq(lua_state(lua, "a"), TASK_CANCELLED);
    lua_check(lua);
}

/* A create rests on its queue's settings. */
Test(store_faults, what_redis_refuses_to_tell_is_not_asked_for_as_fast_as_it_refuses)
{
    start(false);
    redis_fixture_run(redis, "ACL SETUSER default -hmget");
    long long before = redis_fixture_info(redis, "total_error_replies");
    cr_expect_eq(create("a", 1000), ERR_UNAVAILABLE);
    long long refused = redis_fixture_info(redis, "total_error_replies") - before;
    cr_expect(refused >= 1 && refused <= 10, "%lld", refused);
    redis_fixture_run(redis, "ACL SETUSER default +hmget");
    expect_recovery("a");
}

Test(store_faults, another_layout_of_the_keyspace_is_refused)
{
    redis = redis_fixture_create(false);
    redis_fixture_run(redis, "SET duepost{0}:meta layout-of-another-version");
    opts = store_redis_opts(redis);
    cr_assert_eq(store_create(&(struct store_opts){.redis = opts}, &store), ERR_OK);
    expect_refusals();
    cr_expect_not(store_is_up(store));
    redis_fixture_run(redis, "DEL duepost{0}:meta");
    store_wait_up(store);
}
