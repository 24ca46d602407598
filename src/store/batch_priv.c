#include "store/batch_priv.h"

#include "base/log.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"
#include "store/stats_priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each kind has one builder and one reader, listed in KINDS; what a script's arguments and answer mean is said at the
 * top of the script. Readers check the whole reply before they set the first result. */

#define QUEUES_LISTED_MAX 1000
#define SMALL_BYTES 256           /* an operation without a body */
#define GET_BYTES ((size_t)65536) /* a record of unknown size: few in a call, each may be as large as max-body */
#define STATE_GONE (-1)

/* ------------------------------------------------------------- building */

static void add_encoded(struct call *call, const struct buf *scratch)
{
    call_add_text(call, scratch->data, scratch->len);
}

static void add_keys(struct call *call, const struct keys *k, struct store_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, k, ops[i]->task->id);
    for (size_t i = 0; i < count; i++)
        if (ops[i]->key)
            call_add_idempotency_key(call, k, ops[i]->key->name, STORE_KEY_BYTES);
}

static void build_create(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct keys *k = env->keys;
    struct buf *scratch = env->scratch;

    add_keys(call, k, ops, count);
    call_begin_args(call, k);
    call_add_int(call, env->max_pending);
    for (size_t i = 0; i < count; i++) {
        const struct task *t = ops[i]->task;
        char due[32];
        int n = snprintf(due, sizeof due, "%s%lld", t->is_due_absolute ? "" : "+", (long long)t->due_ms);
        call_add_str(call, t->id);
        call_add_text(call, due, (size_t)n);
        call_add_str(call, t->queue);
        call_add(call, (const char *)t->digest, t->has_digest ? TASK_DIGEST_BYTES : 0);
        buf_clear(scratch);
        record_write_spec(scratch, t);
        add_encoded(call, scratch);
    }
    for (size_t i = 0; i < count; i++) {
        if (!ops[i]->key)
            continue;
        call_add_int(call, (int64_t)i + 1);
        call_add(call, (const char *)ops[i]->key->request, TASK_DIGEST_BYTES);
    }
}

static void build_get(struct call *call, const struct keys *k, struct store_op *const *ops, size_t count)
{
    call_begin(call);
    call_add_str(call, "MGET");
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, k, ops[i]->id);
}

static void build_cancel(struct call *call, const struct keys *k, struct store_op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        call_add_record_key(call, k, ops[i]->id);
    call_begin_args(call, k);
    for (size_t i = 0; i < count; i++)
        call_add_str(call, ops[i]->id);
}

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
        if (scratch->len > 0)
            add_encoded(call, scratch);
        else
            call_add_str(call, "");
    }
}

static void build_renew(struct call *call, const struct keys *k, const struct store_op *op)
{
    call_begin_args(call, k);
    call_add_str(call, op->consumer);
    for (size_t i = 0; i < op->lease_count; i++)
        call_add_str(call, op->leases[i].entry_id);
}

bool batch_script(enum store_kind kind, enum script *out)
{
    static const enum script SCRIPTS[STORE_KIND_COUNT] = {
        [STORE_CREATE] = SCRIPT_CREATE, [STORE_CANCEL] = SCRIPT_CANCEL, [STORE_SETTLE] = SCRIPT_SETTLE,
        [STORE_RENEW] = SCRIPT_RENEW,   [STORE_STATS] = SCRIPT_STATS,   [STORE_PROBE] = SCRIPT_PROBE,
    };

    *out = SCRIPTS[kind];
    return kind != STORE_GET;
}

void batch_build(struct call *call, const struct batch_env *env, const char *sha, enum store_kind kind,
                 struct store_op *const *ops, size_t count)
{
    const struct keys *keys = env->keys;

    if (kind != STORE_GET)
        call_begin_script(call, sha, keys);
    switch (kind) {
    case STORE_CREATE:
        build_create(call, env, ops, count);
        break;
    case STORE_GET:
        build_get(call, keys, ops, count);
        break;
    case STORE_CANCEL:
        build_cancel(call, keys, ops, count);
        break;
    case STORE_SETTLE:
        build_settle(call, env, ops, count);
        break;
    case STORE_RENEW:
        build_renew(call, keys, ops[0]);
        break;
    case STORE_STATS:
        call_begin_args(call, keys);
        call_add_int(call, QUEUES_LISTED_MAX);
        break;
    case STORE_PROBE:
        call_add_str(call, keys->probe);
        call_begin_args(call, keys);
        break;
    case STORE_KIND_COUNT:
        assert(false && "not a kind");
        break;
    }
    call_seal(call);
}

size_t batch_weight(const struct store_op *op)
{
    switch (op->kind) {
    case STORE_CREATE:
        return op->task->body_bytes + SMALL_BYTES;
    case STORE_GET:
        return GET_BYTES;
    case STORE_CANCEL:
    case STORE_SETTLE:
    case STORE_RENEW:
    case STORE_STATS:
    case STORE_PROBE:
    case STORE_KIND_COUNT:
        break;
    }
    return SMALL_BYTES;
}

/* -------------------------------------------------------------- reading */

