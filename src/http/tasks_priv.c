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

#define STORE_WAIT_MS 1800 /* Redis trouble becomes a 503 within 2 s */
#define DURABLE_WAIT_MS \
    3800 /* the same when the answer waits for a disk or a replica, its own and that of those before */

static void reply_task(struct request *r, int status, const struct task *t, enum task_json_form form)
{
    struct buf *out = reply_json(&r->reply, status);

    task_json_write(out, t, form);
    buf_putc(out, '\n');
}

static void reply_created(struct request *r, int status, const struct task *t)
{
    struct buf *out = reply_json(&r->reply, status);

    task_json_write_created(out, t, r->op.is_durable);
    buf_putc(out, '\n');
}

static void reply_not_found(struct request *r)
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

static void reply_conflict(struct request *r, const struct task *existing)
{
    bool is_key = r->op.err == ERR_KEY_CONFLICT;
    const char *detail = is_key ? "This Idempotency-Key was used by a request with another body"
                                : "This id was used by a request with another body";

    reply_problem_state(&r->reply, r->op.err, detail, existing ? task_state_name(existing->state) : "gone");
}

static void finish_create(struct request *r)
{
    struct task *existing = r->op.existing;
    char *gone_id = r->op.gone_id;
    bool is_conflict = r->op.err == ERR_ID_CONFLICT || r->op.err == ERR_KEY_CONFLICT;
    bool is_repeat = r->op.is_repeat && existing;
    const struct task *t = is_repeat ? existing : r->task;

    r->op.existing = NULL;
    r->op.gone_id = NULL;
    if (r->op.err == ERR_OK && gone_id) {
        reply_gone(r, gone_id);
    } else if (r->op.err == ERR_OK) {
        reply_created(r, is_repeat ? 200 : 201, t);
        (void)snprintf(r->reply.location, sizeof(r->reply.location), "/tasks/%s", t->id);
    } else if (is_conflict && (existing || gone_id)) {
        reply_conflict(r, existing);
    } else {
        request_reply_store_fault(r);
    }
    task_destroy(&existing);
    free(gone_id);
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
        signature_digest(key, strlen(key), r->key.name);
        signature_digest(r->body ? r->body : "", r->body_bytes, r->key.request);
        r->op.key = &r->key;
    }
    return true;
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
    if (!r->task->id) {
        char id[IDENT_TASK_CHARS + 1];

        ident_random(id, IDENT_TASK_CHARS);
        r->task->id = xstrdup(id);
    }
    request_drop_body(r); /* the task has its own copy of the payload */
    r->op.task = r->task;
    r->op.durability = r->task->durability;
    request_submit(r, STORE_CREATE, r->op.durability == TASK_DURABILITY_MEMORY ? STORE_WAIT_MS : DURABLE_WAIT_MS,
                   finish_create);
out:
    faults_deinit(&faults);
}

static void finish_get(struct request *r)
{
    struct task *t = r->op.task;

    r->op.task = NULL;
    if (r->op.err == ERR_OK && t)
        reply_task(r, 200, t, TASK_JSON_FULL);
    else if (r->op.err == ERR_TASK_NOT_FOUND)
        reply_not_found(r);
    else
        request_reply_store_fault(r);
    task_destroy(&t);
}

void tasks_get(struct request *r)
{
    if (!task_id_is_valid(r->match.id, strlen(r->match.id))) {
        reply_not_found(r);
        return;
    }
    r->op.id = r->match.id;
    request_submit(r, STORE_GET, STORE_WAIT_MS, finish_get);
}

static void finish_cancel(struct request *r)
{
    struct task *t = r->op.task;

    r->op.task = NULL;
    if (r->op.err == ERR_OK && t) /* an attempt is under way: it may still be delivered */
        reply_task(r, 202, t, TASK_JSON_SUMMARY);
    else if (r->op.err == ERR_OK)
        reply_empty(&r->reply, 204);
    else if (r->op.err == ERR_TASK_NOT_FOUND)
        reply_not_found(r);
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
        reply_not_found(r);
        return;
    }
    r->op.id = r->match.id;
    request_submit(r, STORE_CANCEL, STORE_WAIT_MS, finish_cancel);
}
