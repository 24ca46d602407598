#include "run/worker.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include "deliver/pool.h"
#include "store/feed.h"
#include "task/outcome.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A delivery is one task in this thread's hands:
 *
 *   feed -> sending -> settling -> gone
 *             |           ^
 *             +-----------+   on_done: the outcome is decided
 *
 * While it is sending or settling its lease is renewed, so nobody takes it for lost. A delivery that settles no longer
 * fills a slot: the next one may begin while Redis writes the last. Their number is bounded all the same (see
 * free_slots), because outcomes pile up when Redis is away. */

#define RELEASE_DELAY_MS 1000 /* before a task given back for a local reason is due again */
#define DEAD_LOG_INTERVAL_MS 100
#define OUTBOX_LINGER_MS 1 /* outcomes wait so long for company: nobody waits for them, and Redis works less */
#define OUTBOX_FULL 32

struct delivery {
    struct store_op op;               /* first member: the op's node is the delivery's */
    struct delivery *next, *previous; /* in worker->deliveries */
    struct task *task;
    bool is_settling;
    int64_t offset_us; /* Redis time minus our monotonic time, at the claim */
    int64_t started_mono_ms;
    int64_t renewed_mono_ms;
    char error[256];
};

/* A renewal under way. */
struct renewal {
    struct store_op op; /* first member */
    size_t count;
    struct store_lease leases[STORE_CALL_MAX];
};

struct worker {
    struct worker_opts opts;
    char consumer[160];
    struct loop *loop;
    struct queue *settled; /* ops the store has done */
    struct feed *feed;
    struct pool *pool;
    struct thread *thread;
    struct delivery *deliveries;
    int delivery_count;
    struct store_op *outbox_first, *outbox_last; /* gathered, to be handed to the store together */
    int outbox_count;
    int64_t outbox_since_mono_ms;
    int renewals_under_way;
    int64_t next_renew_mono_ms;
    struct log_limit dead_limit;
    bool has_aborted;
    bool has_room_news;
    atomic_bool is_draining, is_aborting, is_stopping, is_done, is_up;
    atomic_int in_flight;
    atomic_llong ended;
};

/* ----------------------------------------------------------- deliveries */

static struct delivery *delivery_open(struct worker *w, struct task *t, const struct store_lease *lease)
{
    struct delivery *d = xcalloc(1, sizeof *d);

    d->task = t;
    d->op.lease = *lease;
    d->started_mono_ms = d->renewed_mono_ms = clock_mono_ms();
    d->next = w->deliveries;
    if (d->next)
        d->next->previous = d;
    w->deliveries = d;
    w->delivery_count++;
    return d;
}

static void delivery_free(struct delivery *d)
{
    task_destroy(&d->task);
    free(d);
}

static void delivery_close(struct worker *w, struct delivery *d)
{
    if (d->previous)
        d->previous->next = d->next;
    else
        w->deliveries = d->next;
    if (d->next)
        d->next->previous = d->previous;
    w->delivery_count--;
    delivery_free(d);
}

static void on_op_done(struct store_op *op)
{
    queue_push(op->owner, &op->node);
}

static void post(struct worker *w, struct store_op *op)
{
    op->owner = w->settled;
    op->done = on_op_done;
    op->node.next = NULL;
    if (w->outbox_last)
        w->outbox_last->node.next = &op->node;
    else
        w->outbox_first = op;
    w->outbox_last = op;
    if (w->outbox_count++ == 0)
        w->outbox_since_mono_ms = clock_mono_ms();
}

static void settle(struct worker *w, struct delivery *d, enum store_settle how, int64_t delay_ms)
{
    d->is_settling = true;
    d->op.kind = STORE_SETTLE;
    d->op.task = d->task;
    d->op.settle = how;
    d->op.retry_delay_ms = delay_ms;
    post(w, &d->op);
}

/* ------------------------------------------------------------- outcomes */

static int64_t due_us(const struct task *t)
{
    return (t->when_ms > 0 ? t->when_ms : t->run_at_ms) * 1000;
}

static void report_dead(struct worker *w, const struct delivery *d, const struct webhook_result *r)
{
    long held = 0;

    if (log_limit_pass(&w->dead_limit, DEAD_LOG_INTERVAL_MS, &held))
        LOG_WARN("task.dead", "task=%s queue=%s attempts=%d status=%d repeats=%ld", d->task->id, d->task->queue,
                 d->task->attempts + 1, r->status, held);
}

static void record_attempt(struct delivery *d, const struct webhook_result *r)
{
    memcpy(d->error, r->error, sizeof d->error);
    d->op.attempt = (struct task_attempt){.at_ms = d->started_mono_ms + d->offset_us / 1000,
                                          .duration_ms = r->duration_ms,
                                          .status = r->status,
                                          .error = d->error[0] ? d->error : NULL};
}

