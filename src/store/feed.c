#include "store/feed.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/conn_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

#include <stdlib.h>
#include <string.h>

/* Two steps bring a task: the blocking read puts entries into this consumer's part of the group (XREADGROUP), and the
 * claim turns them into tasks (claim.lua), which drops those whose task was cancelled or changed since. Both go over
 * one connection in order, so a claim is sent right behind the read that found its entries and before the next one
 * blocks.
 *
 * What is lost with a connection is found again: entries read but not claimed stay in `claims` and are claimed anew,
 * and after a reconnect the consumer's own entries are read once from the start, in case the answer to a read was lost.
 */

#define BLOCK_MS 5000
#define ANSWER_MS 1000 /* beyond BLOCK_MS, for a reply to arrive */
#define READ_MAX STORE_CALL_MAX
#define HOLD_MS 200 /* before Redis is asked again when it could not answer */
#define SCARCE_MS \
    1 /* between reads while few slots are free: then tasks are read some at a time rather than one by one */

struct entry {
    char *task_id;
    struct store_lease lease;
};

/* Entries of one read, until they are claimed. */
struct claim {
    struct feed *feed;
    struct claim *next;
    bool is_sent;
    bool may_be_claimed; /* by us: it was sent before and its answer lost, or came from a list of our own */
    int64_t sent_mono_ms;
    int count;
    struct entry entries[];
};

struct feed {
    struct feed_opts opts;
    struct keys keys;
    struct conn *conn;
    struct conn *unblocker; /* only while stopping */
    struct call call;
    struct claim *claims;
    int claiming; /* entries in `claims` */
    bool is_reading;
    bool is_stopping;
    bool must_read_own; /* after a reconnect */
    char own_cursor[STORE_ENTRY_SIZE];
    bool is_reading_own;
    int64_t hold_until_mono_ms;
    int64_t scarce_until_mono_ms;
    int64_t client_id; /* of `conn`, for CLIENT UNBLOCK */
};

static void hold(struct feed *f)
{
    f->hold_until_mono_ms = clock_mono_ms() + HOLD_MS;
}

/* ---------------------------------------------------------------- claims */

static void claim_free(struct claim *c)
{
    for (int i = 0; i < c->count; i++)
        free(c->entries[i].task_id);
    free(c);
}

static void claim_remove(struct feed *f, struct claim *c)
{
    struct claim **link = &f->claims;

    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    f->claiming -= c->count;
    claim_free(c);
}

/* `now_us` and `mono_us` are the same moment, by Redis' clock and by ours. */
static void hand_out(struct feed *f, const struct entry *e, const redisReply *record, int64_t now_us, int64_t mono_us)
{
    struct task *t = NULL;

    if (record_read(e->task_id, record->str, record->len, &t) != ERR_OK) {
        /* Left in the PEL: recovery takes it back, and after TASK_TAKEOVERS_MAX rounds it is dead. */
        LOG_ERROR("record.unreadable", "task=%s", e->task_id);
        return;
    }
    t->state = TASK_DELIVERING;
    f->opts.on_task(f->opts.ctx, t, &e->lease, now_us, mono_us);
}

static bool is_claim_answer(const redisReply *reply, int count)
{
    int64_t now_us;

    if (!reply_is_array(reply, (size_t)count + 1) || !reply_int(reply->element[0], &now_us))
        return false;
    for (int i = 1; i <= count; i++)
        if (!reply_is_string(reply->element[i]) && reply->element[i]->type != REDIS_REPLY_NIL)
            return false;
    return true;
}

/* A process that stood still meanwhile may have lost its tasks to others: then it asks anew, which gives those that are
 * still ours. */
static bool is_stale_answer(const struct claim *c)
{
    return clock_mono_ms() - c->sent_mono_ms > c->feed->opts.redis->claim_idle_ms / 2;
}

static void on_claimed(void *ctx, const redisReply *reply)
{
    struct claim *c = ctx;
    struct feed *f = c->feed;
    enum conn_verdict verdict = reply ? conn_judge(f->conn, reply) : CONN_REPEAT;
    int64_t mono_us = clock_mono_us();

    if (verdict == CONN_FINE && is_stale_answer(c))
        verdict = CONN_REPEAT;
    if (verdict == CONN_FINE && is_claim_answer(reply, c->count)) {
        for (int i = 0; i < c->count; i++)
            if (reply->element[i + 1]->type == REDIS_REPLY_STRING)
                hand_out(f, &c->entries[i], reply->element[i + 1], reply->element[0]->integer, mono_us);
        claim_remove(f, c);
        return;
    }
    c->is_sent = false;
    if (verdict != CONN_REPEAT)
        hold(f);
    else if (reply && f->is_reading)
        conn_drop(f->conn, "the repair would wait behind a blocked read");
}

