#ifndef STORE_LANES_H
#define STORE_LANES_H

#include "base/err.h"
#include "base/loop.h"
#include "store/redis_opts.h"

#include <stdbool.h>
#include <stdint.h>

/* The mover's port: moves what is due from the lanes to the Stream, hears of tasks scheduled by other gateways, takes
 * back what dead workers held, ends what has expired, creates callbacks, removes finished tasks whose retention has
 * passed and repairs what has lost its place.
 * On connections of its own, so that a busy store delays nothing that is due. One call at a time. Threads: the loop's.
 */

struct lanes;

/* What a move brought. */
struct lanes_moved {
    int64_t moved;
    int64_t next_us;    /* until the next task is due; -1: none is scheduled; 0: more is due now */
    int64_t later_us;   /* until the next lane is due that is not due yet; -1: none */
    int64_t now_us;     /* Redis TIME */
    int64_t unread;     /* entries of the Stream that wait for a worker */
    bool has_expired;   /* tasks have: call lanes_expire */
    bool has_callbacks; /* tasks have ended that somebody wants to hear of: call lanes_announce */
};

struct lanes_opts {
    const struct redis_opts *redis; /* keeps */
    struct loop *loop;              /* keeps */
    /* Each call below answers here; `ok` false: Redis is away or refused, ask again later. */
    void (*on_moved)(void *ctx, bool ok, const struct lanes_moved *moved);
    void (*on_peeked)(void *ctx, bool ok, int64_t due_at_ms); /* -1: nothing is scheduled */
    /* `count` -1: nothing was looked at, since the clock of Redis is ahead of what was believed. */
    void (*on_recovered)(void *ctx, bool ok, int64_t count, bool is_more);
    void (*on_swept)(void *ctx, bool ok, int64_t removed, int64_t next_ms); /* -1: nothing is kept */
    void (*on_expired)(void *ctx, bool ok, int64_t count, int64_t next_us); /* -1: none will; 0: more have */
    void (*on_announced)(void *ctx, bool ok, int64_t count, bool is_more);
    void (*on_patrolled)(void *ctx, bool ok, int64_t repaired, int64_t next_ms);
    /* Another gateway (or this one) scheduled something earlier than all before. */
    void (*on_wake)(void *ctx, int64_t due_at_ms);
    void (*on_up)(void *ctx); /* the connection was made, or made again */
    void *ctx;
};

enum err lanes_create(const struct lanes_opts *opts, struct lanes **out) NODISCARD;
void lanes_destroy(struct lanes **l);

/* Once a turn of the loop, after calls were made; returns the time in ms until it wants to be called again. */
int64_t lanes_tick(struct lanes *l);
bool lanes_is_up(const struct lanes *l);
bool lanes_is_busy(const struct lanes *l); /* a call is under way: make no other */

/* Move up to `max` tasks while fewer than `room` entries wait unread; those of lanes that are behind only while fewer
 * than `behind_room` do. */
void lanes_move(struct lanes *l, int64_t room, int64_t behind_room, int64_t max);

/* Look when the next task is due: one plain command, for the idle tick. */
void lanes_peek(struct lanes *l);

/* Take back what dead workers held; writes this gateway's heartbeat, and only that with `heartbeat_only`.
 * `believed_now_ms`: the Unix time that Redis should have now, 0 when it is not known. */
void lanes_recover(struct lanes *l, bool heartbeat_only, int64_t believed_now_ms);

/* Remove finished tasks that are over their retention or over max-finished. */
void lanes_sweep(struct lanes *l);

/* End tasks that have expired. Says when the next one does. */
void lanes_expire(struct lanes *l);

/* Create the callbacks of tasks that have ended, once each. */
void lanes_announce(struct lanes *l);

/* Look for tasks that have lost their place, one step further, and put them back. Says when the next step is due. */
void lanes_patrol(struct lanes *l);

#endif
