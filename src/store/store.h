#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/err.h"
#include "base/queue.h"
#include "store/redis_opts.h"
#include "task/queue_settings.h"
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
    STORE_PROBE,         /* runs a script that writes: can tasks be accepted now? */
    STORE_LIST,          /* which tasks are in a state, a step at a time */
    STORE_GLANCE,        /* tasks without their bodies */
    STORE_PATCH,         /* change a pending task, unless it has changed meanwhile */
    STORE_RUN,           /* a pending task is due now */
    STORE_REDRIVE,       /* a task that ended without success is due now */
    STORE_QUEUE,         /* read or change one queue */
    STORE_PURGE,         /* drop what is scheduled and ready in a queue, a step at a time */
    STORE_REDRIVE_QUEUE, /* the dead tasks of a queue are due now, a step at a time */
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
    struct queue_settings settings;
};
void store_queue_stats_destroy(struct store_queue_stats **q);

/* STORE_QUEUE */
enum store_queue_action {
    STORE_QUEUE_READ = 0,
    STORE_QUEUE_PUT, /* makes the queue when it is not there */
    STORE_QUEUE_PAUSE,
    STORE_QUEUE_RESUME,
    STORE_QUEUE_DELETE,
};
struct store_queue {
    enum store_queue_action action;
    const char *name;                      /* borrowed until done */
    const struct queue_settings *settings; /* PUT: borrowed until done */
    /* Out. */
    struct store_queue_stats *found; /* gives: the queue as it is now; NULL after an error or DELETE */
    bool is_new;                     /* PUT has made it */
};

/* One step of STORE_PURGE or STORE_REDRIVE_QUEUE. Begins with zeros; the same one is handed in again and again until it
 * is done. */
#define STORE_SWEEP_CURSOR_SIZE (TASK_ID_MAX + 48)
struct store_sweep {
    const char *queue; /* borrowed until done */
    int64_t limit;     /* REDRIVE_QUEUE: tasks in all */
    /* In and out. */
    int64_t began_ms; /* younger tasks stay as they are; Unix ms by Redis */
    char cursor[STORE_SWEEP_CURSOR_SIZE];
    int64_t count; /* tasks in all steps so far */
    bool is_done;
};

/* Where a task stands among those of its state. Scheduled and finished tasks are ordered by time (due, or when they
 * ended; Unix ms) and then by id; those in the Stream by their entry alone, then `id` is "" unless it says which task
 * it is. Both "": before all others. */
struct store_place {
    char score[STORE_ENTRY_SIZE];
    char id[TASK_ID_MAX + 1];
};

/* One step of a list. Over the scheduled tasks of all queues it takes several, whose findings are to be merged:
 * until `queue_cursor` is "0" again. */
#define STORE_LIST_MAX 500
struct store_list {
    enum task_state state;
    const char *queue; /* borrowed until done; NULL: all */
    size_t limit;      /* at most STORE_LIST_MAX */
    struct store_place after;
    char queue_cursor[24]; /* in and out; "0": from the first */
    /* Out. */
    struct store_place *found; /* gives; free() */
    size_t found_count;
    struct store_place last; /* the last one looked at, to go on behind; `after` when none was */
    bool has_more;           /* behind `last`, as far as this step went */
};

#define STORE_GLANCE_MAX 50 /* each may have long headers */
struct store_glance {
    const struct store_place *places; /* borrowed until done */
    size_t count;
    struct task *tasks[STORE_GLANCE_MAX]; /* out, gives; NULL: gone */
};

/* The Redis part of GET /stats. */
struct store_stats {
    int64_t now_ms;
    struct store_queue_stats all;     /* name is NULL */
    struct store_queue_stats *queues; /* by name; at most 1000 */
    size_t queue_count;
    int64_t created, duplicates, attempts, delivered, failed_attempts, retried, dead, cancelled, expired, redriven,
        recovered, orphans, trimmed, purged, callbacks;
    int64_t next_due_in_ms; /* -1: nothing scheduled */
    char redis_version[32];
    int64_t used_memory_bytes;
    int64_t rtt_us; /* of this call */
};
void store_stats_destroy(struct store_stats **s);

