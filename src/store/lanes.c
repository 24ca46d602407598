#include "store/lanes.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/ident.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/callback_priv.h"
#include "store/conn_priv.h"
#include "store/patrol_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two connections: one for calls, of which one is under way at a time, and one that is subscribed to the wake channel.
 * Each call has a reader for its answer; whatever goes wrong is repaired by conn_judge and told to the owner as `ok`
 * false, who asks again. */

#define REPLY_TIMEOUT_MS 1000
#define ENTRIES_PER_CALL 100
#define KEYS_PER_STEP 250
#define CALLBACKS_PER_CALL 50
#define WORK_EXPIRE 1 /* bits of what a move says is to be done besides */
#define WORK_CALLBACKS 2

struct lanes {
    struct lanes_opts opts;
    struct keys keys;
    struct conn *calls;
    struct conn *wakes;
    struct call call;
    bool is_busy;
    char cursor[48]; /* where recovery goes on: an entry id, or "-" */
    struct patrol patrol;
    struct buf lost; /* the encoded attempt of a task whose workers were lost; recover.lua fills in its time */
    struct buf spec; /* of the callback being written */
};

/* True when the reply can be read. */
static bool is_fine(struct lanes *l, const redisReply *reply)
{
    l->is_busy = false;
    return reply && conn_judge(l->calls, reply) == CONN_FINE;
}

static void send(struct lanes *l, conn_reply_fn *fn)
{
    call_seal(&l->call);
    l->is_busy = true;
    if (!conn_send(l->calls, &l->call, REPLY_TIMEOUT_MS, fn, l))
        fn(l, NULL);
}

static void on_moved(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    struct lanes_moved m = {0};
    int64_t work = 0;
    bool ok = is_fine(l, reply) && reply_is_array(reply, 6) && reply_int(reply->element[0], &m.moved) &&
              reply_int(reply->element[1], &m.next_us) && reply_int(reply->element[2], &m.now_us) &&
              reply_int(reply->element[3], &m.unread) && reply_int(reply->element[4], &work) &&
              reply_int(reply->element[5], &m.later_us);

    m.has_expired = (work & WORK_EXPIRE) != 0;
    m.has_callbacks = (work & WORK_CALLBACKS) != 0;
    l->opts.on_moved(l->opts.ctx, ok, &m);
}

void lanes_move(struct lanes *l, int64_t room, int64_t behind_room, int64_t max)
{
    call_begin_script(&l->call, conn_sha(l->calls, SCRIPT_MOVE), &l->keys);
    call_begin_args(&l->call, &l->keys);
    call_add_int(&l->call, room);
    call_add_int(&l->call, max);
    call_add_int(&l->call, behind_room);
    send(l, on_moved);
}

/* The time of a lane in the index; -1 for one that waits for a slot or is paused. */
static int64_t score_ms(const char *text)
{
    double score = strtod(text, NULL);

    return isfinite(score) ? (int64_t)score : -1;
}

static void on_peeked(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    int64_t due = -1;
    bool ok = is_fine(l, reply) && reply->type == REDIS_REPLY_ARRAY;

    if (ok && reply->elements == 2 && reply_is_string(reply->element[1]))
        due = score_ms(reply->element[1]->str);
    l->opts.on_peeked(l->opts.ctx, ok, due);
}

void lanes_peek(struct lanes *l)
{
    static const char *const WORDS[] = {"0", "0", "WITHSCORES"};

    call_begin(&l->call);
    call_add_str(&l->call, "ZRANGE");
    call_add_str(&l->call, l->keys.lanes);
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        call_add_str(&l->call, WORDS[i]);
    send(l, on_peeked);
}

static void on_recovered(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    int64_t count = 0;
    bool ok = is_fine(l, reply) && reply_is_array(reply, 2) && reply_is_string(reply->element[0]) &&
              reply_int(reply->element[1], &count) && reply->element[0]->len < sizeof l->cursor;

    if (ok)
        strncpy(l->cursor, reply->element[0]->str, sizeof l->cursor - 1);
    if (count > 0)
        LOG_WARN("worker.recovered", "tasks=%lld", (long long)count);
    l->opts.on_recovered(l->opts.ctx, ok, count, strcmp(l->cursor, "-") != 0);
}

