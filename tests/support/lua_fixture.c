#include "lua_fixture.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include "store/stats_priv.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUE_WAIT_MS 5000

struct lua_fixture {
    struct redis_fixture *redis;
    bool is_attached; /* the server is another's */
    struct keys keys;
    struct call call;
    char sha[SCRIPT_COUNT][SCRIPT_SHA_CHARS + 1];
};

static void load(struct lua_fixture *f, enum script s)
{
    size_t bytes;
    const char *text = script_text(s, &bytes);
    redisReply *r = redis_fixture_command(f->redis, "SCRIPT LOAD %b", text, bytes);

    cr_assert_eq(r->len, SCRIPT_SHA_CHARS);
    memcpy(f->sha[s], r->str, SCRIPT_SHA_CHARS);
    freeReplyObject(r);
}

struct lua_fixture *lua_fixture_attach(struct redis_fixture *redis)
{
    struct lua_fixture *f = xcalloc(1, sizeof(*f));

    f->redis = redis;
    f->is_attached = true;
    keys_init(&f->keys, "duepost", 0);
    call_init(&f->call);
    for (int s = 0; s < SCRIPT_COUNT; s++)
        load(f, (enum script)s);
    return f;
}

struct lua_fixture *lua_fixture_create(void)
{
    struct lua_fixture *f = lua_fixture_attach(redis_fixture_create(false));

    f->is_attached = false;
    call_add_str(lua_begin(f, SCRIPT_SETUP), f->keys.meta);
    call_begin_args(&f->call, &f->keys);
    call_add_str(&f->call, "a layout");
    freeReplyObject(lua_send(f));
    return f;
}

void lua_fixture_destroy(struct lua_fixture **f)
{
    if (!*f)
        return;
    if (!(*f)->is_attached)
        redis_fixture_destroy(&(*f)->redis);
    call_deinit(&(*f)->call);
    keys_deinit(&(*f)->keys);
    free(*f);
    *f = NULL;
}

struct redis_fixture *lua_redis(struct lua_fixture *f)
{
    return f->redis;
}

const struct keys *lua_keys(const struct lua_fixture *f)
{
    return &f->keys;
}

int64_t lua_now_ms(struct lua_fixture *f)
{
    redisReply *r = redis_fixture_command(f->redis, "TIME");
    int64_t ms = strtoll(r->element[0]->str, NULL, 10) * 1000 + strtoll(r->element[1]->str, NULL, 10) / 1000;

    freeReplyObject(r);
    return ms;
}

/* ----------------------------------------------------------------- calls */

struct call *lua_begin(struct lua_fixture *f, enum script s)
{
    call_begin_script(&f->call, f->sha[s], &f->keys);
    return &f->call;
}

redisReply *lua_try(struct lua_fixture *f)
{
    redisContext *redis = redis_fixture_connection(f->redis);
    void *reply = NULL;

    call_seal(&f->call);
    cr_assert_eq(redisAppendFormattedCommand(redis, f->call.bytes, f->call.byte_count), REDIS_OK);
    cr_assert_eq(redisGetReply(redis, &reply), REDIS_OK, "no reply to a script");
    return reply;
}

redisReply *lua_send(struct lua_fixture *f)
{
    redisReply *r = lua_try(f);

    cr_assert_neq(r->type, REDIS_REPLY_ERROR, "a script failed: %s", r->str);
    return r;
}

static int64_t integer(const redisReply *r)
{
    cr_assert_eq(r->type, REDIS_REPLY_INTEGER, "not an integer but type %d", r->type);
    return r->integer;
}

/* Of an array, element by element. */
static int64_t integer_at(const redisReply *r, size_t i)
{
    cr_assert_eq(r->type, REDIS_REPLY_ARRAY, "not an array but type %d", r->type);
    cr_assert_lt(i, r->elements);
    return integer(r->element[i]);
}

static int64_t send_for_integer(struct lua_fixture *f)
{
    redisReply *r = lua_send(f);
    int64_t value = integer(r);

    freeReplyObject(r);
    return value;
}

