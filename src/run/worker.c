#include "run/worker.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include "deliver/pool.h"
#include "run/care_priv.h"
#include "run/delivery_priv.h"
#include "run/renewal_priv.h"
#include "store/feed.h"
#include "task/outcome.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One loop; each turn looks at what ended, what may begin, what must be renewed and what goes to the store. A delivery
 * that settles no longer fills a slot: the next one may begin while Redis writes the last. Their number is bounded all
 * the same (see free_slots), because outcomes pile up when Redis is away.
 *
 * A task whose receiver has its share of slots already, or as many as it may have in flight, waits here for a moment,
 * since a fast receiver frees slots in no time, and then goes back to its lane in Redis; behind a receiver that hangs
 * or is not worth sending to nothing is kept here at all (run/care_priv.h). */

#define RELEASE_DELAY_MS 1000 /* before a task given back for a local reason is due again */
#define SHARE_WAIT_MS 50      /* for a slot of the receiver's share */
#define WAITING_LOOK_MS 5
#define WAITING_CROWD 4 /* a quarter of the capacity */
#define DEAD_LOG_INTERVAL_MS 100
#define OUTBOX_LINGER_MS 1 /* outcomes wait so long for company: nobody waits for them, and Redis works less */
#define OUTBOX_FULL 32

struct worker {
    struct worker_opts opts;
    char consumer[160];
    struct loop *loop;
    struct queue *settled; /* ops the store has done */
    struct feed *feed;
    struct pool *pool;
    struct endpoint own[2]; /* never dialled: the listener, and Redis as long as it is reached by TCP */
    struct endpoint_list own_list;
    struct share *share;
    struct thread *thread;
    struct deliveries all;
    struct renewals renewals;
    struct store_op *outbox_first, *outbox_last; /* gathered, to be handed to the store together */
    int outbox_count;
    int64_t outbox_since_mono_ms;
    struct log_limit dead_limit;
    bool has_aborted;
    bool has_room_news;
    bool was_up;
    atomic_bool is_draining, is_aborting, is_stopping, is_done, is_up;
    atomic_int in_flight;
    atomic_llong ended;
};

/* ------------------------------------------------------------- outcomes */

static void on_op_done(struct store_op *op)
{
    queue_push(op->owner, &op->node);
}

static void post(void *ctx, struct store_op *op)
{
    struct worker *w = ctx;

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
    delivery_move(&w->all, d, DELIVERY_SETTLING);
    d->op.kind = STORE_SETTLE;
    d->op.task = d->task;
    d->op.settle = how;
    d->op.retry_delay_ms = delay_ms;
    post(w, &d->op);
}

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

/* Clocks of two machines may differ by a little: it is never sent early. */
static int64_t lateness_us(const struct delivery *d, const struct webhook_result *r)
{
    int64_t us = r->sent_mono_us + d->offset_us - due_us(d->task);

    if (r->sent_mono_us == 0)
        return TASK_TIME_NONE;
    return us > 0 ? us : 0;
}

static void record_attempt(struct delivery *d, const struct webhook_result *r)
{
    memcpy(d->error, r->error, sizeof d->error);
    d->op.attempt = (struct task_attempt){.at_ms = d->started_mono_ms + d->offset_us / 1000,
                                          .duration_us = r->duration_us,
                                          .status = r->status,
                                          .error_kind = r->error_kind,
                                          .error = d->error[0] ? d->error : NULL,
                                          .lateness_us = lateness_us(d, r),
                                          .phases = r->phases};
}

static void decide(struct worker *w, struct delivery *d, const struct webhook_result *r)
{
    int64_t now_ms = (clock_mono_us() + d->offset_us) / 1000;
    struct outcome o = outcome_decide(d->task, r->status, r->retry_after_ms, now_ms, ident_random_unit());

    LOG_DEBUG("task.attempt", "task=%s attempt=%d status=%d ms=%lld", d->task->id, d->task->attempts + 1, r->status,
              (long long)r->duration_us / 1000);
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
    care_end(w->opts.destinations, d, r);
    if (r->is_local_failure) {
        settle(w, d, STORE_SETTLE_RELEASE, w->has_aborted ? 0 : RELEASE_DELAY_MS);
        return;
    }
    metrics_window_record(w->opts.durations, r->duration_us);
    atomic_fetch_add(&w->ended, 1);
    decide(w, d, r);
}

