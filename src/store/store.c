#include "store/store.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/batch_priv.h"
#include "store/conn_priv.h"
#include "store/durable_priv.h"
#include "store/waiting_priv.h"
#include "store/settings_priv.h"
#include "store/stats_priv.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Group commit. Operations arrive in the inbox from any thread; the store's thread sorts them by kind and, whenever no
 * pipeline is under way, sends all that waits as one: what arrives meanwhile makes up the next one, so the busier it is
 * the larger the groups get, and nothing is ever delayed to wait for company.
 *
 *   submit -> inbox -> waiting[kind] -> batch (one script call) -> done
 *                          ^              |
 *                          +-- repeat ----+   lost connection, NOSCRIPT, Redis cannot now, one bad apple in a call
 *
 * Creates that ask for more than memory go to a second store of this kind, inside the first, since the connection that
 * waits for a disk or a replica can do nothing else meanwhile.
 *
 * An operation has one owner at any time: its submitter before submit and after done, the store between. Deadlines are
 * looked at every DEADLINE_LOOK_MS, in the waiting lists and in batches under way, whose entry is then emptied so that
 * the late answer finds nobody. */

#define REPLY_TIMEOUT_MS 1000
#define DEADLINE_LOOK_MS 50
#define CALL_BYTES_MAX (1u << 20) /* a call stops growing past this */
#define CALLS_PER_GROUP 8         /* of one kind */

/* One call under way. */
struct batch {
    struct store *store;
    struct batch *next, **link; /* in store->under_way */
    enum store_kind kind;
    int64_t sent_mono_us;
    size_t count;
    struct store_op *ops[]; /* NULL once its owner was answered */
};

struct store {
    struct store_opts opts;
    struct keys keys;
    struct loop *loop;
    struct queue *inbox;
    struct thread *thread;
    struct conn *conn;
    struct call call;
    struct buf scratch;
    struct waiting waiting;
    struct batch *under_way;
    struct store *sibling; /* for durable creates; NULL in itself */
    bool is_sibling;
    struct durable durable; /* used by the sibling */
    struct settings settings;
    int64_t next_look_mono_ms;
    int64_t used_memory_bytes;
    atomic_bool is_up;
    atomic_bool is_stopping;
};

static void answer(struct store_op *op, enum err err)
{
    op->err = err;
    op->done(op);
}

/* --------------------------------------------------------------- batches */

static struct batch *batch_open(struct store *s, enum store_kind kind, size_t count)
{
    struct batch *b = xcalloc(1, sizeof *b + count * sizeof(struct store_op *));

    b->store = s;
    b->kind = kind;
    b->count = count;
    b->next = s->under_way;
    b->link = &s->under_way;
    if (b->next)
        b->next->link = &b->next;
    s->under_way = b;
    return b;
}

static void batch_close(struct batch *b)
{
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    free(b);
}

/* Put the operations back in front, in their order. */
static void repeat_all(struct batch *b, bool alone)
{
    for (size_t i = b->count; i > 0; i--) {
        struct store_op *op = b->ops[i - 1];
        if (!op)
            continue;
        op->is_alone = op->is_alone || alone;
        waiting_put_back(&b->store->waiting, op);
    }
}

/* Redis cannot do it now: who has a deadline is told at once, the others try again a little later. */
static void hold_all(struct batch *b)
{
    for (size_t i = b->count; i > 0; i--) {
        struct store_op *op = b->ops[i - 1];
        if (!op)
            continue;
        if (op->deadline_mono_ms != 0)
            answer(op, ERR_UNAVAILABLE);
        else
            waiting_put_back(&b->store->waiting, op);
    }
    waiting_hold(&b->store->waiting, b->kind, clock_mono_ms());
}

/* The only operation of a call failed, and the next one may not. */
static void put_aside(struct batch *b)
{
    struct store_op *op = b->ops[0];

    if (op && op->deadline_mono_ms != 0)
        answer(op, ERR_UNAVAILABLE);
    else if (op)
        waiting_put_aside(&b->store->waiting, op, clock_mono_ms());
}

static void finish_stats(struct batch *b, const struct store *s)
{
    struct store_op *op = b->ops[0];

    if (!op || op->err != ERR_OK)
        return;
    op->stats->rtt_us = clock_mono_us() - b->sent_mono_us;
    op->stats->used_memory_bytes = s->used_memory_bytes;
    strncpy(op->stats->redis_version, conn_redis_version(s->conn), sizeof op->stats->redis_version - 1);
}

static void finish(struct store *s, struct store_op *op)
{
    if (s->is_sibling)
        durable_finish(&s->durable, op);
    else
        op->done(op);
}

