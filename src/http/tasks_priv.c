#include "http/tasks_priv.h"
#include "base/ident.h"
#include "base/mem.h"
#include "http/request_priv.h"
#include "task/signature.h"
#include "task/task_json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The calls under /tasks: parse, hand to the store, and turn what it answers into a reply. Each call is a pair, the
 * handler and its `finish_`, with the store's work in between. */

void tasks_reply(struct request *r, int status, const struct task *t, enum task_json_form form)
{
    struct buf *out = reply_json(&r->reply, status);

    task_json_write(out, t, form);
    buf_putc(out, '\n');
}

void tasks_reply_not_found(struct request *r)
{
    reply_problem(&r->reply, ERR_TASK_NOT_FOUND, "There is no task with this id, or it was finished long ago");
}

/* The record is gone, and the Idempotency-Key still knows that there was a task. */
static void reply_gone(struct request *r, const char *id)
{
    struct buf *out = reply_json(&r->reply, 200);

    buf_puts(out, "{\"id\":");
    buf_put_json(out, id, strlen(id));
    buf_puts(out, ",\"state\":\"gone\"}\n");
}

static void judge_conflict(const struct store_op *op, struct tasks_created *out)
{
    bool is_key = op->err == ERR_KEY_CONFLICT;

    out->problem = (struct problem){
        .err = op->err,
        .detail = is_key ? "This Idempotency-Key was used by a request with another body"
                         : "This id was used by a request with another body",
        .state = op->existing ? task_state_name(op->existing->state) : "gone",
    };
}

void tasks_judge_created(const struct store_op *op, struct tasks_created *out)
{
    bool is_conflict = op->err == ERR_ID_CONFLICT || op->err == ERR_KEY_CONFLICT;
    bool is_repeat = op->is_repeat && op->existing;

    memset(out, 0, sizeof(*out));
    if (op->err == ERR_OK) {
        out->status = is_repeat ? 200 : 201;
        out->task = is_repeat ? op->existing : op->task;
        return;
    }
    if (is_conflict && (op->existing || op->gone_id))
        judge_conflict(op, out);
    else
        out->problem = request_store_problem(op);
    out->status = err_status(out->problem.err);
}

static void finish_create(struct request *r)
{
    struct store_op *op = &r->op;
    struct tasks_created created;

    tasks_judge_created(op, &created);
    if (op->err == ERR_OK && op->gone_id) {
        reply_gone(r, op->gone_id);
    } else if (created.task) {
        struct buf *out = reply_json(&r->reply, created.status);

        task_json_write_created(out, created.task, op->is_durable);
        buf_putc(out, '\n');
        (void)snprintf(r->reply.location, sizeof(r->reply.location), "/tasks/%s", created.task->id);
    } else {
        reply_with(&r->reply, &created.problem);
    }
    task_destroy(&op->existing);
    free(op->gone_id);
    op->gone_id = NULL;
}

void tasks_name(struct task *t)
{
    char id[IDENT_TASK_CHARS + 1];

    if (t->id)
        return;
    ident_random(id, IDENT_TASK_CHARS);
    t->id = xstrdup(id);
}

int64_t tasks_create_wait_ms(enum task_durability durability)
{
    return durability == TASK_DURABILITY_MEMORY ? REQUEST_STORE_WAIT_MS : REQUEST_DURABLE_WAIT_MS;
}

/* False: the reply is set. */
static bool take_idempotency_key(struct request *r)
{
    const char *key = r->head.idempotency_key;
    const char *detail = NULL;
    enum err err = head_check_idempotency_key(&r->head, &detail);
    struct faults faults;

    if (err != ERR_OK) {
        faults_init(&faults);
        faults_add(&faults, "Idempotency-Key", "%s", detail);
        reply_problem_faults(&r->reply, err, "header", &faults);
        faults_deinit(&faults);
        return false;
    }
    if (key) {
        signature_digest(key, r->head.idempotency_key_bytes, r->key.name);
        signature_digest(r->body ? r->body : "", r->body_bytes, r->key.request);
        r->op.key = &r->key;
    }
    return true;
}

void tasks_take_traceparent(const struct head *h, struct task *t)
{
    char traceparent[TASK_TRACEPARENT_BYTES + 1];

    if (head_traceparent(h, traceparent))
        t->traceparent = xstrdup(traceparent);
}

void tasks_create(struct request *r)
{
    struct task_json_opts opts = {.allow_net = r->env->opts.allow_net, .durability = r->env->opts.durability};
    struct faults faults;
    enum err err = ERR_OK;

    faults_init(&faults);
    if (!take_idempotency_key(r))
        goto out;
    err = task_json_parse(r->body ? r->body : "", r->body_bytes, &opts, &faults, &r->task);
    if (err != ERR_OK) {
        reply_problem_faults(&r->reply, err, "pointer", &faults);
        goto out;
    }
    tasks_name(r->task);
    tasks_take_traceparent(&r->head, r->task);
    request_drop_body(r); /* the task has its own copy of the payload */
    r->op.task = r->task;
    r->op.durability = r->task->durability;
    request_submit(r, STORE_CREATE, tasks_create_wait_ms(r->op.durability), finish_create);
out:
    faults_deinit(&faults);
}

static void finish_get(struct request *r)
{
    struct task *t = r->op.task;

    r->op.task = NULL;
    if (r->op.err == ERR_OK && t)
        tasks_reply(r, 200, t, TASK_JSON_FULL);
    else if (r->op.err == ERR_TASK_NOT_FOUND)
        tasks_reply_not_found(r);
    else
        request_reply_store_fault(r);
    task_destroy(&t);
}

void tasks_get(struct request *r)
{
    if (!task_id_is_valid(r->match.id, strlen(r->match.id))) {
        tasks_reply_not_found(r);
        return;
    }
    r->op.id = r->match.id;
    request_submit(r, STORE_GET, REQUEST_STORE_WAIT_MS, finish_get);
}

static void finish_cancel(struct request *r)
{
    struct task *t = r->op.task;

    r->op.task = NULL;
    if (r->op.err == ERR_OK && t) /* an attempt is under way: it may still be delivered */
        tasks_reply(r, 202, t, TASK_JSON_SUMMARY);
    else if (r->op.err == ERR_OK)
        reply_empty(&r->reply, 204);
    else if (r->op.err == ERR_TASK_NOT_FOUND)
        tasks_reply_not_found(r);
    else if (r->op.err == ERR_STATE_CONFLICT)
        reply_problem_state(&r->reply, ERR_STATE_CONFLICT, "A task that has ended cannot be cancelled",
                            task_state_name(r->op.state));
    else
        request_reply_store_fault(r);
    task_destroy(&t);
}

void tasks_cancel(struct request *r)
{
    if (!task_id_is_valid(r->match.id, strlen(r->match.id))) {
        tasks_reply_not_found(r);
        return;
    }
    r->op.id = r->match.id;
    request_submit(r, STORE_CANCEL, REQUEST_STORE_WAIT_MS, finish_cancel);
}
