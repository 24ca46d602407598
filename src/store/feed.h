#ifndef STORE_FEED_H
#define STORE_FEED_H

#include "base/endpoint.h"
#include "base/err.h"
#include "base/loop.h"
#include "store/redis_opts.h"
#include "store/store.h"
#include "task/task.h"

/* The stream of tasks to deliver, for one delivery thread: a blocking read of the consumer group on a connection of
 * its own, whose socket is one more descriptor in the thread's loop, and the claim that turns entries into tasks.
 * Threads: the loop's. */

struct feed;

struct feed_opts {
    const struct redis_opts *redis; /* keeps */
    struct loop *loop;              /* keeps */
    const char *consumer;           /* keeps; unique in the group */
    int capacity;                   /* of the owner, in tasks */
    /* How many tasks the owner can take now. */
    int (*free_slots)(void *ctx);
    /* A claimed task. Takes the task. `claimed_at_us` is Redis time at the claim, `claimed_mono_us` ours. */
    void (*on_task)(void *ctx, struct task *t, const struct store_lease *lease, int64_t claimed_at_us,
                    int64_t claimed_mono_us);
    /* Whether this entry is in the owner's hands already (asked after a lost connection, for entries of its own). */
    bool (*has_entry)(void *ctx, const char *entry_id);
    void *ctx;
};

enum err feed_create(const struct feed_opts *opts, struct feed **out) NODISCARD;
void feed_destroy(struct feed **f);

/* To be called once a turn of the loop: reads when there are free slots, reconnects, watches deadlines. Returns the
 * time in ms until it wants to be called again at the latest. */
int64_t feed_tick(struct feed *f);

/* End reading: the blocked read is ended by CLIENT UNBLOCK; what it still brings comes through on_task, and is to be
 * released by the owner. */
void feed_stop(struct feed *f);
bool feed_is_stopped(const struct feed *f); /* nothing will come any more */
bool feed_is_up(const struct feed *f);      /* connected, and the group is there to read */

/* The address of the Redis it is connected to; false for a unix socket, or without a connection. */
bool feed_peer(const struct feed *f, struct endpoint *out);

#endif