static void send_claim(struct feed *f, struct claim *c)
{
    call_begin_script(&f->call, conn_sha(f->conn, SCRIPT_CLAIM), &f->keys);
    for (int i = 0; i < c->count; i++)
        call_add_record_key(&f->call, &f->keys, c->entries[i].task_id);
    call_begin_args(&f->call, &f->keys);
    call_add_str(&f->call, c->may_be_claimed ? "1" : "0");
    for (int i = 0; i < c->count; i++) {
        call_add_str(&f->call, c->entries[i].lease.entry_id);
        call_add_int(&f->call, c->entries[i].lease.generation);
    }
    call_seal(&f->call);
    c->sent_mono_ms = clock_mono_ms();
    c->is_sent = conn_send(f->conn, &f->call, ANSWER_MS, on_claimed, c);
    c->may_be_claimed = c->may_be_claimed || c->is_sent;
}

static void send_claims(struct feed *f)
{
    for (struct claim *c = f->claims, *next; c; c = next) {
        next = c->next;
        if (!c->is_sent)
            send_claim(f, c);
    }
}

/* ----------------------------------------------------------------- reading */

/* [entry id, [i, task id, g, generation]] */
static bool read_entry(const redisReply *r, struct entry *e)
{
    const redisReply *fields;

    if (!reply_is_array(r, 2) || !reply_is_string(r->element[0]) || r->element[0]->len >= STORE_ENTRY_SIZE)
        return false;
    fields = r->element[1];
    if (!reply_is_array(fields, 4) || !reply_is_string(fields->element[1]) || !reply_is_string(fields->element[3]))
        return false;
    memcpy(e->lease.entry_id, r->element[0]->str, r->element[0]->len + 1);
    e->lease.generation = (unsigned)strtoul(fields->element[3]->str, NULL, 10);
    e->task_id = xstrdup(fields->element[1]->str);
    return true;
}

/* The list of entries in [[stream, entries]]; NULL when there are none. */
static const redisReply *entries_of(const redisReply *reply)
{
    if (!reply_is_array(reply, 1) || !reply_is_array(reply->element[0], 2) ||
        reply->element[0]->element[1]->type != REDIS_REPLY_ARRAY)
        return NULL;
    return reply->element[0]->element[1];
}

static bool is_in_claims(const struct feed *f, const char *entry_id)
{
    for (const struct claim *c = f->claims; c; c = c->next)
        for (int i = 0; i < c->count; i++)
            if (strcmp(c->entries[i].lease.entry_id, entry_id) == 0)
                return true;
    return false;
}

static void take_entries(struct feed *f, const redisReply *list, bool are_own)
{
    struct claim *c = xcalloc(1, sizeof *c + list->elements * sizeof(struct entry));

    c->feed = f;
    c->may_be_claimed = are_own;
    for (size_t i = 0; i < list->elements; i++) {
        struct entry *e = &c->entries[c->count];
        if (!read_entry(list->element[i], e)) {
            LOG_WARN("stream.odd_entry", "consumer=%s", f->opts.consumer);
            continue;
        }
        if (are_own && (is_in_claims(f, e->lease.entry_id) || f->opts.has_entry(f->opts.ctx, e->lease.entry_id)))
            free(e->task_id);
        else
            c->count++;
    }
    if (c->count == 0) {
        claim_free(c);
        return;
    }
    f->claiming += c->count;
    c->next = f->claims;
    f->claims = c;
}

static void on_read(void *ctx, const redisReply *reply)
{
    struct feed *f = ctx;
    const redisReply *list;

    f->is_reading = false;
    if (!reply)
        return;
    switch (conn_judge(f->conn, reply)) {
    case CONN_FINE:
        list = entries_of(reply);
        if (list)
            take_entries(f, list, false);
        break;
    case CONN_REPEAT:
        break;
    case CONN_WAIT:
    case CONN_FAILED:
        hold(f);
        break;
    }
}

static void on_own(void *ctx, const redisReply *reply)
{
    struct feed *f = ctx;
    const redisReply *list;

    f->is_reading_own = false;
    if (!reply || conn_judge(f->conn, reply) != CONN_FINE)
        return;
    list = entries_of(reply);
    if (!list || list->elements == 0) {
        f->must_read_own = false;
        return;
    }
    const redisReply *last = list->element[list->elements - 1];
    if (reply_is_array(last, 2) && reply_is_string(last->element[0]) && last->element[0]->len < STORE_ENTRY_SIZE)
        memcpy(f->own_cursor, last->element[0]->str, last->element[0]->len + 1);
    else
        f->must_read_own = false;
    take_entries(f, list, true);
}

static void begin_read(struct feed *f, int count)
{
    call_begin(&f->call);
    call_add_str(&f->call, "XREADGROUP");
    call_add_str(&f->call, "GROUP");
    call_add_str(&f->call, KEYS_GROUP);
    call_add_str(&f->call, f->opts.consumer);
    call_add_str(&f->call, "COUNT");
    call_add_int(&f->call, count);
}

static void end_read(struct feed *f, const char *from)
{
    call_add_str(&f->call, "STREAMS");
    call_add_str(&f->call, f->keys.ready);
    call_add_str(&f->call, from);
    call_seal(&f->call);
}