/* -------------------------------------------------------------- starting */

static int free_pool_slots(const struct worker *w)
{
    return w->opts.capacity - pool_in_flight(w->pool);
}

static void start(struct worker *w, struct delivery *d)
{
    const struct task *t = d->task;
    int number = t->attempts + 1;

    d->started_mono_ms = clock_mono_ms();
    if (pool_start(w->pool, t, number, d->offset_us, number >= t->retry.max_attempts, d) != ERR_OK) {
        care_end(w->opts.destinations, d, NULL);
        settle(w, d, STORE_SETTLE_RELEASE, RELEASE_DELAY_MS);
        return;
    }
    delivery_move(&w->all, d, DELIVERY_SENDING);
}

static void give_back(struct worker *w, struct delivery *d, int64_t now)
{
    atomic_fetch_add(&w->ended, 1); /* for the mover it is one more that makes room */
    w->has_room_news = true;
    settle(w, d, STORE_SETTLE_RELEASE, care_back_off_ms(w->opts.destinations, d, now));
}

/* A slot that its receiver may take is worth waiting for, but where slots are free it is the destination that may not
 * have more: few wait for that, so that others find a place. */
static void start_or_wait(struct worker *w, struct delivery *d, int64_t now)
{
    bool is_crowded = w->all.counts[DELIVERY_WAITING] > w->opts.capacity / WAITING_CROWD;

    switch (care_begin(w->opts.destinations, d, free_pool_slots(w), now)) {
    case DESTINATION_GO:
        start(w, d);
        break;
    case DESTINATION_FULL:
        if (now >= d->wait_until_mono_ms || (is_crowded && free_pool_slots(w) > w->opts.capacity / WAITING_CROWD))
            give_back(w, d, now);
        break;
    case DESTINATION_CLOSED:
        give_back(w, d, now);
        break;
    }
}

/* Start what has found a slot, give back what has waited long enough. What waited for claim-idle, because the process
 * stood still, may be another's since, or cancelled: giving it back changes nothing then. */
static void look_at_waiting(struct worker *w)
{
    int64_t now;

    if (w->all.counts[DELIVERY_WAITING] == 0)
        return;
    now = clock_mono_ms();
    for (struct delivery *d = TAILQ_FIRST(&w->all.lists[DELIVERY_WAITING]), *next; d; d = next) {
        next = TAILQ_NEXT(d, link);
        if (atomic_load(&w->is_draining) || now - d->wait_until_mono_ms > w->opts.redis->claim_idle_ms)
            settle(w, d, STORE_SETTLE_RELEASE, 0);
        else
            start_or_wait(w, d, now);
    }
}

/* ------------------------------------------------------------------ feed */

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* As long as a slot is free, more tasks are taken than there are slots: those whose receiver has its share wait for
 * a moment, while others, behind them in the Stream, find the slots that were kept for them. */
static int free_slots(void *ctx)
{
    struct worker *w = ctx;
    int waiting_max = w->opts.capacity + 1;
    int unsettled = 2 * w->opts.capacity + waiting_max - deliveries_count(&w->all);

    if (free_pool_slots(w) <= 0)
        return 0;
    return lesser(unsettled, waiting_max - w->all.counts[DELIVERY_WAITING]);
}

static void on_task(void *ctx, struct task *t, const struct store_lease *lease, int64_t claimed_at_us,
                    int64_t claimed_mono_us)
{
    struct worker *w = ctx;
    struct delivery *d = delivery_open(&w->all, w->share, t, lease, claimed_mono_us / 1000);

    d->offset_us = claimed_at_us - claimed_mono_us;
    d->wait_until_mono_ms = claimed_mono_us / 1000 + (share_is_stuck(d->host) ? 0 : SHARE_WAIT_MS);
}

