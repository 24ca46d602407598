#ifndef SUPPORT_STORE_FIXTURE_H
#define SUPPORT_STORE_FIXTURE_H

#include "lua_fixture.h"
#include "redis_fixture.h"
#include "store/store.h"
#include <stdatomic.h>

/* A store on a Redis of the test, and operations that can be waited for. */

/* The settings of a gateway named "g" on this Redis, prefix "duepost". redis_opts_deinit(). */
struct redis_opts store_redis_opts(const struct redis_fixture *redis);

/* One operation with its answer. Fill it with one of ask_*(), submit, wait, look at `op`, ask_end(). */
struct ask {
    struct store_op op; /* first member */
    char id[TASK_ID_MAX + 1];
    int64_t submitted_mono_ms;
    atomic_llong answered_mono_ms;
    atomic_int answers; /* must become 1 and stay so */
};

/* A task with the id, due `delay_ms` from now, whose URL holds the id. `request` is hashed as its digest; NULL: it has
 * none. */
void ask_create(struct ask *a, const char *id, int64_t delay_ms, const char *request);
void ask_get(struct ask *a, const char *id);
void ask_cancel(struct ask *a, const char *id);
/* `t` is the task as it was claimed; takes it. */
void ask_settle(struct ask *a, struct task *t, const struct lua_entry *e, enum store_settle how, int64_t delay_ms);
void ask_kind(struct ask *a, enum store_kind kind); /* STATS, PROBE */

void ask_submit(struct ask *a, struct store *s, int64_t timeout_ms); /* 0: no deadline */
void ask_wait(struct ask *a);                                        /* fails the test when no answer comes in 30 s */

/* Submit, wait, and give the error. */
enum err ask_now(struct ask *a, struct store *s, int64_t timeout_ms);

/* Free what was given; fails the test unless there was exactly one answer. */
void ask_end(struct ask *a);

/* Wait until the store is up. */
void store_wait_up(const struct store *s);

#endif
