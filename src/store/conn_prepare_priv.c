#include "store/conn_inner_priv.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that makes a new connection ready goes out as one pipeline right after connecting: login, the database, is it a
 * master, the scripts, the partition's group; for a subscription the channel instead of the last two. `preparing`
 * counts what is not answered yet. The first answer that is wrong drops the connection. */

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

/* The value of a line of INFO; empty when there is none. */
static void read_info(const redisReply *reply, const char *name, char *out, size_t size)
{
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;

    out[0] = '\0';
    if (at)
        (void)snprintf(out, size, "%.*s", (int)strcspn(at + strlen(name), "\r\n"), at + strlen(name));
}

/* What the operator should know of a server that keeps tasks. */
static void warn_of_settings(const redisReply *reply)
{
    char policy[32], aof[8], loading[8];

    /* While it reads its files it says that it has none; it is asked again after that. */
    read_info(reply, "\nloading:", loading, sizeof loading);
    if (strcmp(loading, "1") == 0)
        return;
    read_info(reply, "\nmaxmemory_policy:", policy, sizeof policy);
    read_info(reply, "\naof_enabled:", aof, sizeof aof);
    if (policy[0] && strcmp(policy, "noeviction") != 0)
        LOG_WARN("redis.evicts", "maxmemory_policy=%s advice=\"noeviction, or a full Redis drops tasks silently\"",
                 log_quote(policy));
    if (strcmp(aof, "0") == 0)
        LOG_WARN("redis.forgets", "appendonly=no advice=\"appendonly yes, or a restart of Redis loses tasks\"");
}

static void on_info(void *ctx, const redisReply *reply)
{
    struct conn *c = ctx;

    if (is_error(c, reply))
        return;
    read_info(reply, "redis_version:", c->version, sizeof c->version);
    if (c->opts.warns)
        warn_of_settings(reply);
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
    (void)snprintf(out, size, "format=1 partitions=1");
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
    if (conn_command(c, call, CONNECT_TIMEOUT_MS, fn, c))
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
    (void)snprintf(db, sizeof db, "%d", r->db);
    if (r->db != 0)
        prepare_words(c, call, on_prepared, (const char *const[]){"SELECT", db, NULL});
    prepare_words(c, call, on_optional, (const char *const[]){"CLIENT", "SETNAME", c->opts.name, NULL});
    prepare_words(c, call, on_info, (const char *const[]){"INFO", c->opts.warns ? "default" : "server", NULL});
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
void conn_subscribe(struct conn *c)
{
    if (redisAsyncCommand(c->ac, on_subscription, c, "SUBSCRIBE %s", c->opts.channel) == REDIS_OK)
        c->deadline_mono_ms = clock_mono_ms() + CONNECT_TIMEOUT_MS;
    c->next_probe_mono_ms = clock_mono_ms() + PROBE_INTERVAL_MS;
}

void conn_prepare(struct conn *c)
{
    struct call call;

    c->state = CONN_PREPARING;
    call_init(&call);
    prepare_login(c, &call);
    if (c->opts.channel) {
        conn_subscribe(c);
        c->preparing++;
    } else if (!c->opts.is_plain) {
        prepare_scripts(c, &call);
        prepare_partition(c, &call);
    }
    call_deinit(&call);
}

void conn_reload_scripts(struct conn *c)
{
    struct call call;

    call_init(&call);
    prepare_scripts(c, &call);
    call_deinit(&call);
}

void conn_set_up(struct conn *c)
{
    struct call call;

    call_init(&call);
    prepare_partition(c, &call);
    call_deinit(&call);
}
