#ifndef SUPPORT_MODEL_H
#define SUPPORT_MODEL_H

#include "lua_fixture.h"
#include "random.h"

/* A model of the tasks of one partition, a few dozen lines: what test_model.c does to Redis it does to this too, and
 * compares. */

#define TASKS 20
#define LEASES 600
#define CONSUMERS 3
#define LIFE_MS 3600000

enum phase {
    PHASE_UNREAD = 0, /* in the Stream, no consumer has it */
    PHASE_HELD,       /* in a consumer's list, claimed or not */
    PHASE_OLD,        /* acknowledged; whoever comes with it is late */
    PHASE_FORGOTTEN,
};

struct model_task {
    char id[24];
    int queue;
    int state; /* -1: no record */
    bool is_due, is_run_at_due;
    bool has_cancel;
    bool has_when;    /* its record knows when it is due next, or ended */
    bool has_history; /* of attempts, from before a redrive too */
    unsigned generation;
    int attempts, takeovers;
};

struct model_lease {
    struct lua_entry entry; /* its entry id is known once it was read */
    struct model_task *task;
    int consumer;
    enum phase phase;
};

struct model_totals {
    int created, duplicates, attempts, delivered, failed_attempts, retried, dead, cancelled, recovered, trimmed,
        orphans, redriven, purged;
};

extern struct model {
    struct lua_fixture *lua;
    struct random dice;
    struct model_task tasks[TASKS];
    struct model_lease leases[LEASES];
    size_t lease_count;
    struct model_totals totals;
} model;

extern const char *const model_queues[3];

size_t model_below(size_t n);
struct model_task *model_any_task(void);

/* Whether a lease is of the task as it is now. */
bool model_is_current(const struct model_lease *l);
bool model_is_finished(const struct model_task *t);
int model_count_phase(enum phase phase);

void model_finish(struct model_task *t, enum task_state state);

/* A ready task is taken out of the Stream. */
void model_leave_stream(const struct model_task *t);

/* The rules of lua_check(), and that Redis is what the model says. */
void model_check(void);

#endif
