#include "http/queues_priv.h"
#include "base/mem.h"
#include "http/ops_priv.h"
#include "http/request_priv.h"
#include <stdlib.h>
#include <string.h>

/* The calls under /queues. A purge and a redrive go through Redis a hundred tasks at a time, each step an operation of
 * its own, so that a queue of millions holds nobody up; the answer comes after the last one.
 *
 * After the answer to `pause` no attempt of the queue begins. Redis gives no more tasks out from the moment it was
 * told, but those it gave out just before may wait in a worker for a slot of their receiver, SHARE_WAIT_MS of
 * src/run/worker.c at most. So while tasks are under way the answer waits that out. */

#define PAUSE_SETTLE_MS 200 /* SHARE_WAIT_MS, and three times that for the way from Redis to a busy worker */

/* What a call keeps while its operations are under way. */
struct work {
    char name[TASK_QUEUE_MAX + 1];
    struct store_queue queue;
    struct store_sweep sweep;
    struct queue_settings settings;
};

static void work_destroy(void *work)
{
    struct work *w = work;

    store_queue_stats_destroy(&w->queue.found);
    queue_settings_deinit(&w->settings);
    free(w);
}

static bool has_queue_name(const struct request *r)
{
    return task_queue_is_valid(r->match.id, strlen(r->match.id));
}

static void reply_not_found(struct request *r)
{
    reply_problem(&r->reply, ERR_QUEUE_NOT_FOUND, "There is no queue with this name: no task or PUT has made it yet");
}

/* The path names a queue. NULL: the reply is set. */
static struct work *begin(struct request *r)
{
    struct work *w = NULL;

    if (!has_queue_name(r)) {
        reply_not_found(r);
        return NULL;
    }
    w = xcalloc(1, sizeof(*w));
    request_keep(r, w, work_destroy);
    memcpy(w->name, r->match.id, strlen(r->match.id) + 1);
    w->queue.name = w->name;
    w->sweep.queue = w->name;
    return w;
}

static void reply_fault(struct request *r)
{
    if (r->op.err == ERR_QUEUE_NOT_FOUND)
        reply_not_found(r);
    else if (r->op.err == ERR_QUEUE_NOT_EMPTY)
        reply_problem(&r->reply, ERR_QUEUE_NOT_EMPTY,
                      "Tasks are pending in this queue: purge it, and wait for what is under way");
    else
        request_reply_store_fault(r);
}

static void put_queue(struct buf *out, const struct store_queue_stats *q)
{
    buf_puts(out, "{\"name\":");
    buf_put_json_lossy(out, q->name, strlen(q->name));
    buf_putc(out, ',');
    queue_settings_write(out, &q->settings);
    buf_putc(out, ',');
    ops_put_tasks(out, q);
    buf_putc(out, '}');
}

/* ---- one queue ---- */

static void finish_queue(struct request *r)
{
    const struct work *w = r->work;

    if (r->op.err != ERR_OK || !w->queue.found) {
        reply_fault(r);
        return;
    }
    struct buf *out = reply_json(&r->reply, w->queue.is_new ? 201 : 200);

    put_queue(out, w->queue.found);
    buf_putc(out, '\n');
}

static void finish_pause(struct request *r)
{
    struct work *w = r->work;

    if (r->op.err != ERR_OK || !w->queue.found || w->queue.found->delivering == 0) {
        finish_queue(r);
        return;
    }
    store_queue_stats_destroy(&w->queue.found);
    w->queue.action = STORE_QUEUE_READ;
    request_submit_later(r, PAUSE_SETTLE_MS, STORE_QUEUE, REQUEST_STORE_WAIT_MS, finish_queue);
}

static void finish_delete(struct request *r)
{
    if (r->op.err == ERR_OK)
        reply_empty(&r->reply, 204);
    else
        reply_fault(r);
}

static void submit_queue(struct request *r, enum store_queue_action action, void (*finish)(struct request *r))
{
    struct work *w = begin(r);

    if (!w)
        return;
    w->queue.action = action;
    r->op.queue = &w->queue;
    request_submit(r, STORE_QUEUE, REQUEST_STORE_WAIT_MS, finish);
}

void queues_get(struct request *r)
{
    submit_queue(r, STORE_QUEUE_READ, finish_queue);
}

void queues_delete(struct request *r)
{
    submit_queue(r, STORE_QUEUE_DELETE, finish_delete);
}

