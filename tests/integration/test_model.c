#include "../support/lua_fixture.h"
#include "../support/random.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Random operations on a real Redis and on a model of a few dozen lines. What a call answers must be what the model
 * says, and after every step the records, the counters and the containers must agree with it. Where Redis has a choice
 * (which of the due tasks move first) the model looks at what was chosen and checks that it was allowed.
 *
 * MODEL_SEED=n runs that seed alone. */

#define SEEDS 8
#define STEPS 300
#define TASKS 20
#define LEASES 600
#define CONSUMERS 3
#define LIFE_MS 3600000

enum phase {
    PHASE_UNREAD = 0, /* in the Stream, no consumer has it */
    PHASE_HELD,       /* in a consumer's list, claimed or not */
    PHASE_OLD,        /* acknowledged; whoever comes with it is late */
    PHASE_FORGOTTEN,
};

struct model_task {
    char id[24];
    int queue;
    int state; /* -1: no record */
    bool is_due, was_due_at_first;
    bool has_cancel;
    unsigned generation;
    int attempts, takeovers;
};

struct model_lease {
    struct lua_entry entry; /* its entry id is known once it was read */
    struct model_task *task;
    int consumer;
    enum phase phase;
};

struct totals {
    int created, duplicates, attempts, delivered, failed_attempts, retried, dead, cancelled, recovered, trimmed,
        orphans;
};

static struct {
    struct lua_fixture *lua;
    struct random dice;
    struct model_task tasks[TASKS];
    struct model_lease leases[LEASES];
    size_t lease_count;
    struct totals totals;
} m;

static const char *const queues[] = {"mail", "sms", "default"};
static const char *const consumers[CONSUMERS] = {"g/1", "g/2", "h/1"};

static size_t below(size_t n)
{
    return random_below(&m.dice, n);
}

static struct model_task *any_task(void)
{
    return &m.tasks[below(TASKS)];
}

static bool is_current(const struct model_lease *l)
{
    const struct model_task *t = l->task;

    return (t->state == TASK_READY || t->state == TASK_DELIVERING) && t->generation == l->entry.lease.generation;
}

static bool is_finished(const struct model_task *t)
{
    return t->state >= TASK_DELIVERED;
}

static int count_phase(enum phase phase)
{
    int n = 0;

    for (size_t i = 0; i < m.lease_count; i++)
        n += m.leases[i].phase == phase;
    return n;
}

static void finish(struct model_task *t, enum task_state state)
{
    t->state = (int)state;
    m.totals.delivered += state == TASK_DELIVERED;
    m.totals.dead += state == TASK_DEAD;
    m.totals.cancelled += state == TASK_CANCELLED;
}

/* -------------------------------------------------------------- operations */

/* Where the generation begins is Redis's choice. Should a lease of an earlier task of this id be in its way, which
 * happens once in thousands, the lease is forgotten. */
static void set_first_generation(struct model_task *t)
{
    struct task *created = lua_task(m.lua, t->id);

    t->generation = created->generation;
    for (size_t i = 0; i < m.lease_count; i++) {
        unsigned ahead = (m.leases[i].entry.lease.generation - t->generation) % 65536;
        if (m.leases[i].task == t && m.leases[i].phase == PHASE_OLD && ahead < STEPS)
            m.leases[i].phase = PHASE_FORGOTTEN;
    }
    task_destroy(&created);
}

static void step_create(void)
{
    struct model_task *t = any_task();
    int queue = (int)below(3);
    bool is_due = below(8) > 0;
    redisReply *r = lua_create(m.lua, &(struct lua_new){t->id, is_due ? "+0" : "+3600000", queues[queue]}, 1);

    if (t->state != -1) {
        cr_assert_eq(r->element[1]->type, REDIS_REPLY_STRING, "%s was created twice", t->id);
        m.totals.duplicates++;
    } else {
        cr_assert_eq(r->element[1]->type, REDIS_REPLY_INTEGER, "%s was not created", t->id);
        t->queue = queue;
        t->state = TASK_SCHEDULED;
        t->is_due = t->was_due_at_first = is_due;
        t->has_cancel = false;
        t->attempts = t->takeovers = 0;
        set_first_generation(t);
        m.totals.created++;
    }
    freeReplyObject(r);
}

static struct model_lease *new_lease(struct model_task *t)
{
    struct model_lease *l = &m.leases[m.lease_count++];

    cr_assert_lt(m.lease_count, LEASES);
    memset(l, 0, sizeof(*l));
    l->task = t;
    memcpy(l->entry.id, t->id, sizeof(t->id));
    l->entry.lease.generation = t->generation;
    return l;
}

