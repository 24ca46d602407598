#include "lua_fixture.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include "task/queue_settings.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything is read once into two flat lists, the records and the places where ids are kept, and the rules are checked
 * on those. Quadratic, which is fine for the few dozen tasks of a test. */

#define WORK_AGAIN_MS 100 /* as in lua/move.lua */

enum kind {
    KIND_LANE = 0,
    KIND_STREAM,
    KIND_FINISHED,
    KIND_DEAD_OF_QUEUE,
    KIND_EXPIRY,
    KIND_CALLBACKS,
};

struct place {
    enum kind kind;
    enum task_state finished; /* of KIND_FINISHED */
    char *id;
    char *queue; /* of KIND_LANE and KIND_DEAD_OF_QUEUE; else NULL */
    int64_t score;
    unsigned generation; /* of KIND_STREAM */
    char *entry;         /* of KIND_STREAM */
    bool is_pending;     /* of KIND_STREAM: in the group's list */
};

struct world {
    struct lua_fixture *f;
    struct task **tasks;
    size_t task_count;
    struct place *places;
    size_t place_count;
};

static struct place *add_place(struct world *w, enum kind kind, const char *id)
{
    w->places = xrealloc(w->places, (w->place_count + 1) * sizeof(*w->places));
    struct place *p = &w->places[w->place_count++];

    memset(p, 0, sizeof(*p));
    p->kind = kind;
    p->id = xstrdup(id);
    return p;
}

/* --------------------------------------------------------------- reading */

static void read_set(struct world *w, const char *key, enum kind kind, enum task_state finished, const char *queue)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "ZRANGE %s 0 -1 WITHSCORES", key);

    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        struct place *p = add_place(w, kind, r->element[i]->str);
        p->finished = finished;
        p->queue = queue ? xstrdup(queue) : NULL;
        p->score = (int64_t)strtod(r->element[i + 1]->str, NULL);
    }
    freeReplyObject(r);
}

static void mark_pending(struct world *w)
{
    redisReply *r =
        redis_fixture_command(lua_redis(w->f), "XPENDING %s %s - + 100000", lua_keys(w->f)->ready, KEYS_GROUP);

    for (size_t i = 0; i < r->elements; i++)
        for (size_t p = 0; p < w->place_count; p++)
            if (w->places[p].entry && strcmp(w->places[p].entry, r->element[i]->element[0]->str) == 0)
                w->places[p].is_pending = true;
    freeReplyObject(r);
}

static void read_stream(struct world *w)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "XRANGE %s - +", lua_keys(w->f)->ready);

    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *fields = r->element[i]->element[1];
        struct place *p = add_place(w, KIND_STREAM, fields->element[1]->str);
        p->generation = (unsigned)strtoul(fields->element[3]->str, NULL, 10);
        p->entry = xstrdup(r->element[i]->element[0]->str);
    }
    freeReplyObject(r);
    mark_pending(w);
}

static void read_record(struct world *w, const char *key, const char *id)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "GET %s", key);

    w->tasks = xrealloc(w->tasks, (w->task_count + 1) * sizeof(*w->tasks));
    cr_assert_eq(record_read(id, r->str, r->len, &w->tasks[w->task_count]), ERR_OK, "the record of %s", id);
    w->task_count++;
    freeReplyObject(r);
}