redisReply *lua_create_limited(struct lua_fixture *f, int64_t max_pending, const struct lua_new *tasks, size_t count)
{
    struct call *c = lua_begin(f, SCRIPT_CREATE);
    struct buf spec;

    buf_init(&spec, 4096);
    for (size_t i = 0; i < count; i++)
        call_add_record_key(c, &f->keys, tasks[i].id);
    call_begin_args(c, &f->keys);
    call_add_int(c, max_pending);
    call_add_int(c, lua_counter(f, "settings", ":"));
    for (size_t i = 0; i < count; i++) {
        struct task *t = task_create();
        free(t->queue);
        t->queue = xstrdup(tasks[i].queue);
        t->url = xstrdup("http://receiver/");
        t->body_kind = TASK_BODY_TEXT;
        t->body = xstrdup("hello");
        t->body_bytes = 5;
        t->has_digest = true;
        memset(t->digest, tasks[i].id[0], TASK_DIGEST_BYTES); /* every create of an id is the same request */
        buf_clear(&spec);
        record_write_spec(&spec, t);
        call_add_str(c, tasks[i].id);
        call_add_str(c, tasks[i].due);
        call_add_str(c, tasks[i].queue);
        call_add(c, (const char *)t->digest, TASK_DIGEST_BYTES);
        call_add(c, spec.data, spec.len);
        task_destroy(&t);
    }
    buf_deinit(&spec);
    return lua_send(f);
}

struct lua_queue lua_queue(struct lua_fixture *f, const char *action, const char *queue, const char *settings)
{
    struct call *c = lua_begin(f, SCRIPT_QUEUE);
    struct lua_queue q = {0};

    call_begin_args(c, &f->keys);
    call_add_str(c, action);
    call_add_str(c, queue);
    if (settings)
        call_add_str(c, settings);
    redisReply *r = lua_send(f);
    q.answer = (int)integer_at(r, 0);
    if (q.answer >= 2)
        cr_assert(stats_read_queue(r->element + 1, r->elements - 1, &q.found), "odd answer to %s", action);
    else
        cr_assert_eq(r->elements, 1);
    freeReplyObject(r);
    return q;
}

int lua_queue_do(struct lua_fixture *f, const char *action, const char *queue, const char *settings)
{
    struct lua_queue q = lua_queue(f, action, queue, settings);

    free(q.found.name);
    queue_settings_deinit(&q.found.settings);
    return q.answer;
}

redisReply *lua_create(struct lua_fixture *f, const struct lua_new *tasks, size_t count)
{
    return lua_create_limited(f, 0, tasks, count);
}

int64_t lua_add(struct lua_fixture *f, const char *id, const char *due, const char *queue)
{
    redisReply *r = lua_create(f, &(struct lua_new){id, due, queue}, 1);
    int64_t at = integer_at(r, 1);

    freeReplyObject(r);
    return at;
}

struct lua_moved lua_move(struct lua_fixture *f, int64_t room, int64_t max)
{
    return lua_move_behind(f, room, room, max);
}

struct lua_moved lua_move_behind(struct lua_fixture *f, int64_t room, int64_t behind_room, int64_t max)
{
    struct call *c = lua_begin(f, SCRIPT_MOVE);

    call_begin_args(c, &f->keys);
    call_add_int(c, room);
    call_add_int(c, max);
    call_add_int(c, behind_room);
    redisReply *r = lua_send(f);
    struct lua_moved m = {integer_at(r, 0), integer_at(r, 1), integer_at(r, 2), integer_at(r, 3), integer_at(r, 5)};
    freeReplyObject(r);
    return m;
}

size_t lua_read(struct lua_fixture *f, const char *consumer, struct lua_entry *out, size_t max)
{
    redisReply *r = redis_fixture_command(f->redis, "XREADGROUP GROUP %s %s COUNT %d STREAMS %s >", KEYS_GROUP,
                                          consumer, (int)max, f->keys.ready);
    size_t count = 0;

    if (r->type == REDIS_REPLY_ARRAY) {
        const redisReply *list = r->element[0]->element[1];
        for (; count < list->elements; count++) {
            const redisReply *fields = list->element[count]->element[1];
            struct lua_entry *e = &out[count];
            (void)snprintf(e->lease.entry_id, sizeof(e->lease.entry_id), "%s", list->element[count]->element[0]->str);
            (void)snprintf(e->id, sizeof(e->id), "%s", fields->element[1]->str);
            e->lease.generation = (unsigned)strtoul(fields->element[3]->str, NULL, 10);
        }
    }
    freeReplyObject(r);
    return count;
}

