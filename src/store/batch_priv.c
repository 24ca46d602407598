#include "store/batch_priv.h"

#include "base/log.h"
#include "store/batch_kind_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

#define SMALL_BYTES 256 /* an operation without a body */

static const struct batch_kind *const KINDS[STORE_KIND_COUNT] = {
    [STORE_CREATE] = &batch_create, [STORE_GET] = &batch_get,     [STORE_CANCEL] = &batch_cancel,
    [STORE_SETTLE] = &batch_settle, [STORE_RENEW] = &batch_renew, [STORE_STATS] = &batch_stats,
    [STORE_PROBE] = &batch_probe,   [STORE_LIST] = &batch_list,   [STORE_GLANCE] = &batch_glance,
    [STORE_PATCH] = &batch_patch,   [STORE_RUN] = &batch_run,     [STORE_REDRIVE] = &batch_redrive,
    [STORE_QUEUE] = &batch_queue,   [STORE_PURGE] = &batch_purge, [STORE_REDRIVE_QUEUE] = &batch_redrive_queue,
};

bool batch_script(enum store_kind kind, enum script *out)
{
    *out = KINDS[kind]->script;
    return !KINDS[kind]->is_plain;
}

bool batch_rests_on_settings(enum store_kind kind)
{
    return kind == STORE_CREATE || kind == STORE_PATCH;
}

size_t batch_max(enum store_kind kind)
{
    return KINDS[kind]->max;
}

void batch_build(struct call *call, const struct batch_env *env, const char *sha, enum store_kind kind,
                 struct store_op *const *ops, size_t count)
{
    if (KINDS[kind]->is_plain)
        call_begin(call);
    else
        call_begin_script(call, sha, env->keys);
    KINDS[kind]->build(call, env, ops, count);
    call_seal(call);
}

size_t batch_weight(const struct store_op *op)
{
    const struct batch_kind *kind = KINDS[op->kind];

    return kind->weight ? kind->weight(op) : SMALL_BYTES;
}

/* {-1}: the settings of a queue have changed. */
static bool is_refusal(const redisReply *reply)
{
    int64_t n;

    return reply_is_array(reply, 1) && reply_int(reply->element[0], &n) && n == -1;
}

enum err batch_read(enum store_kind kind, struct store_op *const *ops, size_t count, const redisReply *reply,
                    int64_t *earliest_due_ms)
{
    struct batch_due due = {.earliest_ms = -1};
    enum err err;

    *earliest_due_ms = -1;
    if (batch_rests_on_settings(kind) && is_refusal(reply))
        return ERR_STATE_CONFLICT;
    err = KINDS[kind]->read(ops, count, reply, &due);
    *earliest_due_ms = due.earliest_ms;
    return err;
}

void batch_note_due(struct batch_due *earliest, int64_t due_ms)
{
    if (earliest->earliest_ms < 0 || due_ms < earliest->earliest_ms)
        earliest->earliest_ms = due_ms;
}

bool batch_is_state_pair(const redisReply *r, int64_t *state)
{
    return reply_is_array(r, 2) && reply_int(r->element[0], state) && *state >= BATCH_STATE_GONE &&
           *state < TASK_STATE_COUNT;
}

enum err batch_read_number(struct store_op *const *ops, size_t count, const redisReply *reply,
                           struct batch_due *earliest)
{
    (void)count;
    (void)earliest;
    if (reply->type != REDIS_REPLY_INTEGER)
        return ERR_INVALID;
    if (ops[0])
        ops[0]->err = ERR_OK;
    return ERR_OK;
}

void batch_report_bad_record(const char *id)
{
    LOG_ERROR("record.unreadable", "task=%s", id);
}

enum err batch_read_beginning(const char *id, const redisReply *record, struct task **out)
{
    if (record_read_beginning(id, record->str, record->len, out) == ERR_OK)
        return ERR_OK;
    batch_report_bad_record(id);
    return ERR_INTERNAL;
}