static void read_container(struct world *w, const char *key, const char *name)
{
    static const struct {
        const char *name;
        enum task_state state;
    } finished[] = {{":delivered", TASK_DELIVERED},
                    {":dead", TASK_DEAD},
                    {":cancelled", TASK_CANCELLED},
                    {":expired", TASK_EXPIRED}};
    static const char *const others[] = {":lanes",   ":ready", ":totals", ":out",    ":busy",     ":queues",
                                         ":workers", ":meta",  ":probe",  ":flight", ":settings", ":rates"};

    for (size_t i = 0; i < sizeof(finished) / sizeof(*finished); i++) {
        if (strcmp(name, finished[i].name) == 0) {
            read_set(w, key, KIND_FINISHED, finished[i].state, NULL);
            return;
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strcmp(name, others[i]) == 0)
            return;
    if (strncmp(name, ":k:", 3) == 0)
        return; /* an Idempotency-Key outlives its task */
    if (strcmp(name, ":expiry") == 0)
        read_set(w, key, KIND_EXPIRY, TASK_SCHEDULED, NULL);
    else if (strcmp(name, ":callbacks") == 0)
        read_set(w, key, KIND_CALLBACKS, TASK_SCHEDULED, NULL);
    else if (strncmp(name, ":q:", 3) == 0)
        read_set(w, key, KIND_LANE, TASK_SCHEDULED, name + 3);
    else if (strncmp(name, ":dead:", 6) == 0)
        read_set(w, key, KIND_DEAD_OF_QUEUE, TASK_DEAD, name + 6);
    else if (strncmp(name, ":k:", 3) != 0)
        cr_assert_fail("no container is named %s", key);
}

static void read_world(struct world *w)
{
    const struct keys *k = lua_keys(w->f);
    redisReply *r = redis_fixture_command(lua_redis(w->f), "KEYS *");

    for (size_t i = 0; i < r->elements; i++) {
        const char *key = r->element[i]->str;
        cr_assert(strncmp(key, k->base, k->base_bytes) == 0, "%s is outside of the partition's hash slot", key);
        if (isalnum((unsigned char)key[k->base_bytes]))
            read_record(w, key, key + k->base_bytes);
        else
            read_container(w, key, key + k->base_bytes);
    }
    freeReplyObject(r);
    read_stream(w);
}

static void free_world(struct world *w)
{
    for (size_t i = 0; i < w->task_count; i++)
        task_destroy(&w->tasks[i]);
    for (size_t i = 0; i < w->place_count; i++) {
        free(w->places[i].id);
        free(w->places[i].queue);
        free(w->places[i].entry);
    }
    free(w->tasks);
    free(w->places);
}

/* ----------------------------------------------------------------- rules */

static bool is_out(const struct task *t)
{
    return t->state == TASK_READY || t->state == TASK_DELIVERING;
}

/* An entry of the Stream whose task went on without it: the next claim drops it. */
static bool is_stale(const struct place *p, const struct task *t)
{
    return p->kind == KIND_STREAM && (!t || !is_out(t) || p->generation != t->generation);
}

static const struct task *task_at(const struct world *w, const char *id)
{
    for (size_t i = 0; i < w->task_count; i++)
        if (strcmp(w->tasks[i]->id, id) == 0)
            return w->tasks[i];
    return NULL;
}

static void check_place(const struct world *w, const struct place *p)
{
    const struct task *t = task_at(w, p->id);

    if (is_stale(p, t))
        return;
    cr_assert_not_null(t, "%s is in a container and has no record", p->id);
    switch (p->kind) {
    case KIND_LANE:
        cr_assert_eq(t->state, TASK_SCHEDULED, "%s is in a lane but %s", p->id, task_state_name(t->state));
        cr_assert_str_eq(t->queue, p->queue, "%s is in the lane %s", p->id, p->queue);
        /* A task that was given back before its first attempt has no `when`: the lane alone knows. */
        cr_assert(t->when_ms ? p->score == t->when_ms : p->score >= t->run_at_ms, "%s is due when?", p->id);
        break;
    case KIND_STREAM:
        cr_assert(t->state == TASK_READY || p->is_pending, "%s is delivering but was not read", p->id);
        break;
    case KIND_FINISHED:
        cr_assert_eq(t->state, p->finished, "%s is among the %s but %s", p->id, task_state_name(p->finished),
                     task_state_name(t->state));
        cr_assert_eq(p->score, t->when_ms, "%s finished when?", p->id);
        break;
    case KIND_DEAD_OF_QUEUE:
        cr_assert_eq(t->state, TASK_DEAD, "%s is among the dead but %s", p->id, task_state_name(t->state));
        cr_assert_str_eq(t->queue, p->queue, "%s is among the dead of %s", p->id, p->queue);
        break;
    case KIND_EXPIRY:
        cr_assert(!task_state_is_finished(t->state), "%s is to expire but %s", p->id, task_state_name(t->state));
        cr_assert(t->has_expiry && p->score == t->expires_ms, "%s expires when?", p->id);
        break;
    case KIND_CALLBACKS:
        cr_assert(task_state_is_finished(t->state), "%s is to call back but %s", p->id, task_state_name(t->state));
        break;
    }
}

static void check_task(const struct world *w, const struct task *t)
{
    int places = 0, dead = 0, expiries = 0;

    for (size_t i = 0; i < w->place_count; i++) {
        const struct place *p = &w->places[i];
        if (strcmp(p->id, t->id) != 0 || is_stale(p, t))
            continue;
        dead += p->kind == KIND_DEAD_OF_QUEUE;
        expiries += p->kind == KIND_EXPIRY;
        places += p->kind == KIND_LANE || p->kind == KIND_STREAM || p->kind == KIND_FINISHED;
    }
    cr_assert_eq(places, 1, "%s (%s) is in %d containers", t->id, task_state_name(t->state), places);
    if (t->state == TASK_SCHEDULED || t->state == TASK_READY)
        cr_assert_eq(expiries, t->has_expiry, "%s (%s) is to expire %d times", t->id, task_state_name(t->state),
                     expiries);
    cr_assert_eq(dead, t->state == TASK_DEAD, "%s (%s) is %d times among the dead of its queue", t->id,
                 task_state_name(t->state), dead);
}

enum level {
    LEVEL_RECORDS,
    LEVEL_OUT,
    LEVEL_BUSY,
    LEVEL_PENDING,
};

static bool counts(const struct task *t, enum level level)
{
    switch (level) {
    case LEVEL_RECORDS:
        return true;
    case LEVEL_OUT:
        return is_out(t);
    case LEVEL_BUSY:
        return t->state == TASK_DELIVERING;
    case LEVEL_PENDING:
        return !task_state_is_finished(t->state);
    }
    return false;
}

static int64_t count_tasks(const struct world *w, enum level level, const char *queue)
{
    int64_t n = 0;

    for (size_t i = 0; i < w->task_count; i++) {
        const struct task *t = w->tasks[i];
        if (queue && strcmp(t->queue, queue) != 0)
            continue;
        n += counts(t, level);
    }
    return n;
}

/* Every field is right, and together they make up all, so none is missing. */
static void check_level(const struct world *w, enum level level, const char *name)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "HGETALL %s:%s", lua_keys(w->f)->base, name);
    int64_t sum = 0;

    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        const char *queue = r->element[i]->str;
        long long n = strtoll(r->element[i + 1]->str, NULL, 10);
        cr_assert_gt(n, 0, "%s of %s is %lld", name, queue, n);
        cr_assert_eq(n, count_tasks(w, level, queue), "%s of %s is %lld, not %lld", name, queue, n,
                     (long long)count_tasks(w, level, queue));
        sum += n;
    }
    freeReplyObject(r);
    cr_assert_eq(sum, count_tasks(w, level, NULL), "%s lacks a queue", name);
}