static size_t claim(struct lua_fixture *f, const struct lua_entry *entries, size_t count, bool is_repeat)
{
    struct call *c = lua_begin(f, SCRIPT_CLAIM);
    size_t ours = 0;

    for (size_t i = 0; i < count; i++)
        call_add_record_key(c, &f->keys, entries[i].id);
    call_begin_args(c, &f->keys);
    call_add_str(c, is_repeat ? "1" : "0");
    for (size_t i = 0; i < count; i++) {
        call_add_str(c, entries[i].lease.entry_id);
        call_add_int(c, entries[i].lease.generation);
    }
    redisReply *r = lua_send(f);
    cr_assert_eq(r->elements, count + 1);
    for (size_t i = 0; i < count; i++) {
        const redisReply *record = r->element[i + 1];
        struct task *t = NULL;
        if (record->type == REDIS_REPLY_NIL)
            continue;
        cr_assert_eq(record_read(entries[i].id, record->str, record->len, &t), ERR_OK);
        task_destroy(&t);
        cr_assert_eq(lua_state(f, entries[i].id), TASK_DELIVERING);
        ours++;
    }
    freeReplyObject(r);
    return ours;
}

size_t lua_claim(struct lua_fixture *f, const struct lua_entry *entries, size_t count)
{
    return claim(f, entries, count, false);
}

size_t lua_claim_again(struct lua_fixture *f, const struct lua_entry *entries, size_t count)
{
    return claim(f, entries, count, true);
}

struct lua_entry lua_start(struct lua_fixture *f, const char *id, const char *queue, const char *consumer)
{
    struct lua_entry e;

    lua_add(f, id, "+0", queue);
    WAIT_UNTIL(lua_move(f, 100, 100).moved == 1, DUE_WAIT_MS);
    cr_assert_eq(lua_read(f, consumer, &e, 1), 1);
    cr_assert_str_eq(e.id, id);
    cr_assert_eq(lua_claim(f, &e, 1), 1);
    return e;
}

int lua_settle(struct lua_fixture *f, const struct lua_entry *e, char how, int64_t delay_ms)
{
    struct task *t = lua_task(f, e->id);
    char error[] = "broken", how_text[] = {how, '\0'};
    struct task_attempt last = {.at_ms = 1234567890123, .duration_us = 17000, .status = how == 'd' ? 204 : 500};
    struct buf attempts;

    if (how != 'd')
        last.error = error;
    buf_init(&attempts, 4096);
    if (how != 'b')
        record_write_attempts(&attempts, &(struct task){0}, &last);
    struct call *c = lua_begin(f, SCRIPT_SETTLE);
    call_add_record_key(c, &f->keys, e->id);
    call_begin_args(c, &f->keys);
    call_add_str(c, e->id);
    call_add_str(c, e->lease.entry_id);
    call_add_int(c, e->lease.generation);
    call_add(c, how_text, 1);
    call_add_int(c, delay_ms);
    call_add_int(c, how == 'd' && t ? (int64_t)record_kept_bytes(t) : -1);
    call_add(c, attempts.data, attempts.len);
    redisReply *r = lua_send(f);
    cr_assert_eq(r->elements, 1);
    int64_t reached = integer_at(r, 0);
    freeReplyObject(r);
    buf_deinit(&attempts);
    task_destroy(&t);
    return reached < TASK_STATE_COUNT ? (int)reached : TASK_SCHEDULED;
}

int lua_cancel(struct lua_fixture *f, const char *id)
{
    struct call *c = lua_begin(f, SCRIPT_CANCEL);

    call_add_record_key(c, &f->keys, id);
    call_begin_args(c, &f->keys);
    call_add_str(c, id);
    redisReply *r = lua_send(f);
    cr_assert_eq(r->elements, 1);
    int found = (int)integer_at(r->element[0], 0);
    /* The record comes along when the task is under way, and only then. */
    cr_assert_eq(r->element[0]->element[1]->type, found == TASK_DELIVERING ? REDIS_REPLY_STRING : REDIS_REPLY_NIL);
    freeReplyObject(r);
    return found;
}

int64_t lua_renew(struct lua_fixture *f, const char *consumer, const struct lua_entry *entries, size_t count)
{
    struct call *c = lua_begin(f, SCRIPT_RENEW);

    call_begin_args(c, &f->keys);
    call_add_str(c, consumer);
    for (size_t i = 0; i < count; i++)
        call_add_str(c, entries[i].lease.entry_id);
    return send_for_integer(f);
}