static void decide(struct worker *w, struct delivery *d, const struct webhook_result *r)
{
    int64_t now_ms = (clock_mono_us() + d->offset_us) / 1000;
    struct outcome o = outcome_decide(d->task, r->status, r->retry_after_ms, now_ms, ident_random_unit());

    LOG_DEBUG("task.attempt", "task=%s attempt=%d status=%d ms=%lld", d->task->id, d->task->attempts + 1, r->status,
              (long long)r->duration_ms);
    record_attempt(d, r);
    switch (o.kind) {
    case OUTCOME_DELIVERED:
        settle(w, d, STORE_SETTLE_DELIVERED, 0);
        break;
    case OUTCOME_RETRY:
        settle(w, d, STORE_SETTLE_RETRY, o.delay_ms);
        break;
    case OUTCOME_DEAD:
        report_dead(w, d, r);
        settle(w, d, STORE_SETTLE_DEAD, 0);
        break;
    }
}

static void on_attempt_done(void *ctx, void *owner, const struct webhook_result *r)
{
    struct worker *w = ctx;
    struct delivery *d = owner;

    w->has_room_news = true;
    if (r->sent_mono_us > 0)
        metrics_window_record(w->opts.lateness, r->sent_mono_us + d->offset_us - due_us(d->task));
    if (r->is_local_failure) {
        settle(w, d, STORE_SETTLE_RELEASE, w->has_aborted ? 0 : RELEASE_DELAY_MS);
        return;
    }
    atomic_fetch_add(&w->ended, 1);
    decide(w, d, r);
}

/* ------------------------------------------------------------------ feed */

static int free_slots(void *ctx)
{
    struct worker *w = ctx;
    int slots = w->opts.capacity - pool_in_flight(w->pool);
    int unsettled = 2 * w->opts.capacity - w->delivery_count;

    return slots < unsettled ? slots : unsettled;
}

static void on_task(void *ctx, struct task *t, const struct store_lease *lease, int64_t claimed_at_us,
                    int64_t claimed_mono_us)
{
    struct worker *w = ctx;
    struct delivery *d = delivery_open(w, t, lease);
    int number = t->attempts + 1;

    d->offset_us = claimed_at_us - claimed_mono_us;
    if (atomic_load(&w->is_draining)) {
        settle(w, d, STORE_SETTLE_RELEASE, 0);
        return;
    }
    if (pool_start(w->pool, t, number, d->offset_us, number >= t->retry.max_attempts, d) != ERR_OK)
        settle(w, d, STORE_SETTLE_RELEASE, RELEASE_DELAY_MS);
}