static void note_due(int64_t *earliest, int64_t due)
{
    if (*earliest < 0 || due < *earliest)
        *earliest = due;
}

static void set_created(struct task *t, int64_t due_ms, int64_t now_ms)
{
    t->state = TASK_SCHEDULED;
    t->run_at_ms = due_ms;
    t->created_at_ms = now_ms;
}

static void report_bad_record(const char *id)
{
    LOG_ERROR("record.unreadable", "task=%s", id);
}

/* The id is there already. Sent twice after a lost answer, it is our own first try; else the digest of the request
 * tells. */
static void set_existing(struct store_op *op, const redisReply *record)
{
    struct task *found = NULL;
    const struct task *t = op->task;
    bool is_same;

    if (record_read(t->id, record->str, record->len, &found) != ERR_OK) {
        report_bad_record(t->id);
        op->err = ERR_INTERNAL;
        return;
    }
    is_same = t->has_digest && found->has_digest && memcmp(t->digest, found->digest, TASK_DIGEST_BYTES) == 0;
    if (op->was_sent && !t->has_digest && !found->has_digest) {
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
    if (record_read(id, record->str, record->len, &op->existing) != ERR_OK) {
        report_bad_record(id);
        op->err = ERR_INTERNAL;
    } else if (op->is_repeat && op->was_sent && !op->task->has_digest && strcmp(id, op->task->id) == 0) {
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

static enum err read_create(struct store_op *const *ops, size_t count, const redisReply *reply, int64_t *earliest)
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
            note_due(earliest, r->integer);
        if (ops[i])
            set_create_outcome(ops[i], r, now_ms);
    }
    return ERR_OK;
}

static enum err read_get(struct store_op *const *ops, size_t count, const redisReply *reply)
{
    if (!reply_is_array(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *r = reply->element[i];
        if (!ops[i])
            continue;
        ops[i]->err = ERR_TASK_NOT_FOUND;
        if (!reply_is_string(r))
            continue;
        ops[i]->err = record_read(ops[i]->id, r->str, r->len, &ops[i]->task);
        if (ops[i]->err != ERR_OK) {
            report_bad_record(ops[i]->id);
            ops[i]->err = ERR_INTERNAL;
        }
    }
    return ERR_OK;
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
        if (record_read(op->id, record->str, record->len, &op->task) != ERR_OK) {
            report_bad_record(op->id);
            op->err = ERR_INTERNAL;
        }
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

static bool is_state_pair(const redisReply *r, int64_t *state)
{
    return reply_is_array(r, 2) && reply_int(r->element[0], state) && *state >= STATE_GONE && *state < TASK_STATE_COUNT;
}

static enum err read_cancel(struct store_op *const *ops, size_t count, const redisReply *reply)
{
    int64_t state;

    if (!reply_is_array(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!is_state_pair(reply->element[i], &state) ||
            (state == TASK_DELIVERING && !reply_is_string(reply->element[i]->element[1])))
            return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *pair = reply->element[i];
        if (!ops[i])
            continue;
        if (pair->element[0]->integer == STATE_GONE)
            ops[i]->err = ERR_TASK_NOT_FOUND;
        else
            set_cancelled(ops[i], pair->element[0]->integer, pair->element[1]);
    }
    return ERR_OK;
}

static enum err read_settle(struct store_op *const *ops, size_t count, const redisReply *reply, int64_t *earliest)
{
    int64_t state, due;

    if (!reply_is_array(reply, count))
        return ERR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!is_state_pair(reply->element[i], &state) || !reply_int(reply->element[i]->element[1], &due))
            return ERR_INVALID;
    for (size_t i = 0; i < count; i++) {
        state = reply->element[i]->element[0]->integer;
        due = reply->element[i]->element[1]->integer;
        if (state == TASK_SCHEDULED)
            note_due(earliest, due);
        if (!ops[i])
            continue;
        ops[i]->err = ERR_OK;
        ops[i]->is_stale = state == STATE_GONE;
        if (state != STATE_GONE)
            ops[i]->state = (enum task_state)state;
    }
    return ERR_OK;
}

enum err batch_read(enum store_kind kind, struct store_op *const *ops, size_t count, const redisReply *reply,
                    int64_t *earliest_due_ms)
{
    *earliest_due_ms = -1;
    switch (kind) {
    case STORE_CREATE:
        return read_create(ops, count, reply, earliest_due_ms);
    case STORE_GET:
        return read_get(ops, count, reply);
    case STORE_CANCEL:
        return read_cancel(ops, count, reply);
    case STORE_SETTLE:
        return read_settle(ops, count, reply, earliest_due_ms);
    case STORE_STATS:
        if (!ops[0])
            return ERR_OK;
        ops[0]->err = stats_read(reply, &ops[0]->stats);
        return ops[0]->err;
    case STORE_RENEW:
    case STORE_PROBE:
        if (ops[0])
            ops[0]->err = ERR_OK;
        return reply->type == REDIS_REPLY_INTEGER ? ERR_OK : ERR_INVALID;
    case STORE_KIND_COUNT:
        break;
    }
    return ERR_INVALID;
}
