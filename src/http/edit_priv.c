#include "http/edit_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/request_priv.h"
#include "http/tasks_priv.h"
#include "task/task_json.h"
#include <stdlib.h>
#include <string.h>

/* Changing a task.
 *
 * A patch is merged here, since only we read specifications: the task is read, changed and written back on condition
 * that its specification is still what was read. Was it changed in between, by another patch, it is read again; so of
 * two patches at once none is lost. The script looks at the state in the same breath: a task that an attempt has begun
 * for meanwhile is not changed, and the client learns its state. */

#define TRIES_MAX 5

static bool has_good_id(struct request *r)
{
    if (task_id_is_valid(r->match.id, strlen(r->match.id)))
        return true;
    tasks_reply_not_found(r);
    return false;
}

/* For what an operation on one task may fail with. */
static void reply_fault(struct request *r, const char *conflict)
{
    if (r->op.err == ERR_TASK_NOT_FOUND)
        tasks_reply_not_found(r);
    else if (r->op.err == ERR_STATE_CONFLICT)
        reply_problem_state(&r->reply, ERR_STATE_CONFLICT, conflict, task_state_name(r->op.state));
    else
        request_reply_store_fault(r);
}

/* ---- patch ---- */

struct edit {
    struct task_patch patch;
    struct task *task; /* as it was read, and then changed */
    char *spec;        /* as it was read */
    size_t spec_bytes;
    int tries;
    int64_t deadline_mono_ms; /* for all tries together */
};

static void edit_destroy(void *work)
{
    struct edit *e = work;

    task_patch_deinit(&e->patch);
    task_destroy(&e->task);
    free(e->spec);
    free(e);
}

static void read_task(struct request *r, struct edit *e);

static void finish_patch(struct request *r)
{
    struct edit *e = r->work;
    struct task *t = r->op.existing;

    r->op.existing = NULL;
    r->op.task = NULL;
    r->op.spec = NULL;
    if (r->op.err == ERR_OK && t)
        tasks_reply(r, 200, t, TASK_JSON_SUMMARY);
    else if (r->op.err == ERR_STATE_CONFLICT && r->op.is_stale && e->tries < TRIES_MAX)
        read_task(r, e);
    else
        reply_fault(r, r->op.is_stale ? "Others changed this task at the same time: send the request again"
                                      : "Only a task that is scheduled or ready can be changed");
    task_destroy(&t);
}

static void submit(struct request *r, const struct edit *e, enum store_kind kind, void (*finish)(struct request *r))
{
    int64_t left_ms = e->deadline_mono_ms - clock_mono_ms();

    r->op.id = r->match.id;
    r->op.is_stale = false;
    request_submit(r, kind, left_ms > 0 ? left_ms : 0, finish);
}

static void finish_read(struct request *r)
{
    struct edit *e = r->work;

    task_destroy(&e->task);
    free(e->spec);
    e->task = r->op.task;
    e->spec = r->op.spec;
    e->spec_bytes = r->op.spec_bytes;
    r->op.task = NULL;
    r->op.spec = NULL;
    if (r->op.err != ERR_OK) {
        reply_fault(r, "");
        return;
    }
    if (e->task->state != TASK_SCHEDULED && e->task->state != TASK_READY) {
        reply_problem_state(&r->reply, ERR_STATE_CONFLICT, "Only a task that is scheduled or ready can be changed",
                            task_state_name(e->task->state));
        return;
    }
    task_apply_patch(e->task, &e->patch);
    r->op.task = e->task;
    r->op.spec = e->spec;
    r->op.spec_bytes = e->spec_bytes;
    r->op.changes_due = e->patch.has_due;
    submit(r, e, STORE_PATCH, finish_patch);
}

static void read_task(struct request *r, struct edit *e)
{
    e->tries++;
    r->op.wants_spec = true;
    submit(r, e, STORE_GET, finish_read);
}

void edit_patch(struct request *r)
{
    struct task_json_opts opts = {.allow_net = r->env->opts.allow_net};
    struct edit *e = xcalloc(1, sizeof(*e));
    struct faults faults;
    enum err err = ERR_OK;

    request_keep(r, e, edit_destroy);
    faults_init(&faults);
    err = task_json_parse_patch(r->body ? r->body : "", r->body_bytes, &opts, &faults, &e->patch);
    if (err != ERR_OK) {
        reply_problem_faults(&r->reply, err, "pointer", &faults);
    } else if (has_good_id(r)) {
        request_drop_body(r); /* the patch has its own copy of the payload */
        e->deadline_mono_ms = clock_mono_ms() + REQUEST_STORE_WAIT_MS;
        read_task(r, e);
    }
    faults_deinit(&faults);
}

/* ---- run, redrive ---- */

static void finish_now(struct request *r, const char *conflict)
{
    struct task *t = r->op.task;

    r->op.task = NULL;
    if (r->op.err == ERR_OK && t)
        tasks_reply(r, 200, t, TASK_JSON_SUMMARY);
    else
        reply_fault(r, conflict);
    task_destroy(&t);
}

static void finish_run(struct request *r)
{
    finish_now(r, "Only a task that is scheduled or ready can be run");
}

static void finish_redrive(struct request *r)
{
    finish_now(r, "Only a task that is dead, expired or cancelled can be redriven");
}

void edit_run(struct request *r)
{
    if (!has_good_id(r))
        return;
    r->op.id = r->match.id;
    request_submit(r, STORE_RUN, REQUEST_STORE_WAIT_MS, finish_run);
}

void edit_redrive(struct request *r)
{
    if (!has_good_id(r))
        return;
    r->op.id = r->match.id;
    request_submit(r, STORE_REDRIVE, REQUEST_STORE_WAIT_MS, finish_redrive);
}
