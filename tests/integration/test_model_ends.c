#include "../support/lua_ends.h"
#include "../support/random.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A second model beside test_model.c, of how tasks end: which expire, which call back, and that each end is told once.
 * Random operations on a real Redis and on the model, compared after every step. Time passes by hand: a task's expiry
 * is moved into the past, in its record and in the index.
 *
 * MODEL_SEED=n runs that seed alone. */

#define SEEDS 6
#define STEPS 400
#define NAMED 16   /* tasks that are created again and again */
#define TASKS 400  /* and the news of their ends */
#define LEASES 600 /* more than a run has */
#define FAR_MS 3600000

struct model_task {
    char id[16];
    int state; /* -1: no record */
    bool has_expiry, is_over;
    bool on_success, on_failure;
    bool has_cancel, is_marked;
    int takeovers;
};

static struct {
    struct lua_fixture *lua;
    struct random dice;
    struct model_task tasks[TASKS];
    size_t task_count;
    struct lua_entry leases[LEASES]; /* of tasks that are delivering, or were */
    size_t lease_count;
    int created, expired, delivered, callbacks;
} m;

static size_t below(size_t n)
{
    return random_below(&m.dice, n);
}

static bool coin(void)
{
    return below(2) == 1;
}

static struct model_task *named(void)
{
    return &m.tasks[below(NAMED)];
}

static struct model_task *task_of(const char *id)
{
    for (size_t i = 0; i < m.task_count; i++)
        if (strcmp(m.tasks[i].id, id) == 0)
            return &m.tasks[i];
    cr_assert_fail("nobody created %s", id);
    return NULL;
}

static void finish(struct model_task *t, int state)
{
    t->state = state;
    t->is_marked = state == TASK_DELIVERED ? t->on_success : state != TASK_CANCELLED && t->on_failure;
    m.expired += state == TASK_EXPIRED;
    m.delivered += state == TASK_DELIVERED;
}

/* Where a task goes that is to wait again. */
static void wait_again(struct model_task *t)
{
    if (t->has_cancel)
        finish(t, TASK_CANCELLED);
    else if (t->is_over)
        finish(t, TASK_EXPIRED);
    else
        t->state = TASK_SCHEDULED;
}

/* -------------------------------------------------------------- operations */

static void step_create(void)
{
    struct model_task *t = named();

    if (t->state != -1)
        return;
    t->has_expiry = coin();
    t->is_over = t->has_expiry && below(4) == 0;
    t->on_success = coin();
    t->on_failure = coin();
    t->has_cancel = t->is_marked = false;
    t->takeovers = 0;
    t->state = TASK_SCHEDULED;
    m.created++;
    lua_add_ending(m.lua, &(struct lua_ending){.id = t->id,
                                               .due = "+0",
                                               .queue = "mail",
                                               .expires_in_ms = t->is_over      ? -1
                                                                : t->has_expiry ? FAR_MS
                                                                                : 0,
                                               .on_success = t->on_success ? "http://success/" : NULL,
                                               .on_failure = t->on_failure ? "http://failure/" : NULL});
}

/* What is due may go out although it has expired: the claim is what refuses it. */
static void step_move(void)
{
    int scheduled = 0;

    for (size_t i = 0; i < m.task_count; i++) {
        scheduled += m.tasks[i].state == TASK_SCHEDULED;
        if (m.tasks[i].state == TASK_SCHEDULED)
            m.tasks[i].state = TASK_READY;
    }
    cr_assert_eq(lua_move(m.lua, 1000, 200).moved, scheduled);
}

static void step_claim(void)
{
    struct lua_entry got[4];
    size_t n = lua_read(m.lua, "g/1", got, below(4) + 1);

    for (size_t i = 0; i < n; i++) {
        struct model_task *t = task_of(got[i].id);
        size_t ours = lua_claim(m.lua, &got[i], 1);
        if (t->state != TASK_READY) { /* left the Stream with its end, but was read before */
            cr_assert_eq(ours, 0);
            continue;
        }
        cr_assert_eq(ours, t->is_over ? 0 : 1, "the claim of %s", t->id);
        if (t->is_over) {
            finish(t, TASK_EXPIRED);
            continue;
        }
        t->state = TASK_DELIVERING;
        cr_assert_lt(m.lease_count, LEASES);
        m.leases[m.lease_count++] = got[i];
    }
}

