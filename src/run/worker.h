#ifndef RUN_WORKER_H
#define RUN_WORKER_H

#include "base/endpoint.h"
#include "base/err.h"
#include "base/metrics.h"
#include "base/netaddr.h"
#include "run/destinations.h"
#include "store/store.h"
#include "task/signature.h"

#include <stdbool.h>
#include <stdint.h>

/* One delivery thread: takes claimed tasks from the feed, has them sent, decides what each attempt means and settles
 * it. Hundreds of attempts are in flight at once; none is ever in two threads. */

struct worker;

struct worker_opts {
    int index;                               /* of this thread, from 0 */
    int capacity;                            /* attempts in flight at most */
    struct store *store;                     /* keeps */
    const struct redis_opts *redis;          /* keeps */
    const struct cidr_list *allow_net;       /* keeps */
    const struct endpoint *listener;         /* borrows, copied; of this gateway's API, never dialled */
    const struct signature_secrets *secrets; /* keeps */
    const char *ca_file;                     /* keeps; NULL: the system's */
    const char *version;                     /* keeps */
    struct metrics_window *lateness;         /* keeps; shared */
    struct metrics_window *durations;        /* keeps; shared; of attempts */
    struct destinations *destinations;       /* keeps; shared */
    /* Attempts have ended, so there is room for more; called in the worker's thread. */
    void (*on_room)(void *ctx);
    void *ctx;
};

enum err worker_start(const struct worker_opts *opts, struct worker **out) NODISCARD;

/* Any thread: take nothing new, finish what is in flight. */
void worker_drain(struct worker *w);

/* Any thread: give back at once what has no outcome yet. Implies worker_drain. */
void worker_abort(struct worker *w);

/* Any thread: drained, and every outcome is written. */
bool worker_is_done(const struct worker *w);

/* End the thread. What it still holds stays with the worker: destroy the store next, then the worker, since operations
 * under way come back to it. Outcomes that were not written are lost, and such a task is delivered again. */
void worker_stop(struct worker *w);

/* Free a stopped worker, after store_destroy. Sets *w NULL; NULL-safe. */
void worker_destroy(struct worker **w);

/* Any thread. */
bool worker_is_up(const struct worker *w); /* connected to Redis */
int worker_in_flight(const struct worker *w);
int worker_capacity(const struct worker *w);
int64_t worker_ended_count(const struct worker *w); /* attempts that ended, and tasks sent back, since the start */

#endif
