#include "store_fake.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One thread takes the operations and answers them, as the real store does. Records are kept in a list under the lock,
 * which the tests' own functions take as well. Held operations wait in a list of the thread. */

#define TICK_MS 5

struct record {
    struct record *next;
    struct task *task;
};

struct store {
    struct queue *arrived;
    struct thread *thread;
    struct store_op *held; /* the thread's */
    pthread_mutex_t lock;
    enum store_fake_mode mode; /* under lock, as all below */
    bool is_ending;
    struct record *records;
    size_t counts[STORE_KIND_COUNT];
};

static struct task *copy_task(const struct task *t)
{
    struct task *copy = task_create();

    free(copy->queue);
    copy->id = xstrdup(t->id);
    copy->queue = xstrdup(t->queue);
    copy->url = xstrdup(t->url);
    copy->method = t->method;
    copy->header_count = t->header_count;
    copy->headers = t->header_count ? xcalloc(t->header_count, sizeof(*copy->headers)) : NULL;
    for (size_t i = 0; i < t->header_count; i++) {
        copy->headers[i].name = xstrdup(t->headers[i].name);
        copy->headers[i].value = xstrdup(t->headers[i].value);
    }
    copy->body_kind = t->body_kind;
    copy->body = t->body ? xstrndup(t->body, t->body_bytes) : NULL;
    copy->body_bytes = t->body_bytes;
    copy->retry.max_attempts = t->retry.max_attempts;
    copy->has_digest = t->has_digest;
    memcpy(copy->digest, t->digest, sizeof(copy->digest));
    copy->state = t->state;
    copy->run_at_ms = t->run_at_ms;
    copy->created_at_ms = t->created_at_ms;
    copy->when_ms = t->when_ms;
    copy->cancel_requested = t->cancel_requested;
    return copy;
}

static struct record *find(struct store *s, const char *id)
{
    for (struct record *r = s->records; r; r = r->next) {
        if (strcmp(r->task->id, id) == 0)
            return r;
    }
    return NULL;
}

static void create(struct store *s, struct store_op *op)
{
    struct record *r = s->mode == STORE_FAKE_BLIND ? NULL : find(s, op->task->id);

    if (r) {
        op->existing = copy_task(r->task);
        op->is_repeat = op->task->has_digest && memcmp(op->task->digest, r->task->digest, TASK_DIGEST_BYTES) == 0;
        op->err = op->is_repeat ? ERR_OK : ERR_ID_CONFLICT;
        return;
    }
    op->task->state = TASK_SCHEDULED;
    op->task->created_at_ms = clock_wall_ms();
    op->task->run_at_ms = op->task->is_due_absolute ? op->task->due_ms : op->task->created_at_ms + op->task->due_ms;
    if (s->mode == STORE_FAKE_BLIND)
        return;
    r = xcalloc(1, sizeof(*r));
    r->task = copy_task(op->task);
    r->next = s->records;
    s->records = r;
}

static void cancel(struct store *s, struct store_op *op)
{
    struct record *r = find(s, op->id);

    if (!r) {
        op->err = ERR_TASK_NOT_FOUND;
        return;
    }
    switch (r->task->state) {
    case TASK_SCHEDULED:
    case TASK_READY:
        r->task->state = TASK_CANCELLED;
        break;
    case TASK_DELIVERING:
        r->task->cancel_requested = true;
        op->task = copy_task(r->task);
        break;
    case TASK_CANCELLED:
        op->is_repeat = true;
        break;
    case TASK_DELIVERED:
    case TASK_DEAD:
    case TASK_EXPIRED:
    case TASK_STATE_COUNT:
        op->err = ERR_STATE_CONFLICT;
        break;
    }
    op->state = r->task->state;
}

static void stats(struct store *s, struct store_op *op)
{
    struct store_stats *out = xcalloc(1, sizeof(*out));

    out->now_ms = clock_wall_ms();
    out->all.oldest_overdue_ms = -1;
    out->all.oldest_delivering_ms = -1;
    for (const struct record *r = s->records; r; r = r->next)
        out->all.scheduled += r->task->state == TASK_SCHEDULED;
    out->queues = xcalloc(1, sizeof(*out->queues));
    out->queues[0] = out->all;
    out->queues[0].name = xstrdup("default");
    out->queue_count = 1;
    out->created = (int64_t)s->counts[STORE_CREATE];
    out->next_due_in_ms = -1;
    memcpy(out->redis_version, "7.0.15", sizeof("7.0.15"));
    out->used_memory_bytes = 1000000;
    out->rtt_us = 125;
    op->stats = out;
}