/* Where each task in the Stream is said to be, there is its entry; and none is missing. */
static void check_flight(const struct world *w)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "HGETALL %s:flight", lua_keys(w->f)->base);
    int64_t n = 0;

    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        const char *id = r->element[i]->str;
        const struct task *t = task_at(w, id);
        char place[160];
        if (strcmp(id, ":") == 0)
            continue;
        n++;
        cr_assert(t && is_out(t), "%s is not in the Stream", id);
        for (size_t p = 0; p < w->place_count; p++) {
            if (w->places[p].kind != KIND_STREAM || strcmp(w->places[p].id, id) != 0 || is_stale(&w->places[p], t))
                continue;
            (void)snprintf(place, sizeof(place), "%s %s", w->places[p].entry, t->queue);
            cr_assert_str_eq(r->element[i + 1]->str, place, "%s is elsewhere", id);
        }
    }
    freeReplyObject(r);
    cr_assert_eq(n, count_tasks(w, LEVEL_OUT, NULL), "of the tasks in the Stream it is not known where they are");
}

/* Whether a place is in the lane of a queue, or in what stands in the index beside the queues. */
static bool is_in_lane(const struct place *p, const char *name)
{
    if (p->kind == KIND_LANE)
        return strcmp(p->queue, name) == 0;
    return (p->kind == KIND_EXPIRY && strcmp(name, ":expiry") == 0) ||
           (p->kind == KIND_CALLBACKS && strcmp(name, ":callbacks") == 0);
}

static int64_t earliest_in_lane(const struct world *w, const char *name)
{
    int64_t earliest = INT64_MAX;

    for (size_t i = 0; i < w->place_count; i++)
        if (is_in_lane(&w->places[i], name) && w->places[i].score < earliest)
            earliest = w->places[i].score;
    return earliest;
}