static bool has_entry(void *ctx, const char *entry_id)
{
    const struct worker *w = ctx;

    for (const struct delivery *d = w->deliveries; d; d = d->next)
        if (strcmp(d->op.lease.entry_id, entry_id) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------- renewing */

static int64_t renew_interval_ms(const struct worker *w)
{
    return w->opts.redis->claim_idle_ms / 3;
}

static void post_renewal(struct worker *w, struct renewal *r)
{
    r->op.kind = STORE_RENEW;
    r->op.deadline_mono_ms = clock_mono_ms() + renew_interval_ms(w);
    r->op.consumer = w->consumer;
    r->op.leases = r->leases;
    r->op.lease_count = r->count;
    w->renewals_under_way++;
    post(w, &r->op);
}

/* Only what has been here for a while: most deliveries end before they need it. */
static void renew(struct worker *w)
{
    int64_t now = clock_mono_ms();
    struct renewal *r = NULL;

    if (now < w->next_renew_mono_ms || w->renewals_under_way > 0)
        return;
    w->next_renew_mono_ms = now + renew_interval_ms(w) / 2;
    for (struct delivery *d = w->deliveries; d; d = d->next) {
        if (now - d->renewed_mono_ms < renew_interval_ms(w))
            continue;
        d->renewed_mono_ms = now;
        if (!r)
            r = xcalloc(1, sizeof *r);
        r->leases[r->count++] = d->op.lease;
        if (r->count == STORE_CALL_MAX) {
            post_renewal(w, r);
            r = NULL;
        }
    }
    if (r)
        post_renewal(w, r);
}

/* ------------------------------------------------------------------ turn */

static void on_settled(void *ctx, int fd, unsigned events)
{
    struct worker *w = ctx;

    (void)fd;
    (void)events;
    for (struct queue_node *n = queue_take_all(w->settled), *next; n; n = next) {
        struct store_op *op = (struct store_op *)(void *)n;
        next = n->next;
        if (op->kind == STORE_RENEW) {
            w->renewals_under_way--;
            free(op);
            continue;
        }
        struct delivery *d = (struct delivery *)(void *)op;
        if (op->is_stale)
            LOG_WARN("task.stale", "task=%s", d->task->id);
        delivery_close(w, d);
    }
}

/* Returns the time in ms until the outbox wants to go, -1 when it is empty. */
static int64_t hand_over(struct worker *w)
{
    if (w->outbox_count == 0)
        return -1;
    if (w->outbox_count < OUTBOX_FULL && clock_mono_ms() - w->outbox_since_mono_ms <= OUTBOX_LINGER_MS)
        return OUTBOX_LINGER_MS;
    store_submit_chain(w->opts.store, w->outbox_first, w->outbox_last);
    w->outbox_first = w->outbox_last = NULL;
    w->outbox_count = 0;
    return -1;
}

static void follow_orders(struct worker *w)
{
    if (atomic_load(&w->is_draining))
        feed_stop(w->feed);
    if (atomic_load(&w->is_aborting) && !w->has_aborted) {
        w->has_aborted = true;
        pool_abort_all(w->pool);
    }
    if (atomic_load(&w->is_draining) && feed_is_stopped(w->feed) && w->delivery_count == 0)
        atomic_store(&w->is_done, true);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return b < 0 || (a >= 0 && a < b) ? a : b;
}

static void run(void *ctx)
{
    struct worker *w = ctx;

    while (!atomic_load(&w->is_stopping)) {
        int64_t wait_ms = pool_run(w->pool);
        renew(w);
        wait_ms = sooner(wait_ms, hand_over(w));
        follow_orders(w); /* before the tick, which acts on them */
        wait_ms = sooner(wait_ms, feed_tick(w->feed));
        if (w->delivery_count > 0)
            wait_ms = sooner(wait_ms, renew_interval_ms(w) / 4);
        atomic_store(&w->in_flight, pool_in_flight(w->pool));
        atomic_store(&w->is_up, feed_is_up(w->feed));
        if (w->has_room_news) {
            w->has_room_news = false;
            w->opts.on_room(w->opts.ctx);
        }
        loop_turn(w->loop, wait_ms < 0 ? -1 : wait_ms * 1000);
    }
}

/* ------------------------------------------------------------------ life */

static enum err create_parts(struct worker *w)
{
    struct pool_opts pool = {.loop = w->loop,
                             .capacity = w->opts.capacity,
                             .allow_net = w->opts.allow_net,
                             .secrets = w->opts.secrets,
                             .ca_file = w->opts.ca_file,
                             .version = w->opts.version,
                             .on_done = on_attempt_done,
                             .ctx = w};
    struct feed_opts feed = {.redis = w->opts.redis,
                             .loop = w->loop,
                             .consumer = w->consumer,
                             .capacity = w->opts.capacity,
                             .free_slots = free_slots,
                             .on_task = on_task,
                             .has_entry = has_entry,
                             .ctx = w};
    enum err err = pool_create(&pool, &w->pool);

    return err == ERR_OK ? feed_create(&feed, &w->feed) : err;
}

enum err worker_start(const struct worker_opts *opts, struct worker **out)
{
    struct worker *w = xcalloc(1, sizeof *w);
    char name[16];
    enum err err;

    *out = NULL;
    w->opts = *opts;
    (void)snprintf(w->consumer, sizeof w->consumer, "%s/%d", opts->redis->gateway, opts->index);
    (void)snprintf(name, sizeof name, "worker-%d", opts->index);
    w->loop = loop_create();
    w->settled = queue_create();
    loop_set(w->loop, queue_fd(w->settled), LOOP_READ, on_settled, w);
    err = create_parts(w);
    if (err == ERR_OK)
        err = thread_start(name, run, w, &w->thread);
    if (err == ERR_OK)
        *out = w;
    else
        worker_destroy(&w);
    return err;
}

void worker_drain(struct worker *w)
{
    atomic_store(&w->is_draining, true);
    loop_wake(w->loop);
}

void worker_abort(struct worker *w)
{
    atomic_store(&w->is_draining, true);
    atomic_store(&w->is_aborting, true);
    loop_wake(w->loop);
}

bool worker_is_done(const struct worker *w)
{
    return atomic_load(&w->is_done);
}

void worker_stop(struct worker *w)
{
    atomic_store(&w->is_stopping, true);
    loop_wake(w->loop);
    thread_join(&w->thread);
}

void worker_destroy(struct worker **worker)
{
    struct worker *w = *worker;

    if (!w)
        return;
    *worker = NULL;
    worker_stop(w);
    feed_destroy(&w->feed);
    pool_destroy(&w->pool);
    on_settled(w, -1, 0);
    for (struct delivery *d = w->deliveries, *next; d; d = next) {
        next = d->next;
        delivery_free(d);
    }
    queue_destroy(&w->settled);
    loop_destroy(&w->loop);
    free(w);
}

bool worker_is_up(const struct worker *w)
{
    return atomic_load(&w->is_up);
}

int worker_in_flight(const struct worker *w)
{
    return atomic_load(&w->in_flight);
}

int worker_capacity(const struct worker *w)
{
    return w->opts.capacity;
}

int64_t worker_ended_count(const struct worker *w)
{
    return atomic_load(&w->ended);
}