int64_t lua_recover(struct lua_fixture *f, const char *gateway, int64_t claim_idle_ms)
{
    struct buf lost;
    struct call *c = lua_begin(f, SCRIPT_RECOVER);

    buf_init(&lost, 256);
    record_write_lost(&lost);
    call_begin_args(c, &f->keys);
    call_add_str(c, gateway);
    call_add_int(c, claim_idle_ms);
    call_add_str(c, "-");
    call_add_int(c, 100);
    call_add_int(c, TASK_TAKEOVERS_MAX);
    call_add(c, lost.data, lost.len);
    call_add_str(c, "0");
    redisReply *r = lua_send(f);
    int64_t count = integer_at(r, 1);
    freeReplyObject(r);
    buf_deinit(&lost);
    return count;
}

void lua_make_idle(struct lua_fixture *f, const struct lua_entry *e, const char *consumer, int64_t idle_ms)
{
    redis_fixture_run(f->redis, "XCLAIM %s %s %s 0 %s IDLE %lld JUSTID", f->keys.ready, KEYS_GROUP, consumer,
                      e->lease.entry_id, (long long)idle_ms);
}

int64_t lua_sweep(struct lua_fixture *f, int64_t retention_ms, int64_t max_finished, int64_t limit)
{
    struct call *c = lua_begin(f, SCRIPT_SWEEP);

    call_begin_args(c, &f->keys);
    for (int i = 0; i < 4; i++)
        call_add_int(c, retention_ms);
    call_add_int(c, max_finished);
    call_add_int(c, limit);
    redisReply *r = lua_send(f);
    int64_t removed = integer_at(r, 0);
    freeReplyObject(r);
    return removed;
}

struct lua_orphans lua_orphans(struct lua_fixture *f, int64_t claim_idle_ms, bool is_last_word)
{
    struct lua_orphans o = {0};
    char cursor[32] = "0";

    do {
        struct call *c = lua_begin(f, SCRIPT_ORPHANS);
        call_begin_args(c, &f->keys);
        call_add_int(c, claim_idle_ms);
        call_add_str(c, cursor);
        call_add_int(c, 10);
        call_add_str(c, is_last_word ? "1" : "0");
        redisReply *r = lua_send(f);
        o.repaired += integer_at(r, 1);
        (void)snprintf(cursor, sizeof(cursor), "%s", r->element[0]->str);
        if (strcmp(cursor, "0") == 0) {
            o.pending = integer_at(r, 2);
            o.records = integer_at(r, 3);
            o.delivering = integer_at(r, 4);
            o.overdue = integer_at(r, 5);
        }
        freeReplyObject(r);
    } while (strcmp(cursor, "0") != 0);
    return o;
}

/* ----------------------------------------------------------------- state */

struct task *lua_task(struct lua_fixture *f, const char *id)
{
    redisReply *r = redis_fixture_command(f->redis, "GET %s%s", f->keys.base, id);
    struct task *t = NULL;

    if (r->type == REDIS_REPLY_STRING)
        cr_assert_eq(record_read(id, r->str, r->len, &t), ERR_OK, "the record of %s cannot be read", id);
    freeReplyObject(r);
    return t;
}

int lua_state(struct lua_fixture *f, const char *id)
{
    struct task *t = lua_task(f, id);
    int state = t ? (int)t->state : -1;

    task_destroy(&t);
    return state;
}

struct store_stats *lua_stats(struct lua_fixture *f)
{
    struct store_stats *s = NULL;
    struct call *c = lua_begin(f, SCRIPT_STATS);

    call_begin_args(c, &f->keys);
    call_add_int(c, 1000);
    redisReply *r = lua_send(f);
    cr_assert_eq(stats_read(r, &s), ERR_OK);
    freeReplyObject(r);
    return s;
}

int64_t lua_counter(struct lua_fixture *f, const char *hash, const char *field)
{
    redisReply *r = redis_fixture_command(f->redis, "HGET %s:%s %s", f->keys.base, hash, field);
    int64_t value = r->type == REDIS_REPLY_STRING ? strtoll(r->str, NULL, 10) : 0;

    freeReplyObject(r);
    return value;
}
