#ifndef STORE_CONN_INNER_PRIV_H
#define STORE_CONN_INNER_PRIV_H

#include "base/log.h"
#include "base/resolver.h"
#include "store/conn_priv.h"
#include "store/guard_priv.h"

#include <hiredis/async.h>

/* What conn_priv.c (one connection's life) and conn_prepare_priv.c (making it ready for use) share. Nobody else
 * includes this. */

#define CONNECT_TIMEOUT_MS 1000
#define PROBE_INTERVAL_MS 10000 /* a subscription that died silently is found by this */
#define BACKOFF_MIN_MS 50

enum conn_state {
    CONN_WAITING = 0,
    CONN_RESOLVING, /* the name of Redis is looked up */
    CONN_CONNECTING,
    CONN_PREPARING,
    CONN_UP,
};

struct conn {
    struct conn_opts opts;
    enum conn_state state;
    struct resolver *resolver; /* NULL for a unix socket */
    redisAsyncContext *ac;     /* NULL while waiting and resolving */
    struct guard guard;        /* of its answers */
    unsigned wanted;           /* LOOP_READ | LOOP_WRITE, as hiredis asks */
    unsigned applied;          /* as the loop knows */
    int outstanding;           /* commands without a reply */
    int preparing;             /* of those, commands that prepare the connection */
    int loaded;                /* scripts whose SHA has arrived */
    int64_t deadline_mono_ms;
    int64_t next_try_mono_ms;
    int64_t next_probe_mono_ms;
    int64_t backoff_ms;
    bool is_closing; /* conn_destroy: no reconnect */
    char sha[SCRIPT_COUNT][SCRIPT_SHA_CHARS + 1];
    char version[32];
    struct log_limit log_limit;
};

/* Send whatever the state; else as conn_send. */
bool conn_command(struct conn *c, const struct call *call, int64_t timeout_ms, conn_reply_fn *fn, void *ctx) NODISCARD;

/* Send what makes a new connection ready; it is up when all of it was answered well. */
void conn_prepare(struct conn *c);

/* Repairs of a connection that is up. */
void conn_reload_scripts(struct conn *c);
void conn_set_up(struct conn *c); /* the partition: setup.lua */

/* Subscribe, or ask whether the subscription lives: the same command again changes nothing and is answered. */
void conn_subscribe(struct conn *c);

#endif