void lanes_recover(struct lanes *l, bool heartbeat_only, int64_t believed_now_ms)
{
    const struct redis_opts *r = l->opts.redis;

    call_begin_script(&l->call, conn_sha(l->calls, SCRIPT_RECOVER), &l->keys);
    call_begin_args(&l->call, &l->keys);
    call_add_str(&l->call, r->gateway);
    call_add_int(&l->call, r->claim_idle_ms);
    call_add_str(&l->call, l->cursor);
    call_add_int(&l->call, ENTRIES_PER_CALL);
    call_add_int(&l->call, TASK_TAKEOVERS_MAX);
    call_add(&l->call, l->lost.data, l->lost.len);
    call_add_str(&l->call, heartbeat_only ? "1" : "0");
    call_add_int(&l->call, believed_now_ms);
    send(l, on_recovered);
}

static void on_swept(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    int64_t removed = 0, next_ms = -1;
    bool ok = is_fine(l, reply) && reply_is_array(reply, 2) && reply_int(reply->element[0], &removed) &&
              reply_int(reply->element[1], &next_ms);

    l->opts.on_swept(l->opts.ctx, ok, removed, next_ms);
}

void lanes_sweep(struct lanes *l)
{
    const struct redis_opts *r = l->opts.redis;

    call_begin_script(&l->call, conn_sha(l->calls, SCRIPT_SWEEP), &l->keys);
    call_begin_args(&l->call, &l->keys);
    call_add_int(&l->call, r->retention_delivered_ms);
    call_add_int(&l->call, r->retention_dead_ms);
    call_add_int(&l->call, r->retention_cancelled_ms);
    call_add_int(&l->call, r->retention_expired_ms);
    call_add_int(&l->call, r->max_finished);
    call_add_int(&l->call, ENTRIES_PER_CALL);
    send(l, on_swept);
}

static void on_expired(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    int64_t count = 0, next_us = -1;
    bool ok = is_fine(l, reply) && reply_is_array(reply, 2) && reply_int(reply->element[0], &count) &&
              reply_int(reply->element[1], &next_us);

    l->opts.on_expired(l->opts.ctx, ok, count, next_us);
}

void lanes_expire(struct lanes *l)
{
    call_begin_script(&l->call, conn_sha(l->calls, SCRIPT_EXPIRE), &l->keys);
    call_begin_args(&l->call, &l->keys);
    call_add_int(&l->call, ENTRIES_PER_CALL);
    send(l, on_expired);
}

static void on_announced(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    int64_t count = 0, left = 0;
    bool ok = is_fine(l, reply) && reply_is_array(reply, 2) && reply_int(reply->element[0], &count) &&
              reply_int(reply->element[1], &left);

    l->opts.on_announced(l->opts.ctx, ok, count, left > 0);
}

static bool is_marked(const redisReply *r)
{
    return reply_is_array(r, 3) && reply_is_string(r->element[0]) && reply_is_string(r->element[1]) &&
           reply_is_string(r->element[2]);
}

/* The news of one task that has ended, as announce.lua takes it. Of a record that cannot be read there is none. */
static void add_news(struct lanes *l, const redisReply *marked, const char *new_id)
{
    const redisReply *record = marked->element[2];
    struct task *ended = NULL, *news = NULL;

    if (record_read_beginning(marked->element[0]->str, record->str, record->len, &ended) == ERR_OK)
        news = callback_create(ended);
    else
        LOG_ERROR("record.unreadable", "task=%s", marked->element[0]->str);
    buf_clear(&l->spec);
    if (news)
        record_write_spec(&l->spec, news);
    call_add(&l->call, marked->element[0]->str, marked->element[0]->len);
    call_add(&l->call, marked->element[1]->str, marked->element[1]->len);
    call_add(&l->call, new_id, IDENT_TASK_CHARS);
    call_add(&l->call, news ? news->queue : "", news ? strlen(news->queue) : 0);
    call_add_buf(&l->call, &l->spec);
    task_destroy(&ended);
    task_destroy(&news);
}

static void announce(struct lanes *l, const redisReply *reply)
{
    char ids[CALLBACKS_PER_CALL][IDENT_TASK_CHARS + 1];
    size_t count = reply->elements - 1;

    call_begin_script(&l->call, conn_sha(l->calls, SCRIPT_ANNOUNCE), &l->keys);
    for (size_t i = 0; i < count; i++) {
        ident_random(ids[i], IDENT_TASK_CHARS);
        call_add_record_key(&l->call, &l->keys, ids[i]);
    }
    call_begin_args(&l->call, &l->keys);
    for (size_t i = 0; i < count; i++)
        add_news(l, reply->element[i + 1], ids[i]);
    send(l, on_announced);
}

static void on_looked(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    int64_t left = 0;
    bool ok = is_fine(l, reply) && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
              reply->elements <= CALLBACKS_PER_CALL + 1 && reply_int(reply->element[0], &left);

    for (size_t i = 1; ok && i < reply->elements; i++)
        ok = is_marked(reply->element[i]);
    if (ok && reply->elements > 1)
        announce(l, reply);
    else
        l->opts.on_announced(l->opts.ctx, ok, 0, left > 0);
}

