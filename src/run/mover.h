#ifndef RUN_MOVER_H
#define RUN_MOVER_H

#include "base/err.h"
#include "store/redis_opts.h"

#include <stdbool.h>
#include <stdint.h>

/* The thread that moves due tasks to the workers: it sleeps until the next due time, is woken by an earlier one, and
 * keeps no more in the Stream than the workers can take soon. Between moves it takes back what dead workers held and
 * removes finished tasks whose retention has passed. */

struct mover;

struct mover_opts {
    const struct redis_opts *redis; /* keeps */
    /* Attempts the workers of this process can begin now; attempts that have ended since the start. Any thread. */
    int64_t (*free_slots)(void *ctx);
    int64_t (*ended_count)(void *ctx);
    void *ctx;
};

struct mover_stats {
    int64_t last_run_ms_ago; /* since Redis was last asked what is due; -1: never yet */
    int64_t next_due_in_ms;  /* until the next task is due, as far as this process knows; -1: none is scheduled */
    int64_t moved;           /* tasks, since the start */
};

/* Created first, so that others can wake it; its thread begins when those it asks exist. */
struct mover *mover_create(const struct mover_opts *opts);
enum err mover_begin(struct mover *m) NODISCARD;
void mover_stop(struct mover *m);     /* end the thread; NULL-safe */
void mover_destroy(struct mover **m); /* when nobody can wake it any more */

/* Something is due at this time (Unix ms): wakes the mover when that is earlier than what it waits for. Any thread,
 * cheap. */
void mover_wake(struct mover *m, int64_t due_at_ms);

/* Slots have become free. Any thread, cheap. */
void mover_room(struct mover *m);

bool mover_is_up(const struct mover *m);
void mover_read_stats(const struct mover *m, struct mover_stats *out);

#endif
