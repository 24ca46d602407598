#include "http/batch_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/request_priv.h"
#include "http/tasks_priv.h"
#include "task/task_json.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Many tasks in one request.
 *
 * Each task is judged alone, as if it had come in a request of its own. What is wrong with one becomes its result at
 * once; the good ones go to the store as one chain, so in the order of the batch and in few calls, and their results
 * are written when the last of them is done. Durable ones take another way through the store: a batch of both kinds
 * waits for the slower one. */

#define FAULTS_LISTED_MAX 2000 /* in all results; beyond, a result lists one: what is written stays within bounds */
#define DETAIL_SIZE 80

struct part {
    struct store_op op; /* first member: an operation that is done is its part */
    struct task *task;  /* NULL: it did not get to the store */
    char *refusal;      /* its result then */
};

struct batch {
    struct request *request;
    atomic_size_t waiting; /* for the store; counted down in its threads */
    size_t listed_count;   /* of faults */
    size_t count;
    struct part parts[];
};

static void destroy(void *work)
{
    struct batch *b = work;

    for (size_t i = 0; i < b->count; i++) {
        task_destroy(&b->parts[i].task);
        task_destroy(&b->parts[i].op.existing);
        free(b->parts[i].refusal);
    }
    free(b);
}

/* ---- results ---- */

static void put_problem(struct buf *out, const struct problem *p)
{
    buf_puts(out, "{\"status\":");
    buf_put_int(out, err_status(p->err));
    buf_puts(out, ",\"problem\":");
    reply_put_problem(out, p);
    buf_putc(out, '}');
}

static void put_result(struct buf *out, const struct part *part)
{
    struct tasks_created created;

    if (part->refusal) {
        buf_puts(out, part->refusal);
        return;
    }
    tasks_judge_created(&part->op, &created);
    if (!created.task) {
        put_problem(out, &created.problem);
        return;
    }
    buf_puts(out, "{\"status\":");
    buf_put_int(out, created.status);
    buf_puts(out, ",\"task\":");
    task_json_write_created(out, created.task, part->op.is_durable);
    buf_putc(out, '}');
}

static void answer(struct request *r)
{
    const struct batch *b = r->work;
    struct buf *out = reply_json(&r->reply, 200);

    buf_puts(out, "{\"results\":[");
    for (size_t i = 0; i < b->count; i++) {
        if (i > 0)
            buf_putc(out, ',');
        put_result(out, &b->parts[i]);
    }
    buf_puts(out, "]}\n");
}

/* ---- reading ---- */

/* Keep the first fault of a result that would make the answer too long. */
static void limit_faults(struct batch *b, struct faults *faults)
{
    while (b->listed_count >= FAULTS_LISTED_MAX && faults->count > 1) {
        faults->count--;
        faults->dropped++;
        free(faults->items[faults->count].pointer);
        free(faults->items[faults->count].detail);
    }
    b->listed_count += faults->count;
}

static void refuse(struct batch *b, struct part *part, enum err err, struct faults *faults)
{
    struct request *r = b->request;
    char detail[DETAIL_SIZE];
    struct problem p = {.err = err, .detail = detail};
    struct buf out;

    if (err == ERR_TOO_BIG) {
        (void)snprintf(detail, sizeof(detail), "A task may have %zu bytes", r->env->opts.max_body_bytes);
    } else if (err == ERR_INVALID) {
        limit_faults(b, faults);
        p.faults = faults;
        p.fault_key = "pointer";
    } else {
        p = request_store_problem(&(struct store_op){.err = err});
    }
    buf_init(&out, r->env->reply_max_bytes);
    put_problem(&out, &p);
    part->refusal = buf_take(&out, NULL);
    if (!part->refusal)
        part->op.err = ERR_NOMEM;
}

/* In one of the store's threads. */
static void part_done(struct store_op *op)
{
    struct batch *b = op->owner;

    if (atomic_fetch_sub(&b->waiting, 1) == 1)
        request_parts_done(b->request);
}

static void prepare(struct batch *b, struct part *part, int64_t now_mono_ms)
{
    struct store_op *op = &part->op;

    tasks_name(part->task);
    tasks_take_traceparent(&b->request->head, part->task);
    op->kind = STORE_CREATE;
    op->task = part->task;
    op->durability = part->task->durability;
    op->deadline_mono_ms = now_mono_ms + tasks_create_wait_ms(op->durability);
    op->done = part_done;
    op->owner = b;
}

static void read_part(struct batch *b, struct part *part, const struct task_json_item *item, int64_t now_mono_ms)
{
    const struct server_opts *server = &b->request->env->opts;
    struct task_json_opts opts = {.allow_net = server->allow_net, .durability = server->durability};
    struct faults faults;
    enum err err = ERR_OK;

    faults_init(&faults);
    err = task_json_parse_item(item, &opts, &faults, &part->task);
    if (err == ERR_OK)
        prepare(b, part, now_mono_ms);
    else
        refuse(b, part, err, &faults);
    faults_deinit(&faults);
}

/* Hand over the good ones; false: there is none. */
static bool submit(struct request *r, struct batch *b)
{
    struct store_op *first = NULL;
    struct store_op *last = NULL;
    size_t count = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct store_op *op = &b->parts[i].op;

        if (!b->parts[i].task)
            continue;
        if (last)
            last->node.next = &op->node;
        else
            first = op;
        last = op;
        count++;
    }
    if (!first)
        return false;
    atomic_init(&b->waiting, count);
    request_submit_parts(r, first, last, answer);
    return true;
}

static void read_parts(struct request *r, const struct task_json_item *items, size_t count)
{
    struct batch *b = xcalloc(1, sizeof(*b) + count * sizeof(b->parts[0]));
    int64_t now_mono_ms = clock_mono_ms();

    b->request = r;
    b->count = count;
    request_keep(r, b, destroy);
    for (size_t i = 0; i < count; i++)
        read_part(b, &b->parts[i], &items[i], now_mono_ms);
    request_drop_body(r); /* the tasks have their own copies of the payloads */
    if (!submit(r, b))
        answer(r);
}

static bool has_idempotency_key(struct request *r, struct faults *faults)
{
    if (r->head.idempotency_key_count == 0)
        return false;
    faults_add(faults, "Idempotency-Key", "is for one task: give the tasks of a batch ids of your own");
    reply_problem_faults(&r->reply, ERR_INVALID_HEADER, "header", faults);
    return true;
}

void tasks_batch(struct request *r)
{
    struct task_json_item *items = NULL;
    size_t count = 0;
    struct faults faults;
    enum err err = ERR_OK;

    faults_init(&faults);
    if (has_idempotency_key(r, &faults))
        goto out;
    items = xcalloc(TASK_JSON_BATCH_MAX, sizeof(*items));
    err = task_json_parse_batch(r->body ? r->body : "", r->body_bytes, r->env->opts.max_body_bytes, &faults, items,
                                &count);
    if (err == ERR_OK)
        read_parts(r, items, count);
    else
        reply_problem_faults(&r->reply, err, "pointer", &faults);
out:
    free(items);
    faults_deinit(&faults);
}
