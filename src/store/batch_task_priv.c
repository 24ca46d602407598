#include "base/mem.h"
#include "store/batch_kind_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

/* Reading, cancelling and settling single tasks, and keeping them ours. */

#define TIME_MIN_MS 1000000 /* less is no time: a state, known or not */
#define SETTLE_BYTES ((size_t)256)
#define GET_BYTES ((size_t)65536) /* a record of unknown size: few in a call, each may be as large as max-body */

/* ------------------------------------------------------------------ get */

static void build_get(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    call_add_str(call, "MGET");
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, env->keys, ops[i]->id);
}

static void give_spec(struct store_op *op, const redisReply *record)
{
    size_t at = record_spec_at(record->str);

    op->spec_bytes = record->len - at;
    op->spec = xstrndup(record->str + at, op->spec_bytes);
}

static enum err read_whole(struct store_op *op, const redisReply *record)
{
    if (record_read(op->id, record->str, record->len, &op->task) == ERR_OK)
        return ERR_OK;
    batch_report_bad_record(op->id);
    return ERR_INTERNAL;
}

static enum err read_get(struct store_op *const *ops, size_t count, const redisReply *reply, struct batch_due *earliest)
{
    (void)earliest;
    if (!reply_is_array(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *r = reply->element[i];
        if (!ops[i])
            continue;
        ops[i]->err = ERR_TASK_NOT_FOUND;
        if (reply_is_string(r))
            ops[i]->err = read_whole(ops[i], r);
        if (ops[i]->err == ERR_OK && ops[i]->wants_spec)
            give_spec(ops[i], r);
    }
    return ERR_OK;
}

static size_t get_weight(const struct store_op *op)
{
    (void)op;
    return GET_BYTES;
}

const struct batch_kind batch_get = {
    .is_plain = true, .max = STORE_CALL_MAX, .build = build_get, .read = read_get, .weight = get_weight};

/* --------------------------------------------------------------- cancel */

static void build_cancel(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, env->keys, ops[i]->id);
    call_begin_args(call, env->keys);
    for (size_t i = 0; i < count; i++)
        call_add_str(call, ops[i]->id);
}

static void set_cancelled(struct store_op *op, int64_t found, const redisReply *record)
{
    op->err = ERR_OK;
    op->state = (enum task_state)found;
    switch ((enum task_state)found) {
    case TASK_SCHEDULED:
    case TASK_READY:
        op->state = TASK_CANCELLED;
        break;
    case TASK_DELIVERING:
        op->err = batch_read_beginning(op->id, record, &op->task);
        break;
    case TASK_CANCELLED:
        op->is_repeat = true;
        break;
    case TASK_DELIVERED:
    case TASK_DEAD:
    case TASK_EXPIRED:
        op->err = ERR_STATE_CONFLICT;
        break;
    case TASK_STATE_COUNT:
        op->err = ERR_INTERNAL;
        break;
    }
}

static enum err read_cancel(struct store_op *const *ops, size_t count, const redisReply *reply,
                            struct batch_due *earliest)
{
    int64_t state;

    (void)earliest;
    if (!reply_is_array(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!batch_is_state_pair(reply->element[i], &state) ||
            (state == TASK_DELIVERING && !reply_is_string(reply->element[i]->element[1])))
            return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *pair = reply->element[i];
        if (!ops[i])
            continue;
        if (pair->element[0]->integer == BATCH_STATE_GONE)
            ops[i]->err = ERR_TASK_NOT_FOUND;
        else
            set_cancelled(ops[i], pair->element[0]->integer, pair->element[1]);
    }
    return ERR_OK;
}

const struct batch_kind batch_cancel = {
    .script = SCRIPT_CANCEL, .max = STORE_CALL_MAX, .build = build_cancel, .read = read_cancel};

/* --------------------------------------------------------------- settle */

static void build_settle(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    static const char *const HOW[] = {[STORE_SETTLE_DELIVERED] = "d",
                                      [STORE_SETTLE_RETRY] = "r",
                                      [STORE_SETTLE_DEAD] = "x",
                                      [STORE_SETTLE_RELEASE] = "b"};
    const struct keys *k = env->keys;
    struct buf *scratch = env->scratch;

    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, k, ops[i]->task->id);
    call_begin_args(call, k);
    for (size_t i = 0; i < count; i++) {
        const struct store_op *op = ops[i];
        call_add_str(call, op->task->id);
        call_add_str(call, op->lease.entry_id);
        call_add_int(call, op->lease.generation);
        call_add_str(call, HOW[op->settle]);
        call_add_int(call, op->retry_delay_ms);
        call_add_int(call, op->settle == STORE_SETTLE_DELIVERED ? (int64_t)record_kept_bytes(op->task) : -1);
        buf_clear(scratch);
        if (op->settle != STORE_SETTLE_RELEASE)
            record_write_attempts(scratch, op->task, &op->attempt);
        call_add_buf(call, scratch);
    }
}

/* A finished state, or the time at which a task is scheduled again. */
static bool is_reached(const redisReply *r)
{
    int64_t n;

    return reply_int(r, &n) &&
           (n == BATCH_STATE_GONE || (n >= TASK_DELIVERED && n < TASK_STATE_COUNT) || n >= TIME_MIN_MS);
}

static enum err read_settle(struct store_op *const *ops, size_t count, const redisReply *reply,
                            struct batch_due *earliest)
{
    int64_t reached;

    if (!reply_is_array(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!is_reached(reply->element[i]))
            return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        reached = reply->element[i]->integer;
        if (reached >= TIME_MIN_MS) {
            batch_note_due(earliest, reached);
            reached = TASK_SCHEDULED;
        }
        if (!ops[i])
            continue;
        ops[i]->err = ERR_OK;
        ops[i]->is_stale = reached == BATCH_STATE_GONE;
        if (reached != BATCH_STATE_GONE)
            ops[i]->state = (enum task_state)reached;
    }
    return ERR_OK;
}

/* For a failed attempt Redis copies the whole task. */
static size_t settle_weight(const struct store_op *op)
{
    bool is_copied = op->settle == STORE_SETTLE_RETRY || op->settle == STORE_SETTLE_DEAD;

    return SETTLE_BYTES + (is_copied ? op->task->body_bytes : 0);
}

const struct batch_kind batch_settle = {.script = SCRIPT_SETTLE,
                                        .max = STORE_CALL_MAX,
                                        .build = build_settle,
                                        .read = read_settle,
                                        .weight = settle_weight};

/* ---------------------------------------------------------------- renew */

static void build_renew(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct store_op *op = ops[0];

    (void)count;
    call_begin_args(call, env->keys);
    call_add_str(call, op->consumer);
    for (size_t i = 0; i < op->lease_count; i++)
        call_add_str(call, op->leases[i].entry_id);
}

const struct batch_kind batch_renew = {
    .script = SCRIPT_RENEW, .max = 1, .build = build_renew, .read = batch_read_number};
