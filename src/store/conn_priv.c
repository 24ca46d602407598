#include "store/conn_priv.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hiredis keeps the order of commands and replies and tells of a lost connection by answering everything with NULL; this
 * file adds what turns that into a connection that can be relied on:
 *
 *   waiting --connect--> connecting --connected--> preparing --all prepared--> up
 *      ^                     |                         |                        |
 *      +---------------------+---- error, silence -----+------------------------+
 *
 * The preparing commands are sent as one pipeline. Only a connection that is up takes commands, so a half-prepared one
 * is never used, and AUTH and SELECT are repeated on every connect. Events wanted by hiredis are gathered in a mask and
 * given to the loop once a turn, which saves two system calls a command. */

#define CONNECT_TIMEOUT_MS 1000
#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 1000
#define LOG_INTERVAL_MS 10000
#define PROBE_INTERVAL_MS 10000 /* a subscription that died silently is found by this */

enum conn_state {
    CONN_WAITING = 0,
    CONN_CONNECTING,
    CONN_PREPARING,
    CONN_UP,
};

struct conn {
    struct conn_opts opts;
    enum conn_state state;
    redisAsyncContext *ac; /* NULL while waiting */
    unsigned wanted;       /* LOOP_READ | LOOP_WRITE, as hiredis asks */
    unsigned applied;      /* as the loop knows */
    int outstanding;       /* commands without a reply */
    int preparing;         /* of those, commands that prepare the connection */
    int loaded;            /* scripts whose SHA has arrived */
    int64_t deadline_mono_ms;
    int64_t next_try_mono_ms;
    int64_t next_probe_mono_ms;
    int64_t backoff_ms;
    bool is_closing; /* conn_destroy: no reconnect */
    char sha[SCRIPT_COUNT][SCRIPT_SHA_CHARS + 1];
    char version[32];
    struct log_limit log_limit;
};

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