static void drop_lease(size_t i)
{
    m.leases[i] = m.leases[--m.lease_count];
}

static void step_settle(void)
{
    char how = "ddrxb"[below(5)];

    if (m.lease_count == 0)
        return;
    size_t i = below(m.lease_count);
    struct model_task *t = task_of(m.leases[i].id);
    int reached = lua_settle(m.lua, &m.leases[i], how, 0);
    drop_lease(i);
    if (how == 'd')
        finish(t, TASK_DELIVERED);
    else if (how == 'x' && !t->has_cancel)
        finish(t, TASK_DEAD);
    else
        wait_again(t);
    if (how != 'b')
        t->takeovers = 0;
    cr_assert_eq(reached, t->state, "%s settled with %c", t->id, how);
}

static void step_cancel(void)
{
    struct model_task *t = named();

    cr_assert_eq(lua_cancel(m.lua, t->id), t->state);
    if (t->state == TASK_DELIVERING)
        t->has_cancel = true;
    else if (t->state == TASK_SCHEDULED || t->state == TASK_READY)
        finish(t, TASK_CANCELLED);
}

static void step_redrive(void)
{
    struct model_task *t = named();

    cr_assert_eq(lua_redrive(m.lua, t->id, false, NULL), t->state);
    if (t->state != TASK_DEAD && t->state != TASK_CANCELLED && t->state != TASK_EXPIRED)
        return;
    if (t->is_over)
        t->has_expiry = t->is_over = false;
    t->state = TASK_SCHEDULED;
    t->has_cancel = t->is_marked = false;
    t->takeovers = 0;
}

/* All that is under way was held by a worker that died. */
static void step_recover(void)
{
    size_t held = m.lease_count;

    for (size_t i = 0; i < held; i++) {
        struct model_task *t = task_of(m.leases[i].id);
        lua_make_idle(m.lua, &m.leases[i], "g/1", 2 * FAR_MS);
        if (!t->has_cancel && ++t->takeovers >= TASK_TAKEOVERS_MAX)
            finish(t, TASK_DEAD);
        else
            wait_again(t);
    }
    m.lease_count = 0;
    cr_assert_eq(lua_recover(m.lua, "survivor", FAR_MS), (int64_t)held);
}

static bool is_in_index(const char *id)
{
    redisReply *r = redis_fixture_command(lua_redis(m.lua), "ZSCORE %s:expiry %s", lua_keys(m.lua)->base, id);
    bool is_there = r->type != REDIS_REPLY_NIL;

    freeReplyObject(r);
    return is_there;
}

/* The moment at which a task expires has come. */
static void step_time(void)
{
    struct model_task *t = named();
    const char *base = lua_keys(m.lua)->base;

    if (t->state < TASK_SCHEDULED || t->state > TASK_DELIVERING || !t->has_expiry || t->is_over)
        return;
    t->is_over = true;
    redisReply *r = redis_fixture_command(lua_redis(m.lua), "GETRANGE %s%s 18 19", base, t->id);
    int history = (unsigned char)r->str[0] * 256 + (unsigned char)r->str[1];
    freeReplyObject(r);
    /* Behind the history stand the queue's name and the kinds. */
    redis_fixture_run(lua_redis(m.lua), "SETRANGE %s%s %d %b", base, t->id, 20 + history + 1 + (int)strlen("mail") + 1,
                      "\0\0\0\0\0\1", (size_t)6);
    if (is_in_index(t->id)) {
        redis_fixture_run(lua_redis(m.lua), "ZADD %s:expiry 1 %s", base, t->id);
        redis_fixture_run(lua_redis(m.lua), "ZADD %s 1 :expiry", lua_keys(m.lua)->lanes);
    }
}

static void step_expire(void)
{
    int due = 0;

    for (size_t i = 0; i < m.task_count; i++) {
        struct model_task *t = &m.tasks[i];
        if (t->is_over && (t->state == TASK_SCHEDULED || t->state == TASK_READY)) {
            finish(t, TASK_EXPIRED);
            due++;
        }
    }
    cr_assert_eq(lua_expire(m.lua, 100, NULL), due);
}

static int marked_count(void)
{
    int n = 0;

    for (size_t i = 0; i < m.task_count; i++)
        n += m.tasks[i].is_marked;
    return n;
}