/* Under the lock. */
static void answer(struct store *s, struct store_op *op)
{
    struct record *r = NULL;

    op->err = ERR_OK;
    switch (op->kind) {
    case STORE_CREATE:
        create(s, op);
        break;
    case STORE_GET:
        r = find(s, op->id);
        op->task = r ? copy_task(r->task) : NULL;
        op->err = r ? ERR_OK : ERR_TASK_NOT_FOUND;
        break;
    case STORE_CANCEL:
        cancel(s, op);
        break;
    case STORE_STATS:
        stats(s, op);
        break;
    case STORE_PROBE:
        break;
    case STORE_SETTLE:
    case STORE_RENEW:
    case STORE_LIST:
    case STORE_GLANCE:
    case STORE_PATCH:
    case STORE_RUN:
    case STORE_REDRIVE:
    case STORE_QUEUE:
    case STORE_PURGE:
    case STORE_REDRIVE_QUEUE:
    case STORE_KIND_COUNT:
        op->err = ERR_INTERNAL;
        break;
    }
}

/* Whether the operation has its answer; it waits otherwise. */
static bool try_answer(struct store *s, struct store_op *op)
{
    bool is_done = true;

    (void)pthread_mutex_lock(&s->lock);
    if (s->is_ending) {
        op->err = ERR_UNAVAILABLE;
    } else if (s->mode == STORE_FAKE_UP || s->mode == STORE_FAKE_BLIND) {
        answer(s, op);
    } else if (s->mode == STORE_FAKE_BROKEN) {
        op->err = ERR_INTERNAL;
    } else {
        is_done = s->mode == STORE_FAKE_DOWN && clock_mono_ms() >= op->deadline_mono_ms;
        op->err = ERR_UNAVAILABLE;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return is_done;
}

static void count(struct store *s, const struct store_op *op)
{
    (void)pthread_mutex_lock(&s->lock);
    s->counts[op->kind]++;
    (void)pthread_mutex_unlock(&s->lock);
}

/* Answer what can be answered of a chain; the rest stays in `held`. */
static void serve(struct store *s, struct queue_node *chain)
{
    while (chain) {
        struct store_op *op = (struct store_op *)chain;

        chain = chain->next;
        op->node.next = NULL;
        if (try_answer(s, op)) {
            op->done(op);
        } else {
            op->node.next = s->held ? &s->held->node : NULL;
            s->held = op;
        }
    }
}

static bool is_ending(struct store *s)
{
    bool result = false;

    (void)pthread_mutex_lock(&s->lock);
    result = s->is_ending;
    (void)pthread_mutex_unlock(&s->lock);
    return result;
}

static void run(void *ctx)
{
    struct store *s = ctx;
    struct pollfd fd = {.fd = queue_fd(s->arrived), .events = POLLIN};
    bool is_last = false;

    while (!is_last) {
        struct store_op *held = s->held;
        struct queue_node *arrived = NULL;

        (void)poll(&fd, 1, held ? TICK_MS : -1);
        is_last = is_ending(s); /* before taking: what arrives later is refused by store_submit */
        arrived = queue_take_all(s->arrived);
        for (struct queue_node *n = arrived; n; n = n->next)
            count(s, (const struct store_op *)n);
        s->held = NULL;
        if (held)
            serve(s, &held->node);
        serve(s, arrived);
    }
}

enum err store_create(const struct store_opts *opts, struct store **out)
{
    (void)opts;
    *out = store_fake_create();
    return ERR_OK;
}

struct store *store_fake_create(void)
{
    struct store *s = xcalloc(1, sizeof(*s));

    s->arrived = queue_create();
    if (pthread_mutex_init(&s->lock, NULL) != 0 || thread_start("fake", run, s, &s->thread) != ERR_OK)
        abort();
    return s;
}

void store_destroy(struct store **s)
{
    struct store *self = *s;

    *s = NULL;
    if (!self)
        return;
    (void)pthread_mutex_lock(&self->lock);
    self->is_ending = true;
    (void)pthread_mutex_unlock(&self->lock);
    queue_wake(self->arrived);
    thread_join(&self->thread);
    while (self->records) {
        struct record *r = self->records;

        self->records = r->next;
        task_destroy(&r->task);
        free(r);
    }
    queue_destroy(&self->arrived);
    (void)pthread_mutex_destroy(&self->lock);
    free(self);
}

void store_submit(struct store *s, struct store_op *op)
{
    store_submit_chain(s, op, op);
}

void store_submit_chain(struct store *s, struct store_op *first, struct store_op *last)
{
    queue_push_chain(s->arrived, &first->node, &last->node);
}

bool store_is_up(const struct store *s)
{
    return s != NULL;
}

void store_fake_set_mode(struct store *s, enum store_fake_mode mode)
{
    (void)pthread_mutex_lock(&s->lock);
    s->mode = mode;
    (void)pthread_mutex_unlock(&s->lock);
    queue_wake(s->arrived);
}

bool store_fake_set_state(struct store *s, const char *id, enum task_state state)
{
    struct record *r = NULL;

    (void)pthread_mutex_lock(&s->lock);
    r = find(s, id);
    if (r)
        r->task->state = state;
    (void)pthread_mutex_unlock(&s->lock);
    return r != NULL;
}

size_t store_fake_count(struct store *s, enum store_kind kind)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&s->lock);
    n = s->counts[kind];
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}