static bool send_command(struct conn *c, const struct call *call, int64_t timeout_ms, conn_reply_fn *fn, void *ctx)
{
    struct pending *p = xcalloc(1, sizeof *p);
    int64_t deadline = clock_mono_ms() + timeout_ms;

    p->conn = c;
    p->fn = fn;
    p->ctx = ctx;
    if (redisAsyncCommandArgv(c->ac, on_reply, p, call->count, call->argv, call->lens) != REDIS_OK) {
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
    return c->state == CONN_UP && send_command(c, call, timeout_ms, fn, ctx);
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

static void report(struct conn *c, const char *event, const char *why)
{
    long held = 0;

    if (!c->is_closing && log_limit_pass(&c->log_limit, LOG_INTERVAL_MS, &held))
        LOG_WARN(event, "conn=%s why=%s repeats=%ld", c->opts.name, log_quote(why), held);
}

static void on_disconnect(const redisAsyncContext *ac, int status)
{
    struct conn *c = ac->data;
    bool was_up = c->state == CONN_UP;

    if (status != REDIS_OK)
        report(c, "redis.lost", ac->errstr);
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

/* ------------------------------------------------------------- preparing */

static void prepared_one(struct conn *c)
{
    c->preparing--;
    if (c->preparing > 0 || c->state != CONN_PREPARING)
        return;
    c->state = CONN_UP;
    c->backoff_ms = BACKOFF_MIN_MS;
    c->next_probe_mono_ms = clock_mono_ms() + PROBE_INTERVAL_MS;
    LOG_INFO("redis.up", "conn=%s version=%s", c->opts.name, c->version);
    if (c->opts.on_up)
        c->opts.on_up(c->opts.ctx);
}

static bool is_error(struct conn *c, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        conn_drop(c, reply->str);
    return !reply || reply->type == REDIS_REPLY_ERROR;
}

static void on_prepared(void *ctx, const redisReply *reply)
{
    struct conn *c = ctx;

    if (!is_error(c, reply))
        prepared_one(c);
}

/* CLIENT SETNAME and ROLE may be forbidden to our user; that alone is no reason to fail. */
static void on_optional(void *ctx, const redisReply *reply)
{
    struct conn *c = ctx;

    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->type == REDIS_REPLY_STRING &&
        strcmp(reply->element[0]->str, "master") != 0)
        conn_drop(c, "this server is not a master (ROLE)");
    else
        prepared_one(c);
}

static bool is_old(const char *version)
{
    char *end = NULL;
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    return major < 6 || (major == 6 && minor < 2);
}

static void on_info(void *ctx, const redisReply *reply)
{
    struct conn *c = ctx;
    const char *at = NULL;

    if (is_error(c, reply))
        return;
    if (reply->type == REDIS_REPLY_STRING)
        at = strstr(reply->str, "redis_version:");
    if (at) {
        at += strlen("redis_version:");
        snprintf(c->version, sizeof c->version, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
    if (is_old(c->version))
        conn_drop(c, "Redis 6.2 or newer is needed");
    else
        prepared_one(c);
}

static void on_loaded(void *ctx, const redisReply *reply)
{
    struct conn *c = ctx;

    if (is_error(c, reply))
        return;
    if (reply->type != REDIS_REPLY_STRING || reply->len != SCRIPT_SHA_CHARS) {
        conn_drop(c, "an odd answer to SCRIPT LOAD");
        return;
    }
    memcpy(c->sha[c->loaded % SCRIPT_COUNT], reply->str, SCRIPT_SHA_CHARS);
    c->loaded++;
    prepared_one(c);
}

static void layout_text(char *out, size_t size)
{
    snprintf(out, size, "format=1 partitions=1");
}

static void on_setup(void *ctx, const redisReply *reply)
{
    struct conn *c = ctx;
    char layout[64];

    if (is_error(c, reply))
        return;
    layout_text(layout, sizeof layout);
    if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, layout) == 0) {
        prepared_one(c);
        return;
    }
    LOG_ERROR("redis.layout", "conn=%s wanted=%s found=%s", c->opts.name, log_quote(layout),
              log_quote(reply->type == REDIS_REPLY_STRING ? reply->str : "?"));
    conn_drop(c, "the keyspace was made by another version or number of partitions");
}

static void prepare(struct conn *c, const struct call *call, conn_reply_fn *fn)
{
    if (send_command(c, call, CONNECT_TIMEOUT_MS, fn, c))
        c->preparing++;
}

static void prepare_words(struct conn *c, struct call *call, conn_reply_fn *fn, const char *const *words)
{
    call_begin(call);
    for (; *words; words++)
        call_add_str(call, *words);
    call_seal(call);
    prepare(c, call, fn);
}

static void prepare_login(struct conn *c, struct call *call)
{
    const struct redis_opts *r = c->opts.redis;
    char db[16];

    if (r->password && r->username)
        prepare_words(c, call, on_prepared, (const char *const[]){"AUTH", r->username, r->password, NULL});
    else if (r->password)
        prepare_words(c, call, on_prepared, (const char *const[]){"AUTH", r->password, NULL});
    snprintf(db, sizeof db, "%d", r->db);
    if (r->db != 0)
        prepare_words(c, call, on_prepared, (const char *const[]){"SELECT", db, NULL});
    prepare_words(c, call, on_optional, (const char *const[]){"CLIENT", "SETNAME", c->opts.name, NULL});
    prepare_words(c, call, on_info, (const char *const[]){"INFO", "server", NULL});
    prepare_words(c, call, on_optional, (const char *const[]){"ROLE", NULL});
}

static void prepare_scripts(struct conn *c, struct call *call)
{
    c->loaded = 0;
    for (int s = 0; s < SCRIPT_COUNT; s++) {
        size_t bytes;
        const char *text = script_text((enum script)s, &bytes);
        call_begin(call);
        call_add_str(call, "SCRIPT");
        call_add_str(call, "LOAD");
        call_add(call, text, bytes);
        call_seal(call);
        prepare(c, call, on_loaded);
    }
}

static void prepare_partition(struct conn *c, struct call *call)
{
    size_t bytes;
    const char *text = script_text(SCRIPT_SETUP, &bytes);
    char layout[64];

    layout_text(layout, sizeof layout);
    call_begin(call);
    call_add_str(call, "EVAL");
    call_add(call, text, bytes);
    call_add_int(call, KEYS_FIXED + 1);
    for (size_t i = 0; i < KEYS_FIXED; i++)
        call_add(call, c->opts.keys->fixed[i], c->opts.keys->fixed_bytes[i]);
    call_add_str(call, c->opts.keys->meta);
    call_add_str(call, c->opts.keys->base);
    call_add_str(call, layout);
    call_seal(call);
    prepare(c, call, on_setup);
}

/* Messages have three elements: "message", the channel, the text. The first answer is "subscribe". */
static void on_subscription(redisAsyncContext *ac, void *data, void *ctx)
{
    const redisReply *reply = data;
    struct conn *c = ctx;

    (void)ac;
    if (!reply)
        return;
    c->deadline_mono_ms = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    if (strcmp(reply->element[0]->str, "message") == 0 && reply->element[2]->type == REDIS_REPLY_STRING)
        c->opts.on_message(c->opts.ctx, reply->element[2]->str);
    else if (c->state == CONN_PREPARING)
        prepared_one(c);
}

/* Subscribing again to the same channel changes nothing and is answered: the probe of a quiet subscription. */
static void subscribe(struct conn *c)
{
    if (redisAsyncCommand(c->ac, on_subscription, c, "SUBSCRIBE %s", c->opts.channel) == REDIS_OK)
        c->deadline_mono_ms = clock_mono_ms() + CONNECT_TIMEOUT_MS;
    c->next_probe_mono_ms = clock_mono_ms() + PROBE_INTERVAL_MS;
}

static void start_preparing(struct conn *c)
{
    struct call call;

    c->state = CONN_PREPARING;
    call_init(&call);
    prepare_login(c, &call);
    if (c->opts.channel) {
        subscribe(c);
        c->preparing++;
    } else if (!c->opts.is_plain) {
        prepare_scripts(c, &call);
        prepare_partition(c, &call);
    }
    call_deinit(&call);
}

static void on_connect(const redisAsyncContext *ac, int status)
{
    struct conn *c = ac->data;

    if (status == REDIS_OK) {
        start_preparing(c);
        return;
    }
    report(c, "redis.unreachable", ac->errstr);
    /* hiredis frees the context after this. */
    loop_remove(c->opts.loop, ac->c.fd);
    c->ac = NULL;
    c->wanted = c->applied = 0;
    wait_before_next(c);
}

static void start_connecting(struct conn *c)
{
    const struct redis_opts *r = c->opts.redis;
    redisAsyncContext *ac =
        r->socket_path ? redisAsyncConnectUnix(r->socket_path) : redisAsyncConnect(r->host, r->port);

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
    loop_set(c->opts.loop, ac->c.fd, 0, on_event, c);
    redisAsyncSetConnectCallback(ac, on_connect);
    redisAsyncSetDisconnectCallback(ac, on_disconnect);
    c->wanted |= LOOP_WRITE;
    sync_events(c);
}

/* ---------------------------------------------------------------- errors */

static bool begins(const char *s, const char *word)
{
    return strncmp(s, word, strlen(word)) == 0;
}

static void reload_scripts(struct conn *c)
{
    struct call call;

    call_init(&call);
    prepare_scripts(c, &call);
    call_deinit(&call);
}

static void remake_group(struct conn *c)
{
    struct call call;

    call_init(&call);
    prepare_partition(c, &call);
    call_deinit(&call);
}

enum conn_verdict conn_judge(struct conn *c, const redisReply *reply)
{
    static const char *const WAIT[] = {"LOADING",    "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
                                       "NOREPLICAS", "MISCONF",    "BUSY ",       "OOM"};
    const char *text = reply->str;

    if (reply->type != REDIS_REPLY_ERROR)
        return CONN_FINE;
    if (begins(text, "NOSCRIPT")) {
        if (c->preparing == 0)
            reload_scripts(c);
        return CONN_REPEAT;
    }
    /* Inside a script the code stands behind the text that Redis puts around it. */
    if (strstr(text, "NOGROUP") || begins(text, "UNBLOCKED")) {
        if (c->preparing == 0)
            remake_group(c);
        return CONN_REPEAT;
    }
    report(c, "redis.error", text);
    if (strstr(text, "READONLY")) {
        conn_drop(c, "READONLY: this server is a replica now");
        return CONN_WAIT;
    }
    for (size_t i = 0; i < sizeof WAIT / sizeof *WAIT; i++)
        if (strstr(text, WAIT[i]))
            return CONN_WAIT;
    return CONN_FAILED;
}

/* ------------------------------------------------------------------- life */

struct conn *conn_create(const struct conn_opts *opts)
{
    struct conn *c = xcalloc(1, sizeof *c);

    c->opts = *opts;
    c->backoff_ms = BACKOFF_MIN_MS;
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
    free(*c);
    *c = NULL;
}

int64_t conn_tick(struct conn *c)
{
    int64_t now = clock_mono_ms();

    if (c->deadline_mono_ms != 0 && now >= c->deadline_mono_ms)
        conn_drop(c, "no answer in time");
    if (c->state == CONN_WAITING && now >= c->next_try_mono_ms)
        start_connecting(c);
    if (c->state == CONN_UP && c->opts.channel && now >= c->next_probe_mono_ms)
        subscribe(c);
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

const char *conn_redis_version(const struct conn *c)
{
    return c->version;
}

const char *conn_sha(const struct conn *c, enum script s)
{
    return c->sha[s];
}
