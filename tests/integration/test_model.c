#include "../support/lua_fixture.h"
#include "../support/model.h"
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
#define STEPS 400

static const char *const consumers[CONSUMERS] = {"g/1", "g/2", "h/1"};

/* -------------------------------------------------------------- operations */

/* Where the generation begins is Redis's choice. Should a lease of an earlier task of this id be in its way, which
 * happens once in thousands, the lease is forgotten. */
static void set_first_generation(struct model_task *t)
{
    struct task *created = lua_task(model.lua, t->id);

    t->generation = created->generation;
    for (size_t i = 0; i < model.lease_count; i++) {
        unsigned ahead = (model.leases[i].entry.lease.generation - t->generation) % 65536;
        if (model.leases[i].task == t && model.leases[i].phase == PHASE_OLD && ahead < STEPS)
            model.leases[i].phase = PHASE_FORGOTTEN;
    }
    task_destroy(&created);
}

static void step_create(void)
{
    struct model_task *t = model_any_task();
    int queue = (int)model_below(3);
    bool is_due = model_below(8) > 0;
    redisReply *r = lua_create(model.lua, &(struct lua_new){t->id, is_due ? "+0" : "+3600000", model_queues[queue]}, 1);

    if (t->state != -1) {
        cr_assert_eq(r->element[1]->type, REDIS_REPLY_STRING, "%s was created twice", t->id);
        model.totals.duplicates++;
    } else {
        cr_assert_eq(r->element[1]->type, REDIS_REPLY_INTEGER, "%s was not created", t->id);
        t->queue = queue;
        t->state = TASK_SCHEDULED;
        t->is_due = t->is_run_at_due = is_due;
        t->has_cancel = t->has_when = t->has_history = false;
        t->attempts = t->takeovers = 0;
        set_first_generation(t);
        model.totals.created++;
    }
    freeReplyObject(r);
}

static struct model_lease *new_lease(struct model_task *t)
{
    struct model_lease *l = &model.leases[model.lease_count++];

    cr_assert_lt(model.lease_count, LEASES);
    memset(l, 0, sizeof(*l));
    l->task = t;
    memcpy(l->entry.id, t->id, sizeof(t->id));
    l->entry.lease.generation = t->generation;
    return l;
}