static void step_move(void)
{
    int room = (int)below(8) + 1, max = (int)below(8) + 1, due = 0, moved = 0;
    int unread = count_phase(PHASE_UNREAD);
    int allowed = room - unread < max ? room - unread : max;
    struct lua_moved r = lua_move(m.lua, room, max);

    for (int i = 0; i < TASKS; i++) {
        struct model_task *t = &m.tasks[i];
        if (t->state != TASK_SCHEDULED || !t->is_due)
            continue;
        due++;
        if (lua_state(m.lua, t->id) == TASK_READY) {
            t->state = TASK_READY;
            new_lease(t);
            moved++;
        }
    }
    cr_assert_eq(r.moved, moved, "%d tasks are ready, it says %lld", moved, (long long)r.moved);
    cr_assert_leq(moved, allowed > 0 ? allowed : 0, "%d moved into room for %d", moved, allowed);
    cr_assert(moved > 0 || due == 0 || allowed <= 0, "%d are due, there is room, none moved", due);
    cr_assert_eq(r.unread, unread + moved);
    cr_assert(moved == due || r.next_us == 0, "%d are due and not moved, and nobody is told", due - moved);
}

static void step_read(void)
{
    struct lua_entry got[8];
    int consumer = (int)below(CONSUMERS);
    size_t max = below(4) + 1;
    size_t n = lua_read(m.lua, consumers[consumer], got, max);

    cr_assert_eq(n, count_phase(PHASE_UNREAD) < (int)max ? (size_t)count_phase(PHASE_UNREAD) : max);
    for (size_t i = 0; i < n; i++) {
        struct model_lease *found = NULL;
        for (size_t k = 0; k < m.lease_count; k++) {
            struct model_lease *l = &m.leases[k];
            if (l->phase == PHASE_UNREAD && strcmp(l->entry.id, got[i].id) == 0 &&
                l->entry.lease.generation == got[i].lease.generation)
                found = l;
        }
        cr_assert_not_null(found, "%s came out of the Stream and never went in", got[i].id);
        found->entry = got[i];
        found->phase = PHASE_HELD;
        found->consumer = consumer;
    }
}

/* A lease that was read once; mostly one that is held still. */
static struct model_lease *any_read_lease(void)
{
    for (int tries = 0; m.lease_count > 0 && tries < 40; tries++) {
        struct model_lease *l = &m.leases[below(m.lease_count)];
        if (l->phase == PHASE_HELD || (l->phase == PHASE_OLD && below(8) == 0))
            return l;
    }
    return NULL;
}

static void step_claim(void)
{
    struct model_lease *l = any_read_lease();

    if (!l)
        return;
    bool is_first = below(2) == 0, is_ours = is_current(l) && (!is_first || l->task->state == TASK_READY);
    size_t got = is_first ? lua_claim(m.lua, &l->entry, 1) : lua_claim_again(m.lua, &l->entry, 1);
    cr_assert_eq(got, is_ours ? 1 : 0, "the claim of %s", l->task->id);
    if (is_ours)
        l->task->state = TASK_DELIVERING;
    else if (!is_current(l))
        l->phase = PHASE_OLD;
}

static int settled_state(const struct model_task *t, char how)
{
    if (how == 'd')
        return TASK_DELIVERED;
    if (t->has_cancel)
        return TASK_CANCELLED;
    return how == 'x' ? TASK_DEAD : TASK_SCHEDULED;
}

static void step_settle(void)
{
    struct model_lease *l = any_read_lease();
    char how = "drxb"[below(4)];
    bool is_due = below(8) > 0;

    if (!l)
        return;
    struct model_task *t = l->task;
    int want = is_current(l) ? settled_state(t, how) : -1;
    cr_assert_eq(lua_settle(m.lua, &l->entry, how, is_due ? 0 : LIFE_MS), want, "%s settled with %c", t->id, how);
    l->phase = PHASE_OLD;
    if (want == -1)
        return;
    t->generation = (t->generation + 1) % 65536;
    if (how != 'b') {
        t->attempts++;
        t->takeovers = 0;
        m.totals.attempts++;
        m.totals.failed_attempts += how != 'd';
        m.totals.retried += how == 'r' && want == TASK_SCHEDULED;
    }
    if (want == TASK_SCHEDULED) {
        t->state = TASK_SCHEDULED;
        t->is_due = is_due;
    } else {
        finish(t, (enum task_state)want);
    }
}

