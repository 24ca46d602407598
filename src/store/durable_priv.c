#include "store/durable_priv.h"

#include "store/reply_priv.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MS 1000
#define ANSWER_MS 1000 /* beyond WAIT_MS, for a reply to arrive */

void durable_init(struct durable *d, struct conn *conn)
{
    memset(d, 0, sizeof *d);
    d->conn = conn;
    call_init(&d->call);
}

void durable_deinit(struct durable *d)
{
    call_deinit(&d->call);
}

static bool send(struct durable *d, const char *const *words, conn_reply_fn *fn)
{
    call_begin(&d->call);
    for (; *words; words++)
        call_add_str(&d->call, *words);
    call_add_int(&d->call, WAIT_MS);
    call_seal(&d->call);
    return conn_send(d->conn, &d->call, WAIT_MS + ANSWER_MS, fn, d);
}

/* ------------------------------------------------------------- this Redis */

/* Name, value, name, value. A user that may not read the configuration is told "not durable", which is safe. */
static void on_config(void *ctx, const redisReply *reply)
{
    struct durable *d = ctx;
    bool has_file = false, is_always = false;

    d->is_known = reply != NULL;
    if (!reply || reply->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];
        if (!reply_is_string(name) || !reply_is_string(value))
            continue;
        has_file = has_file || (strcmp(name->str, "appendonly") == 0 && strcmp(value->str, "yes") == 0);
        is_always = is_always || (strcmp(name->str, "appendfsync") == 0 && strcmp(value->str, "always") == 0);
    }
    d->syncs_always = has_file && is_always;
}

/* WAITAOF came with 7.2. */
static bool has_wait_aof(const char *version)
{
    char *end = NULL;
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    return major > 7 || (major == 7 && minor >= 2);
}

void durable_up(struct durable *d)
{
    static const char *const WORDS[] = {"CONFIG", "GET", "append*"};

    d->is_known = d->syncs_always = false;
    d->can_wait_aof = has_wait_aof(conn_redis_version(d->conn));
    call_begin(&d->call);
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        call_add_str(&d->call, WORDS[i]);
    call_seal(&d->call);
    if (!conn_send(d->conn, &d->call, ANSWER_MS, on_config, d))
        conn_drop(d->conn, "its settings cannot be asked for");
}

/* ------------------------------------------------------------------ groups */

static void answer(const struct durable *d, struct store_op *op)
{
    bool is_replica = op->durability == TASK_DURABILITY_REPLICA;

    op->is_durable = op->err == ERR_OK && (is_replica ? d->is_copied : d->is_synced);
    op->done(op);
}

static void arrived(struct durable *d)
{
    if (--d->awaited > 0)
        return;
    while (d->held.first)
        answer(d, op_list_take(&d->held));
}

/* The number of replicas that have it. An error (a Redis that cannot) means none, like no answer. */
static void on_waited(void *ctx, const redisReply *reply)
{
    struct durable *d = ctx;

    d->is_copied = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
    arrived(d);
}

/* [synced here, synced by so many replicas] */
static void on_waited_aof(void *ctx, const redisReply *reply)
{
    struct durable *d = ctx;
    int64_t here = 0;

    d->is_synced = reply && reply_is_array(reply, 2) && reply_int(reply->element[0], &here) && here > 0;
    arrived(d);
}

void durable_note(struct durable *d, const struct store_op *op)
{
    d->wants_fsync = d->wants_fsync || op->durability == TASK_DURABILITY_FSYNC;
    d->wants_replica = d->wants_replica || op->durability == TASK_DURABILITY_REPLICA;
}

void durable_await(struct durable *d)
{
    static const char *const WAIT[] = {"WAIT", "1", NULL};
    static const char *const WAIT_AOF[] = {"WAITAOF", "1", "0", NULL};
    bool must_wait_aof = d->wants_fsync && !d->syncs_always && d->can_wait_aof;

    d->is_copied = false;
    d->is_synced = d->syncs_always;
    if (must_wait_aof && send(d, WAIT_AOF, on_waited_aof))
        d->awaited++;
    if (d->wants_replica && send(d, WAIT, on_waited))
        d->awaited++;
    d->wants_fsync = d->wants_replica = false;
}

void durable_finish(struct durable *d, struct store_op *op)
{
    if (d->awaited == 0 || op->err != ERR_OK) {
        answer(d, op);
        return;
    }
    op_list_append(&d->held, op);
}