static void finish_all(struct batch *b, const redisReply *reply)
{
    struct store *s = b->store;
    int64_t due;

    enum err err = batch_read(b->kind, b->ops, b->count, reply, &due);

    if (err == ERR_STATE_CONFLICT) {
        settings_forget(&s->settings);
        repeat_all(b, false);
        return;
    }
    if (err != ERR_OK) {
        LOG_ERROR("store.odd_reply", "kind=%d", (int)b->kind);
        conn_drop(s->conn, "an odd reply");
        hold_all(b);
        return;
    }
    if (b->kind == STORE_STATS)
        finish_stats(b, s);
    if (due >= 0 && s->opts.on_scheduled)
        s->opts.on_scheduled(s->opts.on_scheduled_ctx, due);
    for (size_t i = 0; i < b->count; i++)
        if (b->ops[i])
            finish(s, b->ops[i]);
}

static void on_batch(void *ctx, const redisReply *reply)
{
    struct batch *b = ctx;

    switch (reply ? conn_judge(b->store->conn, reply) : CONN_REPEAT) {
    case CONN_FINE:
        finish_all(b, reply);
        break;
    case CONN_REPEAT:
        repeat_all(b, false);
        break;
    case CONN_WAIT:
        hold_all(b);
        break;
    case CONN_FAILED:
        /* One bad record fails the whole call: each goes alone next, and alone it fails by itself. */
        if (b->count > 1)
            repeat_all(b, true);
        else
            put_aside(b);
        break;
    }
    batch_close(b);
}

/* --------------------------------------------------------------- sending */

/* How many of the waiting operations make up the next call. */
static size_t next_count(const struct op_list *l, enum store_kind kind)
{
    size_t max = batch_max(kind);
    size_t count = 0, bytes = 0;

    for (struct store_op *op = l->first; op && count < max; op = op->node.next ? op_list_op(op->node.next) : NULL) {
        bytes += batch_weight(op);
        if (count > 0 && (op->is_alone || bytes > CALL_BYTES_MAX))
            break;
        count++;
        if (op->is_alone)
            break;
    }
    return count;
}

static bool send_batch(struct store *s, enum store_kind kind)
{
    size_t count = next_count(&s->waiting.kinds[kind], kind);
    struct batch *b = batch_open(s, kind, count);
    enum script script;
    bool has_script = batch_script(kind, &script);
    const struct batch_env env = {
        .keys = &s->keys, .max_pending = s->opts.redis.max_pending, .scratch = &s->scratch, .settings = &s->settings};

    for (size_t i = 0; i < count; i++)
        b->ops[i] = op_list_take(&s->waiting.kinds[kind]);
    batch_build(&s->call, &env, has_script ? conn_sha(s->conn, script) : NULL, kind, b->ops, count);
    b->sent_mono_us = clock_mono_us();
    if (!conn_send(s->conn, &s->call, REPLY_TIMEOUT_MS, on_batch, b)) {
        repeat_all(b, false);
        batch_close(b);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        b->ops[i]->was_repeated = b->ops[i]->was_sent;
        b->ops[i]->was_sent = true;
        durable_note(&s->durable, b->ops[i]);
    }
    return true;
}

static void on_memory(void *ctx, const redisReply *reply)
{
    struct store *s = ctx;

    if (reply)
        stats_read_memory(reply, &s->used_memory_bytes);
}

/* Asked in front of the statistics, so that its answer is there when theirs comes. */
static bool send_memory(struct store *s)
{
    call_begin(&s->call);
    call_add_str(&s->call, "INFO");
    call_add_str(&s->call, "memory");
    call_seal(&s->call);
    return conn_send(s->conn, &s->call, REPLY_TIMEOUT_MS, on_memory, s);
}

/* Whether the settings are known that the next calls of this kind rest on. */
static bool has_settings(struct store *s, enum store_kind kind)
{
    size_t left = CALLS_PER_GROUP * batch_max(kind);
    struct store_op *op = s->waiting.kinds[kind].first;

    if (!batch_rests_on_settings(kind))
        return true;
    for (; op && left > 0; left--) {
        settings_want(&s->settings, op->task->queue);
        op = op->node.next ? op_list_op(op->node.next) : NULL;
    }
    return settings_are_known(&s->settings);
}

static void send_waiting(struct store *s)
{
    int64_t now = clock_mono_ms();

    for (int kind = 0; kind < STORE_KIND_COUNT; kind++) {
        if (!waiting_is_due(&s->waiting, (enum store_kind)kind, now) || !has_settings(s, (enum store_kind)kind))
            continue;
        if (kind == STORE_STATS && !send_memory(s))
            return;
        for (int i = 0; i < CALLS_PER_GROUP && s->waiting.kinds[kind].first; i++)
            if (!send_batch(s, (enum store_kind)kind))
                return;
    }
}

static void send_group(struct store *s)
{
    if (s->under_way || s->durable.awaited > 0 || !conn_is_up(s->conn) || (s->is_sibling && !s->durable.is_known))
        return;
    send_waiting(s);
    if (s->is_sibling && s->under_way)
        durable_await(&s->durable);
}

/* -------------------------------------------------------------- deadlines */

static void answer_all(struct op_list l)
{
    while (l.first)
        answer(op_list_take(&l), ERR_UNAVAILABLE);
}

