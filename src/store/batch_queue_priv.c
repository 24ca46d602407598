#include "base/mem.h"
#include "store/batch_kind_priv.h"
#include "store/reply_priv.h"
#include "store/stats_priv.h"

#include <string.h>

/* One queue as a whole: reading and changing it (lua/queue.lua), and the steps of a purge (lua/purge.lua) and of a
 * redrive of its dead (lua/redrive_queue.lua). */

#define STEP_TASKS 100

/* ------------------------------------------------------------------ queue */

/* As lua/queue.lua answers. */
enum answer {
    ANSWER_NOT_THERE = 0,
    ANSWER_NOT_EMPTY,
    ANSWER_DONE,
    ANSWER_MADE,
    ANSWER_COUNT /* number of answers, not one of them */
};

static void build_queue(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    static const char *const WORDS[] = {[STORE_QUEUE_READ] = "read",
                                        [STORE_QUEUE_PUT] = "put",
                                        [STORE_QUEUE_PAUSE] = "pause",
                                        [STORE_QUEUE_RESUME] = "resume",
                                        [STORE_QUEUE_DELETE] = "delete"};
    const struct store_queue *q = ops[0]->queue;

    (void)count;
    call_begin_args(call, env->keys);
    call_add_str(call, WORDS[q->action]);
    call_add_str(call, q->name);
    if (q->action != STORE_QUEUE_PUT)
        return;
    buf_clear(env->scratch);
    queue_settings_encode(env->scratch, q->settings);
    call_add_buf(call, env->scratch);
}

/* Gone, and asked a second time because the first answer was lost: then it was us. */
static enum err err_of_missing(const struct store_op *op)
{
    return op->queue->action == STORE_QUEUE_DELETE && op->was_repeated ? ERR_OK : ERR_QUEUE_NOT_FOUND;
}

static enum err read_queue(struct store_op *const *ops, size_t count, const redisReply *reply,
                           struct batch_due *earliest)
{
    struct store_queue_stats *found = NULL;
    int64_t answer;

    (void)count;
    (void)earliest;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 || !reply_int(reply->element[0], &answer) ||
        answer < 0 || answer >= ANSWER_COUNT)
        return ERR_INVALID;
    if (answer >= ANSWER_DONE) {
        found = xcalloc(1, sizeof *found);
        if (!stats_read_queue(reply->element + 1, reply->elements - 1, found) || !ops[0]) {
            store_queue_stats_destroy(&found);
            return ops[0] ? ERR_INVALID : ERR_OK;
        }
    }
    if (!ops[0])
        return ERR_OK;
    ops[0]->queue->found = found;
    ops[0]->queue->is_new = answer == ANSWER_MADE;
    ops[0]->err = answer == ANSWER_NOT_THERE   ? err_of_missing(ops[0])
                  : answer == ANSWER_NOT_EMPTY ? ERR_QUEUE_NOT_EMPTY
                                               : ERR_OK;
    return ERR_OK;
}

const struct batch_kind batch_queue = {.script = SCRIPT_QUEUE, .max = 1, .build = build_queue, .read = read_queue};

/* ------------------------------------------------------- purge and redrive */

static void begin_step(struct call *call, const struct batch_env *env, const struct store_sweep *step)
{
    call_begin_args(call, env->keys);
    call_add_str(call, step->queue);
    call_add_int(call, step->began_ms);
}

static void build_purge(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct store_sweep *step = ops[0]->sweep;

    (void)count;
    begin_step(call, env, step);
    call_add_str(call, step->cursor);
    call_add_int(call, STEP_TASKS);
}

static void build_redrive(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct store_sweep *step = ops[0]->sweep;
    int64_t left = step->limit - step->count;

    (void)count;
    begin_step(call, env, step);
    call_add_int(call, left < STEP_TASKS ? left : STEP_TASKS);
}

/* Whether the answer is {-1}: there is no such queue. */
static bool is_missing(const redisReply *reply)
{
    int64_t n;

    return reply_is_array(reply, 1) && reply_int(reply->element[0], &n) && n == -1;
}

static bool is_step(const redisReply *reply, int64_t *began_ms, int64_t *done)
{
    return reply_is_array(reply, 3) && reply_int(reply->element[0], began_ms) && reply_int(reply->element[1], done);
}

static bool is_cursor(const redisReply *r)
{
    return reply_is_string(r) && r->len < STORE_SWEEP_CURSOR_SIZE && memchr(r->str, 0, r->len) == NULL;
}

static enum err read_purge(struct store_op *const *ops, size_t count, const redisReply *reply,
                           struct batch_due *earliest)
{
    int64_t began_ms = 0, dropped = 0;
    bool is_gone = is_missing(reply);

    (void)count;
    (void)earliest;
    if (!is_gone && (!is_step(reply, &began_ms, &dropped) || !is_cursor(reply->element[2])))
        return ERR_INVALID;
    if (!ops[0])
        return ERR_OK;
    struct store_sweep *step = ops[0]->sweep;

    ops[0]->err = is_gone ? ERR_QUEUE_NOT_FOUND : ERR_OK;
    step->is_done = is_gone || reply->element[2]->len == 0;
    step->began_ms = began_ms;
    step->count += dropped;
    if (!is_gone)
        memcpy(step->cursor, reply->element[2]->str, reply->element[2]->len + 1);
    return ERR_OK;
}

static enum err read_redrive(struct store_op *const *ops, size_t count, const redisReply *reply,
                             struct batch_due *earliest)
{
    int64_t began_ms = 0, redriven = 0, has_more = 0;
    bool is_gone = is_missing(reply);

    (void)count;
    if (!is_gone && (!is_step(reply, &began_ms, &redriven) || !reply_int(reply->element[2], &has_more)))
        return ERR_INVALID;
    if (redriven > 0)
        batch_note_due(earliest, began_ms);
    if (!ops[0])
        return ERR_OK;
    struct store_sweep *step = ops[0]->sweep;

    ops[0]->err = is_gone ? ERR_QUEUE_NOT_FOUND : ERR_OK;
    step->began_ms = began_ms;
    step->count += redriven;
    step->is_done = has_more == 0 || step->count >= step->limit;
    return ERR_OK;
}

const struct batch_kind batch_purge = {.script = SCRIPT_PURGE, .max = 1, .build = build_purge, .read = read_purge};
const struct batch_kind batch_redrive_queue = {
    .script = SCRIPT_REDRIVE_QUEUE, .max = 1, .build = build_redrive, .read = read_redrive};
