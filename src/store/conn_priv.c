#include "store/conn_priv.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/conn_inner_priv.h"
#include "store/fault_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* hiredis keeps the order of commands and replies and tells of a lost connection by answering everything with NULL;
 * this file adds what turns that into a connection that can be relied on:
 *
 *   waiting --> resolving --address--> connecting --connected--> preparing --all prepared--> up
 *      ^            |                      |                         |                        |
 *      +------------+----------------------+---- error, silence -----+------------------------+
 *
 * The name is looked up before every connect, so a Redis that has moved is found, and in a thread of its own, so a name
 * server that is silent holds up nothing else.
 *
 * The preparing commands are sent as one pipeline. Only a connection that is up takes commands, so a half-prepared one
 * is never used, and AUTH and SELECT are repeated on every connect. Events wanted by hiredis are gathered in a mask and
 * given to the loop once a turn, which saves two system calls a command. */

#define BACKOFF_MAX_MS 1000
#define LOG_INTERVAL_MS 10000
#define CALL_BYTES_PER_MS 8192 /* what a slow way to Redis carries: large calls have more time */

/* One command under way. */
struct pending {
    struct conn *conn;
    conn_reply_fn *fn;
    void *ctx;
};

/* ------------------------------------------------------------------ events */

static void on_event(void *ctx, int fd, unsigned events);

static void sync_events(struct conn *c)
{
    if (c->ac && c->wanted != c->applied) {
        c->applied = c->wanted;
        loop_set(c->opts.loop, c->ac->c.fd, c->applied, on_event, c);
    }
}

static void on_event(void *ctx, int fd, unsigned events)
{
    struct conn *c = ctx;

    (void)fd;
    if (c->ac && (events & LOOP_READ))
        redisAsyncHandleRead(c->ac);
    if (c->ac && (events & LOOP_WRITE))
        redisAsyncHandleWrite(c->ac);
    sync_events(c);
}

static void want_read(void *data)
{
    ((struct conn *)data)->wanted |= LOOP_READ;
}

static void unwant_read(void *data)
{
    ((struct conn *)data)->wanted &= ~(unsigned)LOOP_READ;
}

static void want_write(void *data)
{
    ((struct conn *)data)->wanted |= LOOP_WRITE;
}

static void unwant_write(void *data)
{
    ((struct conn *)data)->wanted &= ~(unsigned)LOOP_WRITE;
}

/* hiredis is about to close the descriptor. */
static void forget_descriptor(void *data)
{
    struct conn *c = data;

    if (c->ac)
        loop_remove(c->opts.loop, c->ac->c.fd);
    c->wanted = c->applied = 0;
}

/* ------------------------------------------------------------- commands */

static void on_reply(redisAsyncContext *ac, void *reply, void *data)
{
    struct pending *p = data;
    struct conn *c = p->conn;

    (void)ac;
    if (c->outstanding > 0)
        c->outstanding--;
    if (c->outstanding == 0)
        c->deadline_mono_ms = 0;
    p->fn(p->ctx, reply);
    free(p);
}

bool conn_command(struct conn *c, const struct call *call, int64_t timeout_ms, conn_reply_fn *fn, void *ctx)
{
    struct pending *p = xcalloc(1, sizeof *p);
    int64_t deadline = clock_mono_ms() + timeout_ms + (int64_t)(call->byte_count / CALL_BYTES_PER_MS);

    p->conn = c;
    p->fn = fn;
    p->ctx = ctx;
    if (redisAsyncFormattedCommand(c->ac, on_reply, p, call->bytes, call->byte_count) != REDIS_OK) {
        free(p);
        return false;
    }
    c->outstanding++;
    if (deadline > c->deadline_mono_ms)
        c->deadline_mono_ms = deadline;
    return true;
}

bool conn_send(struct conn *c, const struct call *call, int64_t timeout_ms, conn_reply_fn *fn, void *ctx)
{
    return c->state == CONN_UP && conn_command(c, call, timeout_ms, fn, ctx);
}

/* Write what was queued. Never from a reply's callback: hiredis would free its context there on a write error. */
static void flush(struct conn *c)
{
    if (c->ac && (c->wanted & LOOP_WRITE))
        redisAsyncHandleWrite(c->ac);
    sync_events(c);
}