void queues_pause(struct request *r)
{
    submit_queue(r, STORE_QUEUE_PAUSE, finish_pause);
}

void queues_resume(struct request *r)
{
    submit_queue(r, STORE_QUEUE_RESUME, finish_queue);
}

static void refuse_name(struct request *r)
{
    struct faults faults;

    faults_init(&faults);
    faults_add(&faults, "queue",
               "must be 1 to %d lower-case letters, digits or one of . _ -, and begin with a letter or digit",
               TASK_QUEUE_MAX);
    reply_problem_faults(&r->reply, ERR_INVALID, "parameter", &faults);
    faults_deinit(&faults);
}

/* To pause by PUT is to pause: its answer waits as well. */
void queues_put(struct request *r)
{
    struct faults faults;
    struct queue_settings settings;
    enum err err = ERR_OK;

    if (!has_queue_name(r)) {
        refuse_name(r);
        return;
    }
    faults_init(&faults);
    err = queue_settings_parse(r->body ? r->body : "", r->body_bytes, &faults, &settings);
    if (err == ERR_OK) {
        submit_queue(r, STORE_QUEUE_PUT, settings.is_paused ? finish_pause : finish_queue);
        struct work *w = r->work;

        w->settings = settings;
        w->queue.settings = &w->settings;
    } else {
        reply_problem_faults(&r->reply, err, "pointer", &faults);
        queue_settings_deinit(&settings);
    }
    faults_deinit(&faults);
}

/* ---- all queues ---- */

static void finish_list(struct request *r)
{
    struct store_stats *s = r->op.stats;

    r->op.stats = NULL;
    if (r->op.err == ERR_OK && s) {
        struct buf *out = reply_json(&r->reply, 200);

        buf_puts(out, "{\"queues\":[");
        for (size_t i = 0; i < s->queue_count; i++) {
            if (i > 0)
                buf_putc(out, ',');
            put_queue(out, &s->queues[i]);
        }
        buf_puts(out, "]}\n");
    } else {
        request_reply_store_fault(r);
    }
    store_stats_destroy(&s);
}

void queues_list(struct request *r)
{
    request_submit(r, STORE_STATS, REQUEST_STORE_WAIT_MS, finish_list);
}

/* ---- many tasks ---- */

static void finish_step(struct request *r)
{
    const struct work *w = r->work;
    struct buf *out = NULL;

    if (r->op.err != ERR_OK) {
        reply_fault(r);
    } else if (w->sweep.is_done) {
        out = reply_json(&r->reply, 200);
        buf_puts(out, "{\"count\":");
        buf_put_int(out, w->sweep.count);
        buf_puts(out, "}\n");
    } else if (request_is_given_up(r)) {
        reply_problem(&r->reply, ERR_SHUTTING_DOWN, "The gateway stops before this was done: send the request again");
    } else {
        request_submit(r, r->op.kind, REQUEST_STORE_WAIT_MS, finish_step);
    }
}

void queues_purge(struct request *r)
{
    struct work *w = begin(r);

    if (!w)
        return;
    r->op.sweep = &w->sweep;
    request_submit(r, STORE_PURGE, REQUEST_STORE_WAIT_MS, finish_step);
}

/* Nothing but blanks is fine and needs no type. False: the reply is set. */
static bool read_limit(struct request *r, int *limit)
{
    const char *detail = NULL;
    enum err err = ERR_OK;
    struct faults faults;

    if (!r->body || strspn(r->body, " \t\r\n") == r->body_bytes)
        return true;
    err = head_check_json(&r->head, &detail);
    if (err != ERR_OK) {
        reply_problem(&r->reply, err, detail);
        return false;
    }
    faults_init(&faults);
    err = queue_redrive_parse(r->body, r->body_bytes, &faults, limit);
    if (err != ERR_OK)
        reply_problem_faults(&r->reply, err, "pointer", &faults);
    faults_deinit(&faults);
    return err == ERR_OK;
}

void queues_redrive(struct request *r)
{
    int limit = QUEUE_REDRIVE_DEFAULT;
    struct work *w = NULL;

    if (!read_limit(r, &limit))
        return;
    w = begin(r);
    if (!w)
        return;
    w->sweep.limit = limit;
    r->op.sweep = &w->sweep;
    request_submit(r, STORE_REDRIVE_QUEUE, REQUEST_STORE_WAIT_MS, finish_step);
}
