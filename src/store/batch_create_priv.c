#include "base/mem.h"
#include "store/batch_kind_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Creating tasks (lua/create.lua). The answer for a task is its due time, or what was there already: a task with its
 * id, or one that its Idempotency-Key made. A call that was sent twice because its answer was lost meets its own tasks.
 */

static void add_keys(struct call *call, const struct keys *k, struct store_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, k, ops[i]->task->id);
    for (size_t i = 0; i < count; i++)
        if (ops[i]->key)
            call_add_idempotency_key(call, k, ops[i]->key->name, STORE_KEY_BYTES);
}

static void build(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct keys *k = env->keys;
    struct buf *scratch = env->scratch;

    add_keys(call, k, ops, count);
    call_begin_args(call, k);
    call_add_int(call, env->max_pending);
    call_add_str(call, settings_version(env->settings));
    for (size_t i = 0; i < count; i++) {
        struct task *t = ops[i]->task;
        char due[32];
        int n = snprintf(due, sizeof due, "%s%lld", t->is_due_absolute ? "" : "+", (long long)t->due_ms);
        call_add_str(call, t->id);
        call_add(call, due, (size_t)n);
        call_add_str(call, t->queue);
        call_add(call, (const char *)t->digest, t->has_digest ? TASK_DIGEST_BYTES : 0);
        buf_clear(scratch);
        queue_settings_apply(settings_of(env->settings, t->queue), t);
        record_write_spec(scratch, t);
        call_add_buf(call, scratch);
    }
    for (size_t i = 0; i < count; i++) {
        if (!ops[i]->key)
            continue;
        call_add_int(call, (int64_t)i + 1);
        call_add(call, (const char *)ops[i]->key->request, TASK_DIGEST_BYTES);
    }
}

static size_t weight(const struct store_op *op)
{
    return op->task->body_bytes + 256;
}

static void set_created(struct task *t, int64_t due_ms, int64_t now_ms)
{
    t->state = TASK_SCHEDULED;
    t->run_at_ms = due_ms;
    t->created_at_ms = now_ms;
    if (t->is_expiry_relative)
        t->expires_ms += now_ms;
    t->is_expiry_relative = false;
}

/* The id is there already. Sent twice after a lost answer, it is our own first try; else the digest of the request
 * tells. */
static void set_existing(struct store_op *op, const redisReply *record)
{
    struct task *found = NULL;
    const struct task *t = op->task;
    bool is_same;

    op->err = batch_read_beginning(t->id, record, &found);
    if (op->err != ERR_OK)
        return;
    is_same = t->has_digest && found->has_digest && memcmp(t->digest, found->digest, TASK_DIGEST_BYTES) == 0;
    if (op->was_repeated && !t->has_digest && !found->has_digest) {
        set_created(op->task, found->run_at_ms, found->created_at_ms);
        op->err = ERR_OK;
        task_destroy(&found);
        return;
    }
    op->is_repeat = is_same;
    op->err = is_same ? ERR_OK : ERR_ID_CONFLICT;
    op->existing = found;
}

/* The Idempotency-Key was used before. Sent twice after a lost answer, it was our own first try if the id is ours. */
static void set_by_key(struct store_op *op, const redisReply *r)
{
    const redisReply *record = r->element[1];
    char *id = xstrndup(r->element[0]->str, r->element[0]->len);

    op->is_repeat = r->element[2]->integer == 1;
    op->err = op->is_repeat ? ERR_OK : ERR_KEY_CONFLICT;
    if (!reply_is_string(record)) {
        op->gone_id = id;
        return;
    }
    if (batch_read_beginning(id, record, &op->existing) != ERR_OK) {
        op->err = ERR_INTERNAL;
    } else if (op->is_repeat && op->was_repeated && !op->task->has_digest && strcmp(id, op->task->id) == 0) {
        set_created(op->task, op->existing->run_at_ms, op->existing->created_at_ms);
        task_destroy(&op->existing);
        op->is_repeat = false;
    }
    free(id);
}

static bool is_created_outcome(const redisReply *r)
{
    if (r->type != REDIS_REPLY_ARRAY)
        return r->type == REDIS_REPLY_INTEGER || reply_is_string(r);
    return r->elements == 3 && reply_is_string(r->element[0]) && r->element[2]->type == REDIS_REPLY_INTEGER &&
           (reply_is_string(r->element[1]) || r->element[1]->type == REDIS_REPLY_NIL);
}

static void set_create_outcome(struct store_op *op, const redisReply *r, int64_t now_ms)
{
    op->err = ERR_OK;
    if (r->type == REDIS_REPLY_ARRAY)
        set_by_key(op, r);
    else if (r->type == REDIS_REPLY_STRING)
        set_existing(op, r);
    else if (r->integer < 0)
        op->err = ERR_TOO_MANY_PENDING;
    else
        set_created(op->task, r->integer, now_ms);
}

static enum err read_all(struct store_op *const *ops, size_t count, const redisReply *reply, struct batch_due *earliest)
{
    int64_t now_ms;

    if (!reply_is_array(reply, count + 1) || !reply_int(reply->element[0], &now_ms))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!is_created_outcome(reply->element[i + 1]))
            return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *r = reply->element[i + 1];
        if (r->type == REDIS_REPLY_INTEGER && r->integer >= 0)
            batch_note_due(earliest, r->integer);
        if (ops[i])
            set_create_outcome(ops[i], r, now_ms);
    }
    return ERR_OK;
}

const struct batch_kind batch_create = {
    .script = SCRIPT_CREATE, .max = STORE_CALL_MAX, .build = build, .read = read_all, .weight = weight};
