#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/err.h"
#include "base/queue.h"
#include "store/redis_opts.h"
#include "task/task.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The public port of everything kept in Redis.
 *
 * A thread inside (and a second one for creates that wait for a disk or a replica) commits in groups: whatever
 * operations wait go out together as one pipeline with one script call for up to STORE_CALL_MAX of a kind, and the
 * answers are handed back to their owners. No caller ever waits for Redis.
 *
 * A Redis failure has three values: done, not done, unknown (sent, no answer). Every script is idempotent, so unknown
 * is repeated until op->deadline_mono_ms; then the owner gets ERR_UNAVAILABLE and a late answer is dropped. */

#define STORE_CALL_MAX 200 /* items of one script call: about a millisecond of Redis */

enum store_kind {
    STORE_CREATE = 0,
    STORE_GET,
    STORE_CANCEL,
    STORE_SETTLE,
    STORE_RENEW, /* deliveries under way are alive */
    STORE_STATS,
    STORE_PROBE, /* runs a script that writes: can tasks be accepted now? */
    STORE_KIND_COUNT
};

#define STORE_ENTRY_SIZE 44 /* "ms-sequence", two 64-bit numbers */

/* How an attempt ended (STORE_SETTLE). */
enum store_settle {
    STORE_SETTLE_DELIVERED = 0,
    STORE_SETTLE_RETRY,
    STORE_SETTLE_DEAD,
    STORE_SETTLE_RELEASE, /* given back without an attempt: back to its lane, nothing counted */
};

/* Where a task that was handed out for delivery sits in the Stream: proof that it is still ours. */
struct store_lease {
    char entry_id[STORE_ENTRY_SIZE];
    unsigned generation;
};

struct store_queue_stats {
    char *name;
    int64_t scheduled, overdue, ready, delivering, dead;
    int64_t oldest_overdue_ms, oldest_delivering_ms; /* -1: none */
};

/* The Redis part of GET /stats. */
struct store_stats {
    int64_t now_ms;
    struct store_queue_stats all;     /* name is NULL */
    struct store_queue_stats *queues; /* by name; at most 1000 */
    size_t queue_count;
    int64_t created, duplicates, attempts, delivered, failed_attempts, retried, dead, cancelled, expired, recovered,
        orphans, trimmed;
    int64_t next_due_in_ms; /* -1: nothing scheduled */
    char redis_version[32];
    int64_t used_memory_bytes;
    int64_t rtt_us; /* of this call */
};
void store_stats_destroy(struct store_stats **s);

/* An Idempotency-Key and the request it came with, as digests. */
#define STORE_KEY_BYTES 16
struct store_key {
    unsigned char name[STORE_KEY_BYTES];
    unsigned char request[TASK_DIGEST_BYTES];
};

/* One operation. The owner fills the first part, submits, and does not touch it until `done` was called. */
struct store_op {
    struct queue_node node; /* first member: links the op in queues, the owner's too once it is done */
    enum store_kind kind;
    int64_t deadline_mono_ms; /* 0: repeat until it is done */
    /* Called once, in one of the store's threads or from store_destroy. Must only hand the op back to its owner
     * (queue_push). */
    void (*done)(struct store_op *op);
    void *owner;

    const char *id;              /* GET, CANCEL: borrowed until done */
    struct task *task;           /* CREATE, SETTLE: in, borrowed until done; the state fields are filled when created.
                                  * GET: out, given. CANCEL: out, given, when it answers with the task (else NULL) */
    const struct store_key *key; /* CREATE: borrowed until done; NULL: none */

    enum task_durability durability; /* CREATE */

    /* SETTLE */
    struct store_lease lease;
    enum store_settle settle;
    int64_t retry_delay_ms;      /* RETRY, RELEASE: from now */
    struct task_attempt attempt; /* not for RELEASE; `error` is borrowed until done */

    /* RENEW: borrowed until done. */
    const char *consumer;
    const struct store_lease *leases;
    size_t lease_count; /* at most STORE_CALL_MAX */

    /* Out. */
    enum err err;              /* see each kind below */
    bool is_durable;           /* CREATE: what `durability` asks for was reached */
    struct task *existing;     /* CREATE, when the id or the key exists: gives the task as it is now */
    char *gone_id;             /* CREATE, when the key exists and its task's record is gone: gives its id */
    bool is_repeat;            /* CREATE: `existing` or `gone_id` was made by the same request (else an error);
                                * CANCEL: it was cancelled already */
    enum task_state state;     /* CANCEL: the state found or reached; SETTLE: the state reached */
    bool is_stale;             /* SETTLE: the task was no longer ours; nothing was changed */
    struct store_stats *stats; /* STATS: gives */

    /* The store's own. Zero when submitted. */
    bool was_sent; /* its outcome may be unknown */
    bool is_alone; /* failed among others: goes in a call of its own */
};
/* Errors by kind, besides ERR_UNAVAILABLE:
 *   CREATE  ERR_ID_CONFLICT (see `existing`), ERR_KEY_CONFLICT (see `existing` and `gone_id`), ERR_TOO_MANY_PENDING
 *   GET     ERR_TASK_NOT_FOUND
 *   CANCEL  ERR_TASK_NOT_FOUND; ERR_STATE_CONFLICT (`state`: delivered, dead, expired). ERR_OK with state `cancelled`:
 *           it will never be sent; ERR_OK with state `delivering`: marked, the attempt may finish (`task` is given)
 *   SETTLE  ERR_OK also when stale */

struct store_opts {
    struct redis_opts redis; /* keeps the strings */
    /* Called in the store's thread after tasks were scheduled; the earliest of their due times, Unix ms. */
    void (*on_scheduled)(void *ctx, int64_t due_at_ms);
    void *on_scheduled_ctx;
};

struct store;

/* Starts the thread; returns at once, Redis may still be away. */
enum err store_create(const struct store_opts *opts, struct store **out) NODISCARD;

/* Ends the thread: what waits is answered with ERR_UNAVAILABLE. */
void store_destroy(struct store **s);

/* Hand over an operation, or a chain of them linked by node.next. Any thread, never blocks. */
void store_submit(struct store *s, struct store_op *op);
void store_submit_chain(struct store *s, struct store_op *first, struct store_op *last);

/* Whether the connection is up and set up. Any thread. */
bool store_is_up(const struct store *s);

#endif
