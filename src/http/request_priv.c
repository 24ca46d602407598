#include "http/request_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* The life of a request's memory.
 *
 * A body of declared length gets its memory at once, which for a large one costs nothing until bytes arrive; a chunked
 * one grows by doubling. The limit is checked before anything is copied, so no client makes the gateway hold more than
 * max-body for one request. */

#define BODY_FIRST_BYTES 1024

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

void request_release(struct request **r)
{
    struct request *self = *r;

    *r = NULL;
    if (!self || --self->holders > 0)
        return;
    request_drop_body(self);
    reply_deinit(&self->reply);
    task_destroy(&self->task);
    free(self);
}

void request_drop_body(struct request *r)
{
    free(r->body);
    r->body = NULL;
    r->body_bytes = 0;
    r->body_capacity = 0;
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

    if (n > r->env->opts.max_body_bytes - r->body_bytes)
        goto out;
    err = ERR_OK;
    if (r->body_bytes + n >= r->body_capacity)
        err = reserve(r, r->body_bytes + n);
    if (err != ERR_OK)
        goto out;
    memcpy(r->body + r->body_bytes, data, n);
    r->body_bytes += n;
    r->body[r->body_bytes] = '\0';
out:
    if (err != ERR_OK)
        request_drop_body(r);
    return err;
}

enum err request_skip_body(struct request *r, size_t n)
{
    if (n > r->env->opts.max_body_bytes - r->body_bytes)
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
    r->finish = finish;
    r->phase = REQUEST_WAITING;
    r->holders++;
}

void request_reply_store_fault(struct request *r)
{
    bool is_change = r->op.kind == STORE_CREATE || r->op.kind == STORE_CANCEL;

    if (r->op.err == ERR_UNAVAILABLE && is_change)
        reply_problem(&r->reply, ERR_UNAVAILABLE,
                      "The task store did not answer in time; whether this took effect is not known");
    else if (r->op.err == ERR_UNAVAILABLE)
        reply_problem(&r->reply, ERR_UNAVAILABLE, "The task store did not answer in time");
    else if (r->op.err == ERR_TOO_MANY_PENDING)
        reply_problem(&r->reply, ERR_TOO_MANY_PENDING, "As many tasks are pending as the setting max-pending allows");
    else if (r->op.err == ERR_NOMEM)
        reply_problem(&r->reply, ERR_NOMEM, "There was no memory for this request");
    else
        reply_problem(&r->reply, ERR_INTERNAL, "The gateway could not handle this request");
}