/* The totals of /stats by name, in their order: as Redis keeps them and as clients see them. */
#define STORE_TOTALS 15
const char *store_total_name(size_t i);
int64_t store_total(const struct store_stats *s, size_t i);

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

    const char *id;              /* GET, CANCEL, PATCH, RUN, REDRIVE: borrowed until done */
    struct task *task;           /* CREATE, SETTLE, PATCH: in, borrowed until done; the state fields are filled when
                                  * created. GET, RUN, REDRIVE: out, given. CANCEL: out, given, when it answers with
                                  * the task (else NULL) */
    const struct store_key *key; /* CREATE: borrowed until done; NULL: none */

    enum task_durability durability; /* CREATE */

    /* SETTLE */
    struct store_lease lease;
    enum store_settle settle;
    int64_t retry_delay_ms;      /* RETRY, RELEASE: from now */
    struct task_attempt attempt; /* not for RELEASE; `error` is borrowed until done */

    /* GET with wants_spec: out, given, the specification of the task as Redis has it; free(). PATCH: in, borrowed until
     * done; with another specification the task has changed since it was read. */
    char *spec;
    size_t spec_bytes;
    bool wants_spec;
    bool changes_due; /* PATCH: to the due time of `task` as asked for */

    struct store_list *list;     /* LIST: borrowed until done */
    struct store_glance *glance; /* GLANCE: borrowed until done */
    struct store_queue *queue;   /* QUEUE: borrowed until done */
    struct store_sweep *sweep;   /* PURGE, REDRIVE_QUEUE: borrowed until done */

    /* RENEW: borrowed until done. */
    const char *consumer;
    const struct store_lease *leases;
    size_t lease_count; /* at most STORE_CALL_MAX */

    /* Out. */
    enum err err;          /* see each kind below */
    bool is_durable;       /* CREATE: what `durability` asks for was reached */
    struct task *existing; /* CREATE, when the id or the key exists; PATCH: gives the task as it is now */
    char *gone_id;         /* CREATE, when the key exists and its task's record is gone: gives its id */
    bool is_repeat;        /* CREATE: `existing` or `gone_id` was made by the same request (else an error);
                            * CANCEL: it was cancelled already */
    enum task_state state; /* CANCEL: the state found or reached; SETTLE: the state reached; PATCH, RUN, REDRIVE: the
                            * state found */
    bool is_stale;         /* SETTLE: the task was no longer ours; PATCH: it has changed; nothing was changed now */
    struct store_stats *stats; /* STATS: gives */

    /* The store's own. Zero when submitted. */
    bool was_sent;     /* its outcome may be unknown */
    bool was_repeated; /* sent more than once: an earlier time may have taken effect */
    bool is_alone;     /* failed among others: goes in a call of its own */
    int64_t hold_ms;   /* failed alone: is not tried again before this time has passed, */
    int64_t hold_until_mono_ms;
};
/* Errors by kind, besides ERR_UNAVAILABLE:
 *   CREATE  ERR_ID_CONFLICT (see `existing`), ERR_KEY_CONFLICT (see `existing` and `gone_id`), ERR_TOO_MANY_PENDING
 *   GET     ERR_TASK_NOT_FOUND
 *   CANCEL  ERR_TASK_NOT_FOUND; ERR_STATE_CONFLICT (`state`: delivered, dead, expired). ERR_OK with state `cancelled`:
 *           it will never be sent; ERR_OK with state `delivering`: marked, the attempt may finish (`task` is given)
 *   PATCH, RUN, REDRIVE  ERR_TASK_NOT_FOUND; ERR_STATE_CONFLICT (`state`, and `is_stale`)
 *   QUEUE   ERR_QUEUE_NOT_FOUND, ERR_QUEUE_NOT_EMPTY (DELETE)
 *   PURGE, REDRIVE_QUEUE  ERR_QUEUE_NOT_FOUND
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
