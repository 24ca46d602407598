#ifndef SUPPORT_LUA_FIXTURE_H
#define SUPPORT_LUA_FIXTURE_H

#include "redis_fixture.h"
#include "store/script_priv.h"
#include "store/store.h"

/* The scripts of lua/ on a real Redis, called with the arguments that src/store gives them. Whatever Redis refuses
 * fails the test, except in lua_try(). */

struct lua_fixture;

/* Redis is started, the scripts are loaded, the partition is set up. */
struct lua_fixture *lua_fixture_create(void);

/* On a Redis of the caller, where a store with the prefix "duepost" has set up the partition or will. */
struct lua_fixture *lua_fixture_attach(struct redis_fixture *redis);
void lua_fixture_destroy(struct lua_fixture **f); /* NULL-safe */

struct redis_fixture *lua_redis(struct lua_fixture *f); /* borrowed */
const struct keys *lua_keys(const struct lua_fixture *f);
int64_t lua_now_ms(struct lua_fixture *f); /* Redis TIME */

/* Build a call by hand: lua_begin() has the fixed keys; then come record keys, call_begin_args() and arguments. */
struct call *lua_begin(struct lua_fixture *f, enum script s);
redisReply *lua_send(struct lua_fixture *f);
redisReply *lua_try(struct lua_fixture *f); /* the same, and gives error replies too */

/* A due time is "+ms" from now or Unix ms. */
struct lua_new {
    const char *id, *due, *queue;
};
redisReply *lua_create(struct lua_fixture *f, const struct lua_new *tasks, size_t count);
redisReply *lua_create_limited(struct lua_fixture *f, int64_t max_pending, const struct lua_new *tasks, size_t count);
int64_t lua_add(struct lua_fixture *f, const char *id, const char *due, const char *queue); /* a new id: its due time */
/* The same with an expiry. */
void lua_add_expiring(struct lua_fixture *f, const char *id, const char *due, const char *queue, int64_t expires_in_ms);

/* Read or change a queue, as lua/queue.lua says; `settings` is for put alone, else NULL. Free what was found, or let
 * lua_queue_do() do that. */
struct lua_queue {
    int answer; /* 0: not there, 1: not empty, 2: done, 3: made */
    struct store_queue_stats found;
};
struct lua_queue lua_queue(struct lua_fixture *f, const char *action, const char *queue, const char *settings);
int lua_queue_do(struct lua_fixture *f, const char *action, const char *queue, const char *settings);

struct lua_moved {
    int64_t moved, next_us, now_us, unread, later_us;
};
struct lua_moved lua_move(struct lua_fixture *f, int64_t room, int64_t max);
struct lua_moved lua_move_behind(struct lua_fixture *f, int64_t room, int64_t behind_room, int64_t max);

struct lua_entry {
    char id[TASK_ID_MAX + 1];
    struct store_lease lease;
};
/* Read the group as `consumer`; returns how many of `max` came. */
size_t lua_read(struct lua_fixture *f, const char *consumer, struct lua_entry *out, size_t max);
size_t lua_claim(struct lua_fixture *f, const struct lua_entry *entries, size_t count); /* how many are ours */
/* The same as a call whose answer was lost the first time. */
size_t lua_claim_again(struct lua_fixture *f, const struct lua_entry *entries, size_t count);

/* Create a task that is due, move, read and claim it. Nothing else may be due or unread. */
struct lua_entry lua_start(struct lua_fixture *f, const char *id, const char *queue, const char *consumer);

/* `how` is d, r, x or b; the attempt had status 500 and the error "broken", or none when delivered.
 * The state reached, -1 when stale. */
int lua_settle(struct lua_fixture *f, const struct lua_entry *e, char how, int64_t delay_ms);

/* As the gateway patches: to another body, and to another time. `due` NULL: as it is; `body` NULL: as it is. The record
 * that was read is `read`, the one that is there now when NULL. `was_sent`: the answer was lost the first time. */
struct lua_patch {
    const char *id, *due, *body;
    const struct task *read;
    bool was_sent;
    int64_t expires_in_ms; /* 0: as it is */
};
/* The state found, -1 when there is none. *out (may be NULL): the task as it was answered, NULL when nothing was done;
 * task_destroy(). */
int lua_patch(struct lua_fixture *f, const struct lua_patch *p, struct task **out);
int lua_run(struct lua_fixture *f, const char *id, bool was_sent, struct task **out);
int lua_redrive(struct lua_fixture *f, const char *id, bool was_sent, struct task **out);

int lua_cancel(struct lua_fixture *f, const char *id); /* the state found, -1 when there is none */
int64_t lua_renew(struct lua_fixture *f, const char *consumer, const struct lua_entry *entries, size_t count);

/* As `gateway`, up to 100 entries from the start; how many were taken back. */
int64_t lua_recover(struct lua_fixture *f, const char *gateway, int64_t claim_idle_ms);

/* Let an entry look as if its consumer had been silent for so long. */
void lua_make_idle(struct lua_fixture *f, const struct lua_entry *e, const char *consumer, int64_t idle_ms);

/* One retention for all; how many were removed. */
int64_t lua_sweep(struct lua_fixture *f, int64_t retention_ms, int64_t max_finished, int64_t limit);

/* All steps of orphans.lua; `is_last_word`: all records were just looked at. */
struct lua_orphans {
    int64_t repaired, pending, records, delivering, overdue;
};
struct lua_orphans lua_orphans(struct lua_fixture *f, int64_t claim_idle_ms, bool is_last_word);

/* One step of mend.lua from `at` ("": the start), the next one's start, to be freed; all steps: tasks repaired. */
char *lua_mend_step(struct lua_fixture *f, const char *at, int64_t limit, int64_t *repaired);
int64_t lua_mend(struct lua_fixture *f, int64_t limit);

/* The task as it stands; NULL when there is none. task_destroy(). */
struct task *lua_task(struct lua_fixture *f, const char *id);
int lua_state(struct lua_fixture *f, const char *id); /* -1 when there is none */

struct store_stats *lua_stats(struct lua_fixture *f); /* store_stats_destroy() */

/* A field of one of the hashes totals, out, busy, queues; 0 when it is not there. */
int64_t lua_counter(struct lua_fixture *f, const char *hash, const char *field);

/* The rules that hold after every call, checked from the containers themselves: a task is in exactly one container,
 * that of its state; counters of queues and the index of lanes agree; every key has the partition's hash tag. */
void lua_check(struct lua_fixture *f);

/* A test that ends with lua_check(lua), on a variable of that name: an assertion in a suite's .fini fails nothing. */
#define LUA_TEST(suite, name)         \
    static void suite##_##name(void); \
    Test(suite, name)                 \
    {                                 \
        suite##_##name();             \
        lua_check(lua);               \
    }                                 \
    static void suite##_##name(void)

#endif