static void expire_under_way(struct store *s, int64_t now)
{
    for (struct batch *b = s->under_way; b; b = b->next) {
        for (size_t i = 0; i < b->count; i++) {
            if (b->ops[i] && waiting_is_late(b->ops[i], now)) {
                answer(b->ops[i], ERR_UNAVAILABLE);
                b->ops[i] = NULL;
            }
        }
    }
}

static void look_at_deadlines(struct store *s)
{
    int64_t now = clock_mono_ms();

    if (now < s->next_look_mono_ms)
        return;
    s->next_look_mono_ms = now + DEADLINE_LOOK_MS;
    answer_all(waiting_expire(&s->waiting, now));
    expire_under_way(s, now);
}

static bool has_work(const struct store *s)
{
    return s->under_way || !waiting_is_empty(&s->waiting);
}

/* ----------------------------------------------------------------- thread */

static void read_inbox(struct store *s)
{
    for (struct queue_node *n = queue_take_all(s->inbox), *next; n; n = next) {
        struct store_op *op = op_list_op(n);
        next = n->next;
        waiting_add(&s->waiting, op);
    }
}

static void on_inbox(void *ctx, int fd, unsigned events)
{
    (void)fd;
    (void)events;
    read_inbox(ctx);
}

static void on_up(void *ctx)
{
    struct store *s = ctx;

    atomic_store(&s->is_up, true);
    settings_forget(&s->settings);
    if (s->is_sibling)
        durable_up(&s->durable);
}

static void on_down(void *ctx)
{
    atomic_store(&((struct store *)ctx)->is_up, false);
}

static void run(void *ctx)
{
    struct store *s = ctx;

    while (!atomic_load(&s->is_stopping)) {
        int64_t wait_ms = conn_tick(s->conn);
        if (has_work(s) && wait_ms > DEADLINE_LOOK_MS)
            wait_ms = DEADLINE_LOOK_MS;
        loop_turn(s->loop, wait_ms * 1000);
        look_at_deadlines(s);
        send_group(s);
    }
}

static struct store *open_one(const struct store_opts *opts, const char *name, bool is_sibling)
{
    struct store *s = xcalloc(1, sizeof *s);
    struct conn_opts conn = {.redis = &s->opts.redis,
                             .keys = &s->keys,
                             .name = name,
                             .warns = !is_sibling,
                             .on_up = on_up,
                             .on_down = on_down,
                             .ctx = s};

    s->opts = *opts;
    s->is_sibling = is_sibling;
    keys_init(&s->keys, opts->redis.prefix, 0);
    s->loop = loop_create();
    s->inbox = queue_create();
    loop_set(s->loop, queue_fd(s->inbox), LOOP_READ, on_inbox, s);
    call_init(&s->call);
    buf_init(&s->scratch, SIZE_MAX);
    conn.loop = s->loop;
    s->conn = conn_create(&conn);
    durable_init(&s->durable, s->conn);
    settings_init(&s->settings, s->conn, &s->keys);
    return s;
}

enum err store_create(const struct store_opts *opts, struct store **out)
{
    struct store *s = open_one(opts, "store", false);
    enum err err;

    *out = NULL;
    s->sibling = open_one(opts, "durable", true);
    err = thread_start("store", run, s, &s->thread);
    if (err == ERR_OK)
        err = thread_start("durable", run, s->sibling, &s->sibling->thread);
    if (err != ERR_OK) {
        store_destroy(&s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

static void answer_everything(struct store *s)
{
    read_inbox(s);
    answer_all(waiting_take_all(&s->waiting));
}

void store_destroy(struct store **store)
{
    struct store *s = *store;

    if (!s)
        return;
    *store = NULL;
    atomic_store(&s->is_stopping, true);
    loop_wake(s->loop);
    thread_join(&s->thread);
    store_destroy(&s->sibling);
    conn_destroy(&s->conn); /* what was under way comes back to the waiting lists */
    answer_everything(s);
    durable_deinit(&s->durable);
    settings_deinit(&s->settings);
    call_deinit(&s->call);
    buf_deinit(&s->scratch);
    queue_destroy(&s->inbox);
    loop_destroy(&s->loop);
    keys_deinit(&s->keys);
    free(s);
}

static bool is_for_sibling(const struct store_op *op)
{
    return op->kind == STORE_CREATE && op->durability != TASK_DURABILITY_MEMORY;
}

void store_submit(struct store *s, struct store_op *op)
{
    queue_push(is_for_sibling(op) ? s->sibling->inbox : s->inbox, &op->node);
}

void store_submit_chain(struct store *s, struct store_op *first, struct store_op *last)
{
    struct op_list chain = {first, last}, others = {NULL, NULL};

    last->node.next = NULL;
    while (chain.first) {
        struct store_op *op = op_list_take(&chain);
        if (is_for_sibling(op))
            store_submit(s, op);
        else
            op_list_append(&others, op);
    }
    if (others.first)
        queue_push_chain(s->inbox, &others.first->node, &others.last->node);
}

bool store_is_up(const struct store *s)
{
    return atomic_load(&s->is_up);
}