static bool read_field(const struct world *w, const char *hash, const char *field, char out[256])
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "HGET %s:%s %s", lua_keys(w->f)->base, hash, field);
    bool is_there = r->type == REDIS_REPLY_STRING;

    if (is_there)
        (void)snprintf(out, 256, "%s", r->str);
    freeReplyObject(r);
    return is_there;
}

/* Until when, in Unix ms, the limits of a queue may hold its lane: for ever when it is paused or has no free slot; by
 * its rate until the bucket is full again at the latest. */
static double held_until(const struct world *w, const char *queue)
{
    struct queue_settings s;
    char text[256], full_at[256];
    double until = 0;

    if (!read_field(w, "settings", queue, text))
        return 0;
    cr_assert(queue_settings_decode(text, strlen(text), &s), "the settings of %s are %s", queue, text);
    if (s.is_paused || (s.max_concurrency > 0 && count_tasks(w, LEVEL_OUT, queue) >= s.max_concurrency))
        until = HUGE_VAL;
    else if (s.max_per_second > 0 && read_field(w, "rates", queue, full_at))
        until = strtod(full_at, NULL) / 1000;
    queue_settings_deinit(&s);
    return until;
}

/* A bucket belongs to a rate. */
static void check_rates(const struct world *w)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "HKEYS %s:rates", lua_keys(w->f)->base);

    for (size_t i = 0; i < r->elements; i++) {
        struct queue_settings s;
        char text[256] = "";
        cr_assert(read_field(w, "settings", r->element[i]->str, text), "%s has a bucket", r->element[i]->str);
        cr_assert(queue_settings_decode(text, strlen(text), &s));
        cr_assert_gt(s.max_per_second, 0, "%s has a bucket and %s", r->element[i]->str, text);
        queue_settings_deinit(&s);
    }
    freeReplyObject(r);
}

/* Each lane that holds something is in the index, not later than its first task: else nobody would wake up for it;
 * except where the limits of its queue hold it. */
static void check_index(const struct world *w)
{
    redisReply *r = redis_fixture_command(lua_redis(w->f), "ZRANGE %s 0 -1 WITHSCORES", lua_keys(w->f)->lanes);
    int64_t now = lua_now_ms(w->f);

    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        int64_t earliest = earliest_in_lane(w, r->element[i]->str);
        double score = strtod(r->element[i + 1]->str, NULL);
        if (earliest == INT64_MAX && r->element[i]->str[0] == ':')
            continue; /* the one who looks after it finds nothing to do */
        cr_assert_neq(earliest, INT64_MAX, "the lane %s is empty and in the index", r->element[i]->str);
        if (r->element[i]->str[0] == ':' && score <= (double)now + WORK_AGAIN_MS)
            continue; /* somebody was told, and will be again */
        cr_assert(score <= (double)earliest || score <= (double)now || score <= held_until(w, r->element[i]->str),
                  "the lane %s is in the index %f ms too late", r->element[i]->str, score - (double)earliest);
    }
    for (size_t i = 0; i < w->place_count; i++) {
        const struct place *p = &w->places[i];
        bool is_there = p->kind == KIND_STREAM || p->kind == KIND_FINISHED || p->kind == KIND_DEAD_OF_QUEUE;
        for (size_t l = 0; l + 1 < r->elements; l += 2)
            is_there = is_there || is_in_lane(p, r->element[l]->str);
        cr_assert(is_there, "what %s waits in is not in the index", p->id);
    }
    freeReplyObject(r);
}

void lua_check(struct lua_fixture *f)
{
    struct world w = {.f = f};

    read_world(&w);
    for (size_t i = 0; i < w.place_count; i++)
        check_place(&w, &w.places[i]);
    for (size_t i = 0; i < w.task_count; i++)
        check_task(&w, w.tasks[i]);
    check_level(&w, LEVEL_RECORDS, "queues");
    check_level(&w, LEVEL_OUT, "out");
    check_level(&w, LEVEL_BUSY, "busy");
    check_flight(&w);
    check_index(&w);
    check_rates(&w);
    cr_assert_eq(lua_counter(f, "totals", "pending"), count_tasks(&w, LEVEL_PENDING, NULL), "totals.pending is wrong");
    free_world(&w);
}