static bool has_entry(void *ctx, const char *entry_id)
{
    const struct worker *w = ctx;

    return deliveries_have_entry(&w->all, entry_id);
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
            renewals_done(&w->renewals, op);
            continue;
        }
        struct delivery *d = (struct delivery *)(void *)op;
        if (op->is_stale && !op->was_repeated) /* else it may be our own settle that it found */
            LOG_WARN("task.stale", "task=%s", d->task->id);
        delivery_close(&w->all, w->share, d);
    }
}

static void empty_outbox(struct worker *w)
{
    if (w->outbox_count > 0)
        store_submit_chain(w->opts.store, w->outbox_first, w->outbox_last);
    w->outbox_first = w->outbox_last = NULL;
    w->outbox_count = 0;
}

/* Returns the time in ms until the outbox wants to go, -1 when it is empty. */
static int64_t hand_over(struct worker *w)
{
    if (w->outbox_count > 0 && w->outbox_count < OUTBOX_FULL &&
        clock_mono_ms() - w->outbox_since_mono_ms <= OUTBOX_LINGER_MS)
        return OUTBOX_LINGER_MS;
    empty_outbox(w);
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
    if (atomic_load(&w->is_draining) && feed_is_stopped(w->feed) && deliveries_count(&w->all) == 0)
        atomic_store(&w->is_done, true);
}

/* Tasks come only after this: the feed reads a turn later. The address is taken from the connection itself, so it is
 * right whatever the name of Redis meant before. */
static void note_redis(struct worker *w)
{
    struct endpoint *redis = &w->own[1];
    bool is_up = feed_is_up(w->feed);

    if (is_up && !w->was_up) {
        w->own_list.count = feed_peer(w->feed, redis) ? 2 : 1;
        if (w->own_list.count == 2 && netaddr_is_of_this_machine(&redis->address))
            redis->address = (struct netaddr){{0}}; /* it may listen on all of them */
    }
    w->was_up = is_up;
    atomic_store(&w->is_up, is_up);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return b < 0 || (a >= 0 && a < b) ? a : b;
}

static void run(void *ctx)
{
    struct worker *w = ctx;

    while (!atomic_load(&w->is_stopping)) {
        int64_t wait_ms;

        look_at_waiting(w);
        wait_ms = pool_run(w->pool);
        renewals_run(&w->renewals, &w->all, w->consumer, post, w);
        wait_ms = sooner(wait_ms, hand_over(w));
        follow_orders(w); /* before the tick, which acts on them */
        wait_ms = sooner(wait_ms, feed_tick(w->feed));
        if (deliveries_count(&w->all) > 0)
            wait_ms = sooner(wait_ms, renewals_wait_ms(&w->renewals));
        if (w->all.counts[DELIVERY_WAITING] > 0)
            wait_ms = sooner(wait_ms, w->has_room_news ? 0 : WAITING_LOOK_MS);
        atomic_store(&w->in_flight, pool_in_flight(w->pool));
        note_redis(w);
        if (w->has_room_news) {
            w->has_room_news = false;
            w->opts.on_room(w->opts.ctx);
        }
        loop_turn(w->loop, wait_ms < 0 ? -1 : wait_ms * 1000);
    }
    empty_outbox(w); /* every operation comes back by way of the store, and is freed then */
}

/* ------------------------------------------------------------------ life */

static enum err create_parts(struct worker *w)
{
    struct pool_opts pool = {.loop = w->loop,
                             .capacity = w->opts.capacity,
                             .allow_net = w->opts.allow_net,
                             .own = &w->own_list,
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
    w->own[0] = *opts->listener;
    w->own_list = (struct endpoint_list){.items = w->own, .count = 1};
    deliveries_init(&w->all);
    w->renewals.interval_ms = opts->redis->claim_idle_ms / 3;
    w->share = share_create();
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
    deliveries_deinit(&w->all, w->share);
    share_destroy(&w->share);
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