static void step_cancel(void)
{
    struct model_task *t = any_task();

    cr_assert_eq(lua_cancel(m.lua, t->id), t->state, "the cancel of %s", t->id);
    if (t->state == TASK_DELIVERING)
        t->has_cancel = true;
    if (t->state != TASK_SCHEDULED && t->state != TASK_READY)
        return;
    for (size_t i = 0; i < m.lease_count && t->state == TASK_READY; i++) {
        struct model_lease *l = &m.leases[i];
        if (l->task != t || !is_current(l) || l->phase > PHASE_HELD)
            continue;
        l->phase = l->phase == PHASE_HELD ? PHASE_OLD : PHASE_FORGOTTEN;
    }
    t->generation = (t->generation + 1) % 65536;
    finish(t, TASK_CANCELLED);
}

static void put_back(struct model_task *t)
{
    t->generation = (t->generation + 1) % 65536;
    if (t->has_cancel) {
        finish(t, TASK_CANCELLED);
    } else {
        t->state = TASK_SCHEDULED;
        t->is_due = true;
    }
}

static void take_back(struct model_task *t)
{
    t->takeovers++;
    m.totals.recovered++;
    put_back(t);
    if (t->state == TASK_SCHEDULED && t->takeovers >= TASK_TAKEOVERS_MAX)
        finish(t, TASK_DEAD);
}

/* One consumer was silent for too long. */
static void step_recover(void)
{
    int dead = (int)below(CONSUMERS);
    int64_t held = 0;

    for (size_t i = 0; i < m.lease_count; i++) {
        struct model_lease *l = &m.leases[i];
        if (l->phase != PHASE_HELD || l->consumer != dead)
            continue;
        lua_make_idle(m.lua, &l->entry, consumers[dead], 2 * LIFE_MS);
        held++;
        l->phase = PHASE_OLD;
        if (is_current(l))
            take_back(l->task);
    }
    cr_assert_eq(lua_recover(m.lua, "survivor", LIFE_MS), held);
}

/* Somebody deletes keys by hand, and the sweeps put right what that breaks. */
static void step_vandal(void)
{
    static const char *const victims[] = {"ready", "flight", "lanes", "q:mail", "q:sms", "delivered", "cancelled"};
    const char *victim = victims[below(sizeof(victims) / sizeof(*victims))];
    bool is_stream = strcmp(victim, "ready") == 0;

    redis_fixture_run(lua_redis(m.lua), "DEL %s:%s", lua_keys(m.lua)->base, victim);
    if (is_stream)
        redis_fixture_run(lua_redis(m.lua), "XGROUP CREATE %s %s 0 MKSTREAM", lua_keys(m.lua)->ready, KEYS_GROUP);
    lua_orphans(m.lua, 0, false);
    lua_mend(m.lua, 3);
    for (size_t i = 0; is_stream && i < m.lease_count; i++) {
        struct model_lease *l = &m.leases[i];
        if (l->phase > PHASE_HELD)
            continue;
        if (is_current(l))
            put_back(l->task);
        l->phase = l->phase == PHASE_HELD ? PHASE_OLD : PHASE_FORGOTTEN;
    }
    /* How long a task that was given back before its first attempt was to wait is known to its lane alone. */
    for (int i = 0; i < TASKS && strncmp(victim, "q:", 2) == 0; i++) {
        struct model_task *t = &m.tasks[i];
        if (t->state == TASK_SCHEDULED && t->attempts == 0 && strcmp(queues[t->queue], victim + 2) == 0)
            t->is_due = t->was_due_at_first;
    }
    m.totals.orphans = (int)lua_counter(m.lua, "totals", "orphans");
    cr_assert_eq(lua_orphans(m.lua, 0, false).pending, 0, "after %s was deleted", victim);
}

static void step_renew(void)
{
    struct lua_entry mine[LEASES];
    size_t count = 0, held = 0;
    int consumer = (int)below(CONSUMERS);

    for (size_t i = 0; i < m.lease_count && count < STORE_CALL_MAX; i++) {
        if (m.leases[i].phase != PHASE_HELD && m.leases[i].phase != PHASE_OLD)
            continue;
        held += m.leases[i].phase == PHASE_HELD && m.leases[i].consumer == consumer;
        mine[count++] = m.leases[i].entry;
    }
    cr_assert_eq(lua_renew(m.lua, consumers[consumer], mine, count), (int64_t)held);
}