/* ------------------------------------------------------------ up and down */

static void wait_before_next(struct conn *c)
{
    c->state = CONN_WAITING;
    c->outstanding = 0;
    c->preparing = 0;
    c->deadline_mono_ms = 0;
    c->next_try_mono_ms = clock_mono_ms() + c->backoff_ms;
    c->backoff_ms = c->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : c->backoff_ms * 2;
}

/* A Redis that reads its data at the start is no reason to worry. */
static void report(struct conn *c, const char *event, const char *why)
{
    long held = 0;

    if (c->is_closing || !log_limit_pass(&c->log_limit, LOG_INTERVAL_MS, &held))
        return;
    if (strncmp(why, "LOADING", strlen("LOADING")) == 0)
        LOG_INFO("redis.loading", "conn=%s repeats=%ld", c->opts.name, held);
    else if (c->opts.redis->host)
        LOG_WARN(event, "conn=%s why=%s host=%s port=%d repeats=%ld", c->opts.name, log_quote(why),
                 log_quote(c->opts.redis->host), c->opts.redis->port, held);
    else
        LOG_WARN(event, "conn=%s why=%s socket=%s repeats=%ld", c->opts.name, log_quote(why),
                 log_quote(c->opts.redis->socket_path), held);
}

static void on_disconnect(const redisAsyncContext *ac, int status)
{
    struct conn *c = ac->data;
    bool was_up = c->state == CONN_UP;

    if (status != REDIS_OK)
        report(c, "redis.lost", c->guard.refusal ? c->guard.refusal : ac->errstr);
    c->ac = NULL;
    wait_before_next(c);
    if (was_up && c->opts.on_down)
        c->opts.on_down(c->opts.ctx);
}

void conn_drop(struct conn *c, const char *why)
{
    redisAsyncContext *ac = c->ac;

    if (!ac)
        return;
    report(c, "redis.dropped", why);
    if (c->state == CONN_CONNECTING) {
        /* hiredis calls on_disconnect only for what was connected. */
        redisAsyncFree(ac);
        c->ac = NULL;
        wait_before_next(c);
    } else {
        redisAsyncFree(ac);
    }
}

static void on_connect(const redisAsyncContext *ac, int status)
{
    struct conn *c = ac->data;

    if (status == REDIS_OK) {
        conn_prepare(c);
        return;
    }
    report(c, "redis.unreachable", ac->errstr);
    /* hiredis frees the context after this. */
    loop_remove(c->opts.loop, ac->c.fd);
    c->ac = NULL;
    c->wanted = c->applied = 0;
    wait_before_next(c);
}

/* `address` is NULL for a unix socket. */
static void start_connecting(struct conn *c, const char *address)
{
    const struct redis_opts *r = c->opts.redis;
    redisAsyncContext *ac = address ? redisAsyncConnect(address, r->port) : redisAsyncConnectUnix(r->socket_path);

    if (!ac || ac->err) {
        report(c, "redis.unreachable", ac ? ac->errstr : "out of memory");
        if (ac)
            redisAsyncFree(ac);
        wait_before_next(c);
        return;
    }
    c->state = CONN_CONNECTING;
    c->ac = ac;
    c->wanted = c->applied = 0;
    c->deadline_mono_ms = clock_mono_ms() + CONNECT_TIMEOUT_MS;
    ac->data = c;
    ac->ev.data = c;
    ac->ev.addRead = want_read;
    ac->ev.delRead = unwant_read;
    ac->ev.addWrite = want_write;
    ac->ev.delWrite = unwant_write;
    ac->ev.cleanup = forget_descriptor;
    guard_install(&c->guard, ac->c.reader, c->opts.channel != NULL, &c->outstanding);
    loop_set(c->opts.loop, ac->c.fd, 0, on_event, c);
    redisAsyncSetConnectCallback(ac, on_connect);
    redisAsyncSetDisconnectCallback(ac, on_disconnect);
    c->wanted |= LOOP_WRITE;
    sync_events(c);
}