/* Some of them, and some twice, as another gateway or a lost answer would. */
static void step_announce(void)
{
    struct lua_marked marked;

    lua_callbacks(m.lua, 50, 49152, &marked);
    cr_assert_eq(marked.in_all, marked_count());
    for (size_t i = 0; i < marked.count; i++) {
        struct model_task *t = task_of(marked.tasks[i].id);
        struct model_task *news = &m.tasks[m.task_count];
        cr_assert(t->is_marked, "%s has nothing to tell", t->id);
        if (coin())
            continue;
        cr_assert_lt(m.task_count, TASKS);
        memset(news, 0, sizeof(*news));
        (void)snprintf(news->id, sizeof(news->id), "n%zu", m.task_count++);
        cr_assert_eq(lua_announce(m.lua, t->id, marked.tasks[i].mark, news->id, NULL), 1);
        if (coin())
            cr_assert_eq(lua_announce(m.lua, t->id, marked.tasks[i].mark, "once-more", NULL), 0);
        news->state = TASK_SCHEDULED;
        t->is_marked = false;
        m.created++;
        m.callbacks++;
    }
}

static void step_sweep(void)
{
    int gone = 0;

    for (size_t i = 0; i < m.task_count; i++) {
        struct model_task *t = &m.tasks[i];
        if (t->state >= TASK_DELIVERED && !t->is_marked) {
            t->state = -1;
            gone++;
        }
    }
    cr_assert_eq(lua_sweep(m.lua, 0, 1000, 1000), gone);
}

/* --------------------------------------------------------------------- run */

static void check(void)
{
    lua_check(m.lua);
    for (size_t i = 0; i < m.task_count; i++) {
        int state = lua_state(m.lua, m.tasks[i].id);
        cr_assert_eq(state, m.tasks[i].state, "%s is %d, not %d", m.tasks[i].id, state, m.tasks[i].state);
    }
    cr_assert_eq(redis_fixture_integer(lua_redis(m.lua), "ZCARD %s:callbacks", lua_keys(m.lua)->base), marked_count());
    cr_assert_eq(lua_counter(m.lua, "totals", "created"), m.created);
    cr_assert_eq(lua_counter(m.lua, "totals", "expired"), m.expired);
    cr_assert_eq(lua_counter(m.lua, "totals", "delivered"), m.delivered);
    cr_assert_eq(lua_counter(m.lua, "totals", "callbacks"), m.callbacks);
}

static void (*const steps[])(void) = {
    step_create, step_create,  step_create,   step_create,   step_move,   step_move,    step_claim, step_claim,
    step_claim,  step_settle,  step_settle,   step_settle,   step_cancel, step_redrive, step_time,  step_time,
    step_time,   step_recover, step_announce, step_announce, step_expire, step_sweep,
};

static void run_seed(uint64_t seed, int *expired, int *callbacks)
{
    memset(&m, 0, sizeof(m));
    m.dice = random_seeded(seed);
    m.lua = lua_fixture_create();
    for (; m.task_count < NAMED; m.task_count++) {
        (void)snprintf(m.tasks[m.task_count].id, sizeof(m.tasks[m.task_count].id), "t%zu", m.task_count);
        m.tasks[m.task_count].state = -1;
    }
    for (int i = 0; i < STEPS; i++) {
        steps[below(sizeof(steps) / sizeof(*steps))]();
        check();
    }
    lua_fixture_destroy(&m.lua);
    *expired += m.expired;
    *callbacks += m.callbacks;
}

Test(model_ends, each_task_ends_once_and_each_end_is_told_once)
{
    uint64_t first = random_seed_from("MODEL_SEED", 0), seeds = 1;
    int expired = 0, callbacks = 0;

    if (first == 0) {
        first = (uint64_t)time(NULL);
        seeds = SEEDS;
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        printf("MODEL_SEED=%llu\n", (unsigned long long)seed);
        (void)fflush(stdout);
        run_seed(seed, &expired, &callbacks);
    }
    if (seeds == SEEDS) /* a single one may be unlucky */
        cr_expect(expired > SEEDS && callbacks > SEEDS, "%d expired, %d callbacks: the steps lead nowhere", expired,
                  callbacks);
}
