#include "http/request_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* The life of a request's memory.
 *
 * A body of declared length gets its memory at once, which for a large one costs nothing until bytes arrive; a chunked
 * one grows by doubling. The limit is checked before anything is copied, so no client makes the gateway hold more than
 * max-body for one request; and what batches hold beyond that, all together at most as many bodies as LARGE_BATCHES of
 * them. */

#define BODY_FIRST_BYTES 1024
#define LARGE_BATCHES 16

struct request *request_create(const struct request_env *env, const char *target)
{
    size_t n = strlen(target) + 1;
    struct request *r = xcalloc(1, sizeof(*r) + n);

    r->env = env;
    r->holders = 1;
    r->began_mono_ms = clock_mono_ms();
    memcpy(r->target, target, n);
    reply_init(&r->reply, env->reply_max_bytes);
    return r;
}

/* What this body had beyond max-body counts no more. */
static void forget_large(struct request *r)
{
    if (r->large_bytes > 0)
        *r->env->large_bytes -= r->large_bytes;
    r->large_bytes = 0;
}

void request_release(struct request **r)
{
    struct request *self = *r;

    *r = NULL;
    if (!self || --self->holders > 0)
        return;
    request_drop_body(self);
    forget_large(self);
    reply_deinit(&self->reply);
    task_destroy(&self->task);
    if (self->destroy_work)
        self->destroy_work(self->work);
    free(self);
}

void request_keep(struct request *r, void *work, void (*destroy)(void *work))
{
    r->work = work;
    r->destroy_work = destroy;
}

bool request_is_given_up(const struct request *r)
{
    return !r->mhd || r->env->is_stopping;
}

void request_drop_body(struct request *r)
{
    free(r->body);
    r->body = NULL;
    r->body_bytes = 0;
    r->body_capacity = 0;
}

size_t request_body_max(const struct request *r)
{
    size_t max = r->env->opts.max_body_bytes;
    bool is_batch = r->match.route && (r->match.route->flags & ROUTE_BATCH);

    return is_batch ? max * ROUTE_BATCH_BODIES : max;
}

/* Count what a body of n bytes has beyond max-body. It counts until the request is over: what is made of the body takes
 * as much. False: there are too many large ones. */
static bool count_large(struct request *r, size_t n)
{
    size_t max = r->env->opts.max_body_bytes;
    size_t large = n > max ? n - max : 0;
    size_t *sum = r->env->large_bytes;

    if (large == 0)
        return true;
    if (*sum - r->large_bytes + large > max * ROUTE_BATCH_BODIES * LARGE_BATCHES)
        return false;
    *sum += large - r->large_bytes;
    r->large_bytes = large;
    if (*sum > *r->env->large_peak_bytes)
        *r->env->large_peak_bytes = *sum;
    return true;
}

static enum err reserve(struct request *r, size_t n)
{
    size_t capacity = r->body_capacity ? r->body_capacity * 2 : BODY_FIRST_BYTES;
    char *body = NULL;

    if (r->body_capacity == 0 && r->head.body_bytes > 0)
        capacity = (size_t)r->head.body_bytes + 1;
    if (capacity <= n)
        capacity = n + 1;
    body = realloc(r->body, capacity);
    if (!body)
        return ERR_NOMEM;
    r->body = body;
    r->body_capacity = capacity;
    return ERR_OK;
}

enum err request_add_body(struct request *r, const char *data, size_t n)
{
    enum err err = ERR_TOO_BIG;

    if (n > request_body_max(r) - r->body_bytes)
        goto out;
    err = count_large(r, r->body_bytes + n) ? ERR_OK : ERR_NOMEM;
    if (err == ERR_OK && r->body_bytes + n >= r->body_capacity)
        err = reserve(r, r->body_bytes + n);
    if (err != ERR_OK)
        goto out;
    memcpy(r->body + r->body_bytes, data, n);
    r->body_bytes += n;
    r->body[r->body_bytes] = '\0';
out:
    if (err != ERR_OK) {
        request_drop_body(r);
        forget_large(r);
    }
    return err;
}

enum err request_skip_body(struct request *r, size_t n)
{
    if (n > request_body_max(r) - r->body_bytes)
        return ERR_TOO_BIG;
    r->body_bytes += n;
    return ERR_OK;
}

/* In the store's thread. */
static void hand_back(struct store_op *op)
{
    const struct request *r = op->owner;

    queue_push(r->env->done, &op->node);
}

void request_submit(struct request *r, enum store_kind kind, int64_t wait_ms, void (*finish)(struct request *r))
{
    r->op.kind = kind;
    r->op.deadline_mono_ms = clock_mono_ms() + wait_ms;
    r->op.done = hand_back;
    r->op.owner = r;
    r->op.was_sent = r->op.was_repeated = r->op.is_alone = false; /* of the operation before */
    r->begin_mono_ms = 0;
    r->finish = finish;
    r->phase = REQUEST_WAITING;
    r->holders++;
}

void request_submit_later(struct request *r, int64_t delay_ms, enum store_kind kind, int64_t wait_ms,
                          void (*finish)(struct request *r))
{
    request_submit(r, kind, delay_ms + wait_ms, finish);
    r->begin_mono_ms = clock_mono_ms() + delay_ms;
}

void request_submit_parts(struct request *r, struct store_op *first, struct store_op *last,
                          void (*finish)(struct request *r))
{
    request_submit(r, first->kind, 0, finish);
    r->first_part = first;
    r->last_part = last;
}

void request_parts_done(struct request *r)
{
    hand_back(&r->op);
}

static bool is_change(const struct store_op *op)
{
    enum store_kind kind = op->kind;

    return kind == STORE_CREATE || kind == STORE_CANCEL || kind == STORE_PATCH || kind == STORE_RUN ||
           kind == STORE_REDRIVE || kind == STORE_PURGE || kind == STORE_REDRIVE_QUEUE ||
           (kind == STORE_QUEUE && op->queue->action != STORE_QUEUE_READ);
}

struct problem request_store_problem(const struct store_op *op)
{
    struct problem p = {.err = op->err};

    if (op->err == ERR_UNAVAILABLE && is_change(op))
        p.detail = "The task store did not answer in time; whether this took effect is not known";
    else if (op->err == ERR_UNAVAILABLE)
        p.detail = "The task store did not answer in time";
    else if (op->err == ERR_TOO_MANY_PENDING)
        p.detail = "As many tasks are pending as the setting max-pending allows";
    else if (op->err == ERR_NOMEM)
        p.detail = "There was no memory for this request";
    else
        p = (struct problem){.err = ERR_INTERNAL, .detail = "The gateway could not handle this request"};
    return p;
}

void request_reply_store_fault(struct request *r)
{
    struct problem p = request_store_problem(&r->op);

    reply_with(&r->reply, &p);
}