void lanes_announce(struct lanes *l)
{
    call_begin_script(&l->call, conn_sha(l->calls, SCRIPT_CALLBACKS), &l->keys);
    call_begin_args(&l->call, &l->keys);
    call_add_int(&l->call, CALLBACKS_PER_CALL);
    call_add_int(&l->call, RECORD_BEGINNING_BYTES);
    send(l, on_looked);
}

static void report_patrol(const struct patrol *p, int64_t repaired, bool begins_walk)
{
    const int newest = PATROL_SAMPLES - 1;

    if (repaired > 0)
        LOG_WARN("task.orphans", "repaired=%lld", (long long)repaired);
    if (begins_walk)
        LOG_WARN("store.mismatch", "pending=%lld records=%lld action=\"looking through all records\"",
                 (long long)p->pending, (long long)p->records);
    if (p->is_growing)
        LOG_WARN("work.growing", "delivering=%lld delivering_before=%lld overdue=%lld overdue_before=%lld",
                 (long long)p->delivering[newest], (long long)p->delivering[0], (long long)p->overdue[newest],
                 (long long)p->overdue[0]);
}

static void on_patrolled(void *ctx, const redisReply *reply)
{
    struct lanes *l = ctx;
    bool was_walking = l->patrol.is_walking;
    int64_t repaired = 0;
    bool ok = is_fine(l, reply) && patrol_read(&l->patrol, reply, clock_mono_ms(), &repaired) == ERR_OK;

    if (ok)
        report_patrol(&l->patrol, repaired, l->patrol.is_walking && !was_walking);
    l->opts.on_patrolled(l->opts.ctx, ok, repaired, l->patrol.wait_ms);
}

void lanes_patrol(struct lanes *l)
{
    const struct patrol *p = &l->patrol;

    call_begin_script(&l->call, conn_sha(l->calls, p->is_walking ? SCRIPT_MEND : SCRIPT_ORPHANS), &l->keys);
    call_begin_args(&l->call, &l->keys);
    if (!p->is_walking)
        call_add_int(&l->call, l->opts.redis->claim_idle_ms);
    call_add_str(&l->call, p->cursor);
    call_add_int(&l->call, KEYS_PER_STEP);
    if (!p->is_walking)
        call_add_str(&l->call, p->was_walked ? "1" : "0");
    send(l, on_patrolled);
}

static void on_up(void *ctx)
{
    struct lanes *l = ctx;

    l->opts.on_up(l->opts.ctx);
}

static void on_message(void *ctx, const char *text)
{
    struct lanes *l = ctx;

    l->opts.on_wake(l->opts.ctx, (int64_t)strtoll(text, NULL, 10));
}

enum err lanes_create(const struct lanes_opts *opts, struct lanes **out)
{
    struct lanes *l = xcalloc(1, sizeof *l);
    struct conn_opts conn = {.redis = opts->redis, .keys = &l->keys, .loop = opts->loop, .ctx = l};

    l->opts = *opts;
    keys_init(&l->keys, opts->redis->prefix, 0);
    call_init(&l->call);
    buf_init(&l->spec, SIZE_MAX);
    buf_init(&l->lost, 256);
    record_write_lost(&l->lost);
    patrol_init(&l->patrol);
    strncpy(l->cursor, "-", sizeof l->cursor - 1);
    conn.name = "mover";
    conn.on_up = on_up;
    l->calls = conn_create(&conn);
    conn.name = "wake";
    conn.on_up = NULL;
    conn.channel = l->keys.wake;
    conn.on_message = on_message;
    l->wakes = conn_create(&conn);
    *out = l;
    return ERR_OK;
}

void lanes_destroy(struct lanes **lanes)
{
    struct lanes *l = *lanes;

    if (!l)
        return;
    *lanes = NULL;
    conn_destroy(&l->calls);
    conn_destroy(&l->wakes);
    call_deinit(&l->call);
    buf_deinit(&l->lost);
    buf_deinit(&l->spec);
    keys_deinit(&l->keys);
    free(l);
}

int64_t lanes_tick(struct lanes *l)
{
    int64_t calls = conn_tick(l->calls);
    int64_t wakes = conn_tick(l->wakes);

    return calls < wakes ? calls : wakes;
}

bool lanes_is_up(const struct lanes *l)
{
    return conn_is_up(l->calls);
}

bool lanes_is_busy(const struct lanes *l)
{
    return l->is_busy;
}
