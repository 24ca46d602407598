#ifndef STORE_CONN_PRIV_H
#define STORE_CONN_PRIV_H

#include "base/endpoint.h"
#include "base/loop.h"
#include "store/keys_priv.h"
#include "store/redis_opts.h"
#include "store/script_priv.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

/* One connection to Redis in a thread's loop, over hiredis' asynchronous API: connects, authenticates, refuses a
 * replica, loads the scripts and makes the partition ready, then is `up`; reconnects with backoff whenever it is lost.
 * Threads: the loop's. */

struct conn;

/* An answer. `reply` is borrowed, and NULL when the connection was lost first: then the command was done, or was not.
 */
typedef void conn_reply_fn(void *ctx, const redisReply *reply);

struct conn_opts {
    const struct redis_opts *redis; /* keeps */
    const struct keys *keys;        /* keeps */
    struct loop *loop;              /* keeps */
    const char *name;               /* keeps; for logs and CLIENT SETNAME */
    const char *channel;            /* keeps; NULL, or a channel to subscribe to instead of loading scripts */
    bool is_plain;                  /* for plain commands only: loads no scripts */
    bool warns;                     /* logs which settings of the server can lose tasks */
    void (*on_up)(void *ctx);       /* may be NULL */
    void (*on_down)(void *ctx);     /* may be NULL; after all replies were answered with NULL */
    void (*on_message)(void *ctx, const char *text); /* with `channel` only */
    void *ctx;
};

struct conn *conn_create(const struct conn_opts *opts);
void conn_destroy(struct conn **c); /* outstanding commands are answered with NULL */

/* Once a turn of the loop, after commands were queued: writes them, reconnects, drops a connection that has been silent
 * past its deadline. Returns the time in ms until it wants to be called again. */
int64_t conn_tick(struct conn *c);

bool conn_is_up(const struct conn *c);
/* What it is connected to; false for a unix socket, or without a connection. */
bool conn_peer(const struct conn *c, struct endpoint *out);
const char *conn_redis_version(const struct conn *c); /* "" before the first connect */

/* Queue a sealed call; `fn` is called once. False, and `fn` is not called, when the connection is not up. The answer
 * must come within `timeout_ms` after all that was asked before, and a second more for each 8 MB of the call, or the
 * connection is dropped. */
bool conn_send(struct conn *c, const struct call *call, int64_t timeout_ms, conn_reply_fn *fn, void *ctx) NODISCARD;

const char *conn_sha(const struct conn *c, enum script s);

/* Repair by the kind of an error reply, and say what its command should do. */
enum conn_verdict {
    CONN_FINE = 0, /* no error */
    CONN_REPEAT,   /* repaired (scripts loaded again, group made again, or reconnecting): send it again */
    CONN_WAIT,     /* Redis cannot do it now (loading, out of memory, ...): answer 503, or try again later */
    CONN_FAILED,   /* anything else, logged */
};
enum conn_verdict conn_judge(struct conn *c, const redisReply *reply);

/* Close and reconnect. */
void conn_drop(struct conn *c, const char *why);

#endif