static void step_sweep(void)
{
    bool by_age = below(2) == 0;
    int limit = (int)below(4) + 1, keep = (int)below(6), finished = 0, gone = 0;
    int want = 0;

    for (int i = 0; i < TASKS; i++)
        finished += is_finished(&m.tasks[i]);
    int64_t removed = lua_sweep(m.lua, by_age ? 0 : LIFE_MS, by_age ? TASKS : keep, limit);
    for (int i = 0; i < TASKS; i++) {
        struct model_task *t = &m.tasks[i];
        if (is_finished(t) && lua_state(m.lua, t->id) == -1) {
            t->state = -1;
            gone++;
        }
    }
    want = by_age ? finished : finished > keep ? finished - keep : 0;
    cr_assert_eq(removed, want < limit ? want : limit);
    cr_assert_eq(gone, removed);
    m.totals.trimmed += by_age ? 0 : gone;
}

/* ------------------------------------------------------------------ checks */

static void check_task(const struct model_task *want)
{
    struct task *t = lua_task(m.lua, want->id);

    cr_assert_eq(t ? (int)t->state : -1, want->state, "%s is %s", want->id, t ? task_state_name(t->state) : "gone");
    if (!t)
        return;
    cr_assert_str_eq(t->queue, queues[want->queue], "%s", want->id);
    cr_assert_eq(t->attempts, want->attempts, "%s: %d attempts", want->id, t->attempts);
    cr_assert_eq(t->takeovers, want->takeovers, "%s: %d takeovers", want->id, t->takeovers);
    cr_assert_eq(t->generation, want->generation, "%s: generation %u", want->id, t->generation);
    cr_assert_eq(t->cancel_requested, want->has_cancel, "%s: cancel mark", want->id);
    cr_assert_eq(t->history_count > 0, t->attempts > 0 || (t->state == TASK_DEAD && t->takeovers > 0), "%s: history",
                 want->id);
    cr_assert_str_eq(t->url, "http://receiver/", "%s", want->id);
    cr_assert_eq(t->body != NULL, t->state != TASK_DELIVERED, "%s: body", want->id);
    task_destroy(&t);
}

static void check_totals(void)
{
    const struct {
        const char *name;
        int want;
    } fields[] = {{"created", m.totals.created},
                  {"duplicates", m.totals.duplicates},
                  {"attempts", m.totals.attempts},
                  {"delivered", m.totals.delivered},
                  {"failed_attempts", m.totals.failed_attempts},
                  {"retried", m.totals.retried},
                  {"dead", m.totals.dead},
                  {"cancelled", m.totals.cancelled},
                  {"recovered", m.totals.recovered},
                  {"trimmed", m.totals.trimmed},
                  {"orphans", m.totals.orphans}};

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        cr_assert_eq(lua_counter(m.lua, "totals", fields[i].name), fields[i].want, "totals.%s is %lld, not %d",
                     fields[i].name, (long long)lua_counter(m.lua, "totals", fields[i].name), fields[i].want);
}

static void check(void)
{
    lua_check(m.lua);
    for (int i = 0; i < TASKS; i++)
        check_task(&m.tasks[i]);
    check_totals();
    cr_assert_eq(redis_fixture_integer(lua_redis(m.lua), "XLEN %s", lua_keys(m.lua)->ready),
                 count_phase(PHASE_UNREAD) + count_phase(PHASE_HELD));
}

/* --------------------------------------------------------------------- run */

static void (*const steps[])(void) = {
    step_create, step_create, step_create, step_move,  step_move,   step_read,    step_read,
    step_claim,  step_claim,  step_claim,  step_claim, step_settle, step_settle,  step_settle,
    step_cancel, step_renew,  step_sweep,  step_sweep, step_create, step_recover, step_vandal,
};

static void run_seed(uint64_t seed)
{
    memset(&m, 0, sizeof(m));
    m.dice = random_seeded(seed);
    m.lua = lua_fixture_create();
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(m.tasks[i].id, sizeof(m.tasks[i].id), "t%d", i);
        m.tasks[i].state = -1;
    }
    for (int i = 0; i < STEPS; i++) {
        steps[below(sizeof(steps) / sizeof(*steps))]();
        check();
    }
    cr_expect_gt(m.totals.delivered + m.totals.dead + m.totals.cancelled, 5, "the steps lead nowhere");
    lua_fixture_destroy(&m.lua);
}

Test(model, random_operations_do_what_the_model_does)
{
    uint64_t first = random_seed_from("MODEL_SEED", 0), seeds = 1;

    if (first == 0) {
        first = (uint64_t)time(NULL);
        seeds = SEEDS;
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        printf("MODEL_SEED=%llu\n", (unsigned long long)seed);
        (void)fflush(stdout);
        run_seed(seed);
    }
}
