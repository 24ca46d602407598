#include "base/mem.h"
#include "store/batch_kind_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

#include <stdio.h>

/* Changing tasks: PATCH, run, redrive. Their scripts answer alike, {state found, record as it is now or nil when
 * nothing was done}. */

#define RECORD_BYTES ((size_t)4096) /* of an answer: mostly less, RECORD_BEGINNING_BYTES at most */

/* Whether the reply is such a list. */
static bool is_answer(const redisReply *reply, size_t count)
{
    int64_t state;

    if (!reply_is_array(reply, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!batch_is_state_pair(reply->element[i], &state))
            return false;
        const redisReply *record = reply->element[i]->element[1];
        if (!reply_is_string(record) && record->type != REDIS_REPLY_NIL)
            return false;
    }
    return true;
}

/* Gives the task as it is now, or the error and the state found. */
static void read_pair(struct store_op *op, const redisReply *pair, struct task **out, struct batch_due *earliest)
{
    int64_t found = pair->element[0]->integer;
    const redisReply *record = pair->element[1];

    if (found == BATCH_STATE_GONE) {
        op->err = ERR_TASK_NOT_FOUND;
        return;
    }
    op->state = (enum task_state)found;
    if (!reply_is_string(record)) {
        op->err = ERR_STATE_CONFLICT;
        return;
    }
    op->err = batch_read_beginning(op->id, record, out);
    if (op->err == ERR_OK && (*out)->state == TASK_SCHEDULED)
        batch_note_due(earliest, (*out)->when_ms ? (*out)->when_ms : (*out)->run_at_ms);
}

/* ---------------------------------------------------------------- patch */

static void add_due(struct call *call, const struct store_op *op)
{
    char due[32];
    int n = 0;

    if (op->changes_due)
        n = snprintf(due, sizeof due, "%s%lld", op->task->is_due_absolute ? "" : "+", (long long)op->task->due_ms);
    if (n > 0)
        call_add(call, due, (size_t)n);
    else
        call_add_str(call, "");
}

static void build_patch(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, env->keys, ops[i]->id);
    call_begin_args(call, env->keys);
    call_add_str(call, settings_version(env->settings));
    for (size_t i = 0; i < count; i++) {
        const struct store_op *op = ops[i];
        call_add_str(call, op->id);
        add_due(call, op);
        call_add_str(call, op->was_sent ? "1" : "0");
        call_add(call, op->spec, op->spec_bytes);
        buf_clear(env->scratch);
        queue_settings_apply(settings_of(env->settings, op->task->queue), op->task);
        record_write_spec(env->scratch, op->task);
        call_add_buf(call, env->scratch);
    }
}

static enum err read_patch(struct store_op *const *ops, size_t count, const redisReply *reply,
                           struct batch_due *earliest)
{
    if (!is_answer(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        struct store_op *op = ops[i];
        if (!op)
            continue;
        read_pair(op, reply->element[i], &op->existing, earliest);
        op->is_stale = op->err == ERR_STATE_CONFLICT && (op->state == TASK_SCHEDULED || op->state == TASK_READY);
    }
    return ERR_OK;
}

static size_t patch_weight(const struct store_op *op)
{
    return op->spec_bytes * 2 + op->task->body_bytes + RECORD_BYTES;
}

const struct batch_kind batch_patch = {
    .script = SCRIPT_PATCH, .max = STORE_CALL_MAX, .build = build_patch, .read = read_patch, .weight = patch_weight};

/* --------------------------------------------------------- run, redrive */

static void build_now(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, env->keys, ops[i]->id);
    call_begin_args(call, env->keys);
    for (size_t i = 0; i < count; i++) {
        call_add_str(call, ops[i]->id);
        call_add_str(call, ops[i]->was_sent ? "1" : "0");
    }
}

static enum err read_now(struct store_op *const *ops, size_t count, const redisReply *reply, struct batch_due *earliest)
{
    if (!is_answer(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (ops[i])
            read_pair(ops[i], reply->element[i], &ops[i]->task, earliest);
    return ERR_OK;
}

static size_t now_weight(const struct store_op *op)
{
    (void)op;
    return RECORD_BYTES;
}

const struct batch_kind batch_run = {
    .script = SCRIPT_RUN, .max = STORE_CALL_MAX, .build = build_now, .read = read_now, .weight = now_weight};
const struct batch_kind batch_redrive = {
    .script = SCRIPT_REDRIVE, .max = STORE_CALL_MAX, .build = build_now, .read = read_now, .weight = now_weight};