static void step_move(void)
{
    int room = (int)model_below(8) + 1, max = (int)model_below(8) + 1, due = 0, moved = 0;
    int unread = model_count_phase(PHASE_UNREAD);
    int allowed = room - unread < max ? room - unread : max;
    struct lua_moved r = lua_move(model.lua, room, max);

    for (int i = 0; i < TASKS; i++) {
        struct model_task *t = &model.tasks[i];
        if (t->state != TASK_SCHEDULED || !t->is_due)
            continue;
        due++;
        if (lua_state(model.lua, t->id) == TASK_READY) {
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
    int consumer = (int)model_below(CONSUMERS);
    size_t max = model_below(4) + 1;
    size_t n = lua_read(model.lua, consumers[consumer], got, max);

    cr_assert_eq(n, model_count_phase(PHASE_UNREAD) < (int)max ? (size_t)model_count_phase(PHASE_UNREAD) : max);
    for (size_t i = 0; i < n; i++) {
        struct model_lease *found = NULL;
        for (size_t k = 0; k < model.lease_count; k++) {
            struct model_lease *l = &model.leases[k];
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
    for (int tries = 0; model.lease_count > 0 && tries < 40; tries++) {
        struct model_lease *l = &model.leases[model_below(model.lease_count)];
        if (l->phase == PHASE_HELD || (l->phase == PHASE_OLD && model_below(8) == 0))
            return l;
    }
    return NULL;
}

static void step_claim(void)
{
    struct model_lease *l = any_read_lease();

    if (!l)
        return;
    bool is_first = model_below(2) == 0, is_ours = model_is_current(l) && (!is_first || l->task->state == TASK_READY);
    size_t got = is_first ? lua_claim(model.lua, &l->entry, 1) : lua_claim_again(model.lua, &l->entry, 1);
    cr_assert_eq(got, is_ours ? 1 : 0, "the claim of %s", l->task->id);
    if (is_ours)
        l->task->state = TASK_DELIVERING;
    else if (!model_is_current(l))
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
    char how = "drxb"[model_below(4)];
    bool is_due = model_below(8) > 0;

    if (!l)
        return;
    struct model_task *t = l->task;
    int want = model_is_current(l) ? settled_state(t, how) : -1;
    cr_assert_eq(lua_settle(model.lua, &l->entry, how, is_due ? 0 : LIFE_MS), want, "%s settled with %c", t->id, how);
    l->phase = PHASE_OLD;
    if (want == -1)
        return;
    t->generation = (t->generation + 1) % 65536;
    if (how != 'b') {
        t->attempts++;
        t->takeovers = 0;
        t->has_when = t->has_history = true;
        model.totals.attempts++;
        model.totals.failed_attempts += how != 'd';
        model.totals.retried += how == 'r' && want == TASK_SCHEDULED;
    }
    if (want == TASK_SCHEDULED) {
        t->state = TASK_SCHEDULED;
        t->is_due = is_due;
    } else {
        model_finish(t, (enum task_state)want);
    }
}

static void step_cancel(void)
{
    struct model_task *t = model_any_task();

    cr_assert_eq(lua_cancel(model.lua, t->id), t->state, "the cancel of %s", t->id);
    if (t->state == TASK_DELIVERING)
        t->has_cancel = true;
    if (t->state != TASK_SCHEDULED && t->state != TASK_READY)
        return;
    model_leave_stream(t);
    t->generation = (t->generation + 1) % 65536;
    model_finish(t, TASK_CANCELLED);
}

/* Change the body, or the time, or both. */
static void step_patch(void)
{
    static const struct {
        const char *text;
        bool is_due;
    } times[] = {{NULL, false}, {"+0", true}, {"+3600000", false}};
    struct model_task *t = model_any_task();
    size_t time = model_below(3);
    struct lua_patch patch = {.id = t->id, .due = times[time].text, .body = model_below(2) == 0 ? "hello" : "good-bye"};
    struct task *changed = NULL;

    cr_assert_eq(lua_patch(model.lua, &patch, &changed), t->state, "the patch of %s", t->id);
    bool is_pending = t->state == TASK_SCHEDULED || t->state == TASK_READY;
    cr_assert_eq(changed != NULL, is_pending, "the patch of %s", t->id);
    if (is_pending)
        cr_assert_str_eq(changed->body, patch.body);
    task_destroy(&changed);
    if (!is_pending || !patch.due)
        return;
    if (t->state == TASK_READY) {
        model_leave_stream(t);
        t->generation = (t->generation + 1) % 65536;
        t->state = TASK_SCHEDULED;
    }
    t->is_due = t->is_run_at_due = times[time].is_due;
}

static void step_run(void)
{
    struct model_task *t = model_any_task();

    cr_assert_eq(lua_run(model.lua, t->id, false, NULL), t->state, "the run of %s", t->id);
    if (t->state == TASK_SCHEDULED || t->state == TASK_READY)
        t->is_due = t->is_run_at_due = true;
}

static void step_redrive(void)
{
    struct model_task *t = model_any_task();

    cr_assert_eq(lua_redrive(model.lua, t->id, false, NULL), t->state, "the redrive of %s", t->id);
    if (t->state != TASK_DEAD && t->state != TASK_CANCELLED)
        return;
    t->state = TASK_SCHEDULED;
    t->is_due = t->is_run_at_due = true;
    t->has_cancel = false;
    t->attempts = t->takeovers = 0;
    t->generation = (t->generation + 1) % 65536;
    model.totals.redriven++;
}

/* Purge (of a whole queue, to its end) or redrive, of at most a few; the answer's second number. */
static int64_t ask_about_queue(enum script s, const char *queue, const char *at, int64_t limit)
{
    struct call *c = lua_begin(model.lua, s);

    call_begin_args(c, lua_keys(model.lua));
    call_add_str(c, queue);
    call_add_int(c, 0);
    if (at)
        call_add_str(c, at);
    call_add_int(c, limit);
    redisReply *r = lua_send(model.lua);
    int64_t n = r->elements == 3 ? r->element[1]->integer : 0;
    if (at && r->elements == 3 && r->element[2]->len > 0)
        n += ask_about_queue(s, queue, r->element[2]->str, limit);
    freeReplyObject(r);
    return n;
}

static void step_purge(void)
{
    int queue = (int)model_below(sizeof(model_queues) / sizeof(*model_queues));
    int64_t gone = 0;

    if (model_below(12) != 0)
        return; /* the others need something to work on */
    for (int i = 0; i < TASKS; i++) {
        struct model_task *t = &model.tasks[i];
        if (t->queue != queue || (t->state != TASK_SCHEDULED && t->state != TASK_READY))
            continue;
        model_leave_stream(t);
        t->state = -1;
        gone++;
    }
    cr_assert_eq(ask_about_queue(SCRIPT_PURGE, model_queues[queue], "", 3), gone, "the purge of %s",
                 model_queues[queue]);
    model.totals.purged += (int)gone;
}

static void put_back(struct model_task *t)
{
    t->generation = (t->generation + 1) % 65536;
    if (t->has_cancel) {
        model_finish(t, TASK_CANCELLED);
    } else {
        t->state = TASK_SCHEDULED;
        t->is_due = true;
    }
}

static void take_back(struct model_task *t)
{
    t->takeovers++;
    model.totals.recovered++;
    put_back(t);
    if (t->state == TASK_SCHEDULED && t->takeovers >= TASK_TAKEOVERS_MAX) {
        model_finish(t, TASK_DEAD);
        t->has_history = true;
    }
}

/* One consumer was silent for too long. */
static void step_recover(void)
{
    int dead = (int)model_below(CONSUMERS);
    int64_t held = 0;

    for (size_t i = 0; i < model.lease_count; i++) {
        struct model_lease *l = &model.leases[i];
        if (l->phase != PHASE_HELD || l->consumer != dead)
            continue;
        lua_make_idle(model.lua, &l->entry, consumers[dead], 2 * LIFE_MS);
        held++;
        l->phase = PHASE_OLD;
        if (model_is_current(l))
            take_back(l->task);
    }
    cr_assert_eq(lua_recover(model.lua, "survivor", LIFE_MS), held);
}

/* Somebody deletes keys by hand, and the sweeps put right what that breaks. */
static void step_vandal(void)
{
    static const char *const victims[] = {"ready", "flight", "lanes", "q:mail", "q:sms", "delivered", "cancelled"};
    const char *victim = victims[model_below(sizeof(victims) / sizeof(*victims))];
    bool is_stream = strcmp(victim, "ready") == 0;

    redis_fixture_run(lua_redis(model.lua), "DEL %s:%s", lua_keys(model.lua)->base, victim);
    if (is_stream)
        redis_fixture_run(lua_redis(model.lua), "XGROUP CREATE %s %s 0 MKSTREAM", lua_keys(model.lua)->ready,
                          KEYS_GROUP);
    lua_orphans(model.lua, 0, false);
    lua_mend(model.lua, 3);
    for (size_t i = 0; is_stream && i < model.lease_count; i++) {
        struct model_lease *l = &model.leases[i];
        if (l->phase > PHASE_HELD)
            continue;
        if (model_is_current(l))
            put_back(l->task);
        l->phase = l->phase == PHASE_HELD ? PHASE_OLD : PHASE_FORGOTTEN;
    }
    /* How long a task that was given back before its first attempt was to wait is known to its lane alone. */
    for (int i = 0; i < TASKS && strncmp(victim, "q:", 2) == 0; i++) {
        struct model_task *t = &model.tasks[i];
        if (t->state == TASK_SCHEDULED && !t->has_when && strcmp(model_queues[t->queue], victim + 2) == 0)
            t->is_due = t->is_run_at_due;
    }
    model.totals.orphans = (int)lua_counter(model.lua, "totals", "orphans");
    cr_assert_eq(lua_orphans(model.lua, 0, false).pending, 0, "after %s was deleted", victim);
}

static void step_renew(void)
{
    struct lua_entry mine[LEASES];
    size_t count = 0, held = 0;
    int consumer = (int)model_below(CONSUMERS);

    for (size_t i = 0; i < model.lease_count && count < STORE_CALL_MAX; i++) {
        if (model.leases[i].phase != PHASE_HELD && model.leases[i].phase != PHASE_OLD)
            continue;
        held += model.leases[i].phase == PHASE_HELD && model.leases[i].consumer == consumer;
        mine[count++] = model.leases[i].entry;
    }
    cr_assert_eq(lua_renew(model.lua, consumers[consumer], mine, count), (int64_t)held);
}

static void step_sweep(void)
{
    bool by_age = model_below(2) == 0;
    int limit = (int)model_below(4) + 1, keep = (int)model_below(6), finished = 0, gone = 0;
    int want = 0;

    for (int i = 0; i < TASKS; i++)
        finished += model_is_finished(&model.tasks[i]);
    int64_t removed = lua_sweep(model.lua, by_age ? 0 : LIFE_MS, by_age ? TASKS : keep, limit);
    for (int i = 0; i < TASKS; i++) {
        struct model_task *t = &model.tasks[i];
        if (model_is_finished(t) && lua_state(model.lua, t->id) == -1) {
            t->state = -1;
            gone++;
        }
    }
    want = by_age ? finished : finished > keep ? finished - keep : 0;
    cr_assert_eq(removed, want < limit ? want : limit);
    cr_assert_eq(gone, removed);
    model.totals.trimmed += by_age ? 0 : gone;
}

/* --------------------------------------------------------------------- run */

static void (*const steps[])(void) = {
    step_create, step_create, step_create, step_move,    step_move,    step_read,    step_read,
    step_claim,  step_claim,  step_claim,  step_claim,   step_settle,  step_settle,  step_settle,
    step_cancel, step_renew,  step_sweep,  step_sweep,   step_create,  step_recover, step_vandal,
    step_patch,  step_patch,  step_run,    step_redrive, step_redrive, step_purge,
};

/* Returns how many tasks came to an end. */
static int run_seed(uint64_t seed)
{
    memset(&model, 0, sizeof(model));
    model.dice = random_seeded(seed);
    model.lua = lua_fixture_create();
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(model.tasks[i].id, sizeof(model.tasks[i].id), "t%d", i);
        model.tasks[i].state = -1;
    }
    for (int i = 0; i < STEPS; i++) {
        steps[model_below(sizeof(steps) / sizeof(*steps))]();
        model_check();
    }
    lua_fixture_destroy(&model.lua);
    return model.totals.delivered + model.totals.dead + model.totals.cancelled;
}

Test(model, random_operations_do_what_the_model_does)
{
    uint64_t first = random_seed_from("MODEL_SEED", 0), seeds = 1;
    int ended = 0;

    if (first == 0) {
        first = (uint64_t)time(NULL);
        seeds = SEEDS;
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        printf("MODEL_SEED=%llu\n", (unsigned long long)seed);
        (void)fflush(stdout);
        ended += run_seed(seed);
    }
    if (seeds == SEEDS) /* a single one may be unlucky */
        cr_expect_gt(ended, 5 * SEEDS, "the steps lead nowhere");
}