static void send_read_own(struct feed *f)
{
    begin_read(f, READ_MAX);
    end_read(f, f->own_cursor);
    f->is_reading_own = conn_send(f->conn, &f->call, ANSWER_MS, on_own, f);
}

static void send_read(struct feed *f, int count)
{
    begin_read(f, count < READ_MAX ? count : READ_MAX);
    call_add_str(&f->call, "BLOCK");
    call_add_int(&f->call, BLOCK_MS);
    end_read(f, ">");
    f->is_reading = conn_send(f->conn, &f->call, BLOCK_MS + ANSWER_MS, on_read, f);
}

/* --------------------------------------------------------------- up, stop */

static void on_client_id(void *ctx, const redisReply *reply)
{
    struct feed *f = ctx;

    if (reply && reply->type == REDIS_REPLY_INTEGER)
        f->client_id = reply->integer;
}

static void on_up(void *ctx)
{
    struct feed *f = ctx;

    f->must_read_own = true;
    strncpy(f->own_cursor, "0", sizeof f->own_cursor - 1);
    f->client_id = 0;
    call_begin(&f->call);
    call_add_str(&f->call, "CLIENT");
    call_add_str(&f->call, "ID");
    call_seal(&f->call);
    if (!conn_send(f->conn, &f->call, ANSWER_MS, on_client_id, f))
        hold(f);
}

/* The read that was ended answers nil by itself; nothing is to be done with this reply. */
static void on_unblocked(void *ctx, const redisReply *reply)
{
    (void)ctx;
    (void)reply;
}

static void on_unblocker_up(void *ctx)
{
    struct feed *f = ctx;

    call_begin(&f->call);
    call_add_str(&f->call, "CLIENT");
    call_add_str(&f->call, "UNBLOCK");
    call_add_int(&f->call, f->client_id);
    call_seal(&f->call);
    if (!conn_send(f->unblocker, &f->call, ANSWER_MS, on_unblocked, f))
        hold(f);
}

void feed_stop(struct feed *f)
{
    struct conn_opts conn = {.redis = f->opts.redis,
                             .keys = &f->keys,
                             .loop = f->opts.loop,
                             .name = "unblock",
                             .is_plain = true,
                             .on_up = on_unblocker_up,
                             .ctx = f};

    if (f->is_stopping)
        return;
    f->is_stopping = true;
    if (f->is_reading)
        f->unblocker = conn_create(&conn);
}

bool feed_is_stopped(const struct feed *f)
{
    return f->is_stopping && !f->is_reading && !f->is_reading_own && (!f->claims || !conn_is_up(f->conn));
}

bool feed_is_up(const struct feed *f)
{
    return conn_is_up(f->conn);
}

bool feed_peer(const struct feed *f, struct endpoint *out)
{
    return conn_peer(f->conn, out);
}

/* -------------------------------------------------------------------- life */

enum err feed_create(const struct feed_opts *opts, struct feed **out)
{
    struct feed *f = xcalloc(1, sizeof *f);
    struct conn_opts conn = {
        .redis = opts->redis, .keys = &f->keys, .loop = opts->loop, .name = opts->consumer, .on_up = on_up, .ctx = f};

    f->opts = *opts;
    keys_init(&f->keys, opts->redis->prefix, 0);
    call_init(&f->call);
    f->conn = conn_create(&conn);
    *out = f;
    return ERR_OK;
}

void feed_destroy(struct feed **feed)
{
    struct feed *f = *feed;

    if (!f)
        return;
    *feed = NULL;
    conn_destroy(&f->unblocker);
    conn_destroy(&f->conn);
    while (f->claims)
        claim_remove(f, f->claims);
    call_deinit(&f->call);
    keys_deinit(&f->keys);
    free(f);
}

static void ask(struct feed *f, int64_t now_ms)
{
    int free_slots;

    send_claims(f);
    if (f->must_read_own && !f->is_reading_own && !f->is_reading) {
        send_read_own(f);
        return;
    }
    free_slots = f->opts.free_slots(f->opts.ctx) - f->claiming;
    if (f->is_stopping || f->must_read_own || f->is_reading || free_slots <= 0)
        return;
    if (free_slots < f->opts.capacity / 4 && now_ms <= f->scarce_until_mono_ms)
        return;
    f->scarce_until_mono_ms = now_ms + SCARCE_MS;
    send_read(f, free_slots);
}

int64_t feed_tick(struct feed *f)
{
    int64_t wait_ms, now = clock_mono_ms();

    if (conn_is_up(f->conn) && now >= f->hold_until_mono_ms)
        ask(f, now);
    wait_ms = conn_tick(f->conn);
    if (f->unblocker) {
        int64_t unblock_ms = conn_tick(f->unblocker);
        wait_ms = unblock_ms < wait_ms ? unblock_ms : wait_ms;
    }
    if (now < f->hold_until_mono_ms && f->hold_until_mono_ms - now < wait_ms)
        wait_ms = f->hold_until_mono_ms - now;
    if (!f->is_reading && now <= f->scarce_until_mono_ms && wait_ms > SCARCE_MS)
        wait_ms = SCARCE_MS;
    return wait_ms;
}