static void start(struct conn *c)
{
    if (!c->resolver) {
        start_connecting(c, NULL);
        return;
    }
    resolver_begin(c->resolver);
    c->state = CONN_RESOLVING;
    c->deadline_mono_ms = clock_mono_ms() + CONNECT_TIMEOUT_MS;
}

static void look_for_address(struct conn *c, int64_t now)
{
    char address[RESOLVER_ADDRESS_SIZE];
    char why[RESOLVER_WHY_SIZE];

    switch (resolver_look(c->resolver, address, why)) {
    case RESOLVER_PENDING:
        if (now < c->deadline_mono_ms)
            return;
        report(c, "redis.unreachable", "its name is still being looked up");
        wait_before_next(c);
        break;
    case RESOLVER_FOUND:
        start_connecting(c, address);
        break;
    case RESOLVER_FAILED:
        report(c, "redis.unreachable", why);
        wait_before_next(c);
        break;
    }
}

/* ---------------------------------------------------------------- errors */

enum conn_verdict conn_judge(struct conn *c, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return CONN_FINE;
    switch (fault_of(reply->str)) {
    case FAULT_NO_SCRIPT:
        if (c->preparing == 0)
            conn_reload_scripts(c);
        return CONN_REPEAT;
    case FAULT_NO_GROUP:
        if (c->preparing == 0)
            conn_set_up(c);
        return CONN_REPEAT;
    case FAULT_WRONG_TYPE: /* of a container: that is put right now; of a task: no other suffers */
        report(c, "redis.error", reply->str);
        if (c->preparing == 0)
            conn_set_up(c);
        return CONN_FAILED;
    case FAULT_REPLICA:
        report(c, "redis.error", reply->str);
        conn_drop(c, "READONLY: this server is a replica now");
        return CONN_WAIT;
    case FAULT_NOT_NOW:
        report(c, "redis.error", reply->str);
        return CONN_WAIT;
    case FAULT_OTHER:
        report(c, "redis.error", reply->str);
        return CONN_FAILED;
    }
    return CONN_FAILED;
}

/* ------------------------------------------------------------------- life */

struct conn *conn_create(const struct conn_opts *opts)
{
    struct conn *c = xcalloc(1, sizeof *c);

    c->opts = *opts;
    c->backoff_ms = BACKOFF_MIN_MS;
    if (!opts->redis->socket_path)
        c->resolver = resolver_create(opts->redis->host, opts->loop);
    return c;
}

void conn_destroy(struct conn **c)
{
    if (!*c)
        return;
    (*c)->is_closing = true;
    (*c)->opts.on_down = NULL;
    conn_drop(*c, "closing");
    assert(!(*c)->ac);
    guard_deinit(&(*c)->guard);
    resolver_destroy(&(*c)->resolver);
    free(*c);
    *c = NULL;
}

int64_t conn_tick(struct conn *c)
{
    int64_t now = clock_mono_ms();

    if (c->ac && c->deadline_mono_ms != 0 && now >= c->deadline_mono_ms)
        conn_drop(c, "no answer in time");
    if (c->state == CONN_WAITING && now >= c->next_try_mono_ms)
        start(c);
    if (c->state == CONN_RESOLVING)
        look_for_address(c, now);
    if (c->state == CONN_UP && c->opts.channel && now >= c->next_probe_mono_ms)
        conn_subscribe(c);
    flush(c);
    if (c->state == CONN_WAITING)
        return c->next_try_mono_ms > now ? c->next_try_mono_ms - now : 0;
    if (c->deadline_mono_ms != 0)
        return c->deadline_mono_ms > now ? c->deadline_mono_ms - now : 0;
    return c->opts.channel ? c->next_probe_mono_ms - now : 60000;
}

bool conn_is_up(const struct conn *c)
{
    return c->state == CONN_UP;
}

bool conn_peer(const struct conn *c, struct endpoint *out)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);

    if (!c->ac || getpeername(c->ac->c.fd, (struct sockaddr *)&peer, &size) == -1)
        return false;
    return endpoint_from_sockaddr((const struct sockaddr *)&peer, "the Redis of this gateway", out);
}

const char *conn_redis_version(const struct conn *c)
{
    return c->version;
}

const char *conn_sha(const struct conn *c, enum script s)
{
    return c->sha[s];
}
