/* Each poster works in rounds: pick a kind of task, POST it, note the answer. A task with an id of its own or with an
 * Idempotency-Key is posted again and again until the answer is definite, as a careful client would; any other is not,
 * since each try could make another task: what became of it is only counted when the receiver sees it. Some rounds post
 * a batch.
 *
 * What is done to a task later is planned, and done by threads of their own (deeds.c). */
#include "agent.h"
#include "base/clock.h"
#include "hooks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOERS 2
#define GETTERS 1
#define POSTERS (THREADS - DOERS - GETTERS)
#define DELAY_MAX_MS 3000
#define RUN_DELAY_MS 8000
#define RUN_WITHIN_MS 1500
#define REDRIVE_AFTER_MS 1000
#define HELD_MS 2000
#define NEAR_MS 5
#define LOOK_MS 5
#define SHOWN_MAX 10
#define BATCH_MAX 20
#define CROWD 12
#define CROWD_DELAY_MS 500
#define BODY_SIZE 768

/* --------------------------------------------------------------- counting */

void agent_report_wrong(struct agent *a, const char *what, long serial, int status)
{
    struct traffic *t = a->traffic;
    const struct entry e = ledger_read(t->ledger, serial);

    if (traffic_counts(t).wrong < SHOWN_MAX)
        printf("wrong: %s: task %ld (%s), status %d\n", what, serial, e.id, status);
    COUNT(t, wrong);
}

int agent_send(struct agent *a, const char *method, const char *path, const char *body)
{
    struct traffic *t = a->traffic;
    int i = (int)random_below(&a->random, GATEWAYS);
    unsigned trouble = nodes_trouble(t->nodes, i);
    int status = ask_send(a->ask, method, nodes_port(t->nodes, i), path, body);
    int64_t ms = ask_duration_ms(a->ask);

    if (trouble == nodes_trouble(t->nodes, i)) {
        pthread_mutex_lock(&t->lock);
        if (ms > t->counts.slowest_ms)
            t->counts.slowest_ms = ms;
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}

int agent_insist(struct agent *a, const char *method, const char *path, const char *body)
{
    int64_t until = clock_mono_ms() + nodes_scaled_ms(INSIST_MS);
    int status;

    while ((status = agent_send(a, method, path, body)) == 0 || status == 503) {
        if (clock_mono_ms() > until)
            return status;
        nodes_sleep_ms(50 + (int64_t)random_below(&a->random, 200));
    }
    return status;
}

/* ---------------------------------------------------------------- posting */

static enum behaviour pick_behaviour(struct random *r)
{
    static const int WEIGHTS[BEHAVE_COUNT] = {[BEHAVE_OK] = 60,       [BEHAVE_FAIL_ONCE] = 8, [BEHAVE_FAIL_TWICE] = 4,
                                              [BEHAVE_SLOW] = 8,      [BEHAVE_HANG_ONCE] = 3, [BEHAVE_RESET_ONCE] = 5,
                                              [BEHAVE_BUSY_ONCE] = 4, [BEHAVE_GONE] = 4,      [BEHAVE_FAIL_ALWAYS] = 4};
    int ticket = (int)random_below(r, 100);

    for (int b = 0; b < BEHAVE_COUNT; b++) {
        if (ticket < WEIGHTS[b])
            return (enum behaviour)b;
        ticket -= WEIGHTS[b];
    }
    return BEHAVE_OK;
}

/* What else is done to tasks, in percent. */
static enum custom pick_custom(struct random *r)
{
    static const int WEIGHTS[CUSTOM_COUNT] = {
        [CUSTOM_PATCHED] = 12, [CUSTOM_RUN] = 4, [CUSTOM_REDRIVEN] = 4, [CUSTOM_LIMITED] = 6, [CUSTOM_HELD] = 3};
    int ticket = (int)random_below(r, 100);

    for (int c = 0; c < CUSTOM_COUNT; c++) {
        if (ticket < WEIGHTS[c])
            return (enum custom)c;
        ticket -= WEIGHTS[c];
    }
    return CUSTOM_NONE;
}

static void queue_of(const struct entry *e, long serial, char *out, size_t size)
{
    if (e->custom == CUSTOM_LIMITED)
        (void)snprintf(out, size, LIMITED_QUEUE);
    else if (e->custom == CUSTOM_HELD)
        (void)snprintf(out, size, HELD_QUEUE);
    else
        (void)snprintf(out, size, "q%ld", serial % 3);
}

static void further_members(const struct entry *e, long serial, int hooks_port, char *out, size_t size)
{
    int n = snprintf(out, size, "%s", "");

    if (e->custom == CUSTOM_HELD)
        n = snprintf(out, size, "\"expires_in\":%d,", HELD_MS);
    if (e->calls_back)
        (void)snprintf(out + n, size - (size_t)n,
                       "\"on_success\":\"http://127.0.0.1:%d/cb/%ld\",\"on_failure\":\"http://127.0.0.1:%d/cb/%ld\",",
                       hooks_port, serial, hooks_port, serial);
}

void traffic_body(char *out, size_t size, struct ledger *l, long serial, int hooks_port, const char *due)
{
    const struct entry e = ledger_read(l, serial);
    char id[64] = "", queue[32], further[256];
    int attempts = e.behaviour == BEHAVE_FAIL_ALWAYS ? 3 : 20;

    if (e.identity == IDENTITY_OWN_ID)
        (void)snprintf(id, sizeof(id), "\"id\":\"%s\",", e.id);
    queue_of(&e, serial, queue, sizeof(queue));
    further_members(&e, serial, hooks_port, further, sizeof(further));
    (void)snprintf(out, size,
                   "{%s%s\"url\":\"http://127.0.0.%d:%d/%ld\",%s,\"queue\":\"%s\",\"timeout\":%d,"
                   "\"retry\":{\"schedule\":[\"200ms\"],\"max_attempts\":%d},\"payload\":{\"serial\":%ld}}",
                   id, further, e.behaviour == BEHAVE_BUSY_ONCE ? 2 : 1, hooks_port, serial, due, queue,
                   e.behaviour == BEHAVE_HANG_ONCE ? 1500 : 20000, attempts, serial);
}

/* Of the answer's member `at` ("": the answer itself): a task. */
static void note_accepted(struct agent *a, long serial, const char *at, int status)
{
    struct traffic *t = a->traffic;
    char path[64];

    (void)snprintf(path, sizeof(path), "%sstate", at);
    const char *state = ask_text(a->ask, path);

    (void)snprintf(path, sizeof(path), "%sid", at);
    const char *id = ask_text(a->ask, path);

    if (state && strcmp(state, "gone") == 0)
        ledger_missed(t->ledger, serial);
    if (!id) {
        agent_report_wrong(a, "accepted without an id", serial, status);
        return;
    }
    if (ledger_read(t->ledger, serial).accepted_mono_ms == 0)
        COUNT(t, accepted);
    else
        COUNT(t, repeats);
    ledger_accept(t->ledger, serial, id);
}

/* Whether an answer to a POST, or to one task of a batch, is definite. */
static bool judge_posted(struct agent *a, long serial, const char *at, int status)
{
    if (status == 201 || status == 200) {
        note_accepted(a, serial, at, status);
        return true;
    }
    if (status == 0 || status == 503) {
        COUNT(a->traffic, refused);
        return false;
    }
    agent_report_wrong(a, "POST", serial, status);
    return true;
}

static bool post_once(struct agent *a, long serial, const char *body)
{
    int status = agent_send(a, "POST", "/tasks", body);

    COUNT(a->traffic, posts);
    return judge_posted(a, serial, "", status);
}

static bool post_until_definite(struct agent *a, long serial, const char *body)
{
    int64_t until = clock_mono_ms() + nodes_scaled_ms(INSIST_MS);

    while (!post_once(a, serial, body)) {
        if (clock_mono_ms() > until)
            return false;
        nodes_sleep_ms(50 + (int64_t)random_below(&a->random, 200));
    }
    return true;
}

/* A new task of the ledger, and when it is due. */
struct draft {
    long serial;
    enum custom custom;
    enum identity identity;
    bool is_to_delete;
    int64_t due_ms;
    char due[64];
};

static void open_draft(struct agent *a, enum identity identity, struct draft *d)
{
    struct traffic *t = a->traffic;
    struct random *r = &a->random;
    bool is_at_once = random_below(r, 3) == 0;
    int64_t delay_ms = 100 + (int64_t)random_below(r, DELAY_MAX_MS);
    enum behaviour behaviour = pick_behaviour(r);

    *d = (struct draft){.identity = identity, .custom = pick_custom(r)};
    d->is_to_delete = d->custom == CUSTOM_NONE && random_below(r, 5) == 0;
    if (d->is_to_delete || d->custom == CUSTOM_PATCHED || d->custom == CUSTOM_LIMITED)
        behaviour = BEHAVE_OK;
    else if (d->custom == CUSTOM_REDRIVEN)
        behaviour = BEHAVE_GONE_ONCE;
    if (d->custom == CUSTOM_RUN)
        delay_ms = RUN_DELAY_MS;
    else if (is_at_once && !d->is_to_delete && d->custom != CUSTOM_PATCHED)
        delay_ms = 0;
    d->due_ms = clock_wall_ms() + delay_ms;
    d->serial = ledger_open(t->ledger, (enum phase)atomic_load(&t->phase), behaviour, identity, d->due_ms);
    /* A callback goes to the queue of its task: of a paused one it would never come. */
    bool calls_back = !d->is_to_delete && d->custom != CUSTOM_HELD && random_below(r, 8) == 0;
    ledger_customize(t->ledger, d->serial, d->custom, calls_back);
    if (d->is_to_delete || d->custom == CUSTOM_PATCHED || random_below(r, 2) == 0)
        (void)snprintf(d->due, sizeof(d->due), "\"run_at\":%lld", (long long)d->due_ms);
    else
        (void)snprintf(d->due, sizeof(d->due), "\"delay\":%lld", (long long)delay_ms);
}

static void plan_deeds(struct agent *a, const struct draft *d)
{
    struct random *r = &a->random;
    int64_t near_ms = d->due_ms + (int64_t)random_below(r, 2 * NEAR_MS + 1) - NEAR_MS;
    struct plan p = {.serial = d->serial, .at_ms = near_ms};

    if (ledger_read(a->traffic->ledger, d->serial).accepted_mono_ms == 0)
        return;
    if (d->custom == CUSTOM_PATCHED) {
        p.deed = DEED_PATCH;
    } else if (d->custom == CUSTOM_RUN) {
        p.deed = DEED_RUN;
        p.at_ms = clock_wall_ms() + (int64_t)random_below(r, RUN_WITHIN_MS);
    } else if (d->custom == CUSTOM_REDRIVEN) {
        p.deed = DEED_REDRIVE;
        p.at_ms = d->due_ms + REDRIVE_AFTER_MS;
    } else if (!d->is_to_delete) {
        return;
    }
    plans_add(a->traffic->plans, &p);
}

static void post_round(struct agent *a)
{
    struct traffic *t = a->traffic;
    struct random *r = &a->random;
    char body[BODY_SIZE], key[32];
    struct draft d;

    open_draft(a, (enum identity)random_below(r, IDENTITY_COUNT), &d);
    if (d.serial < 0)
        return;
    (void)snprintf(key, sizeof(key), "k-%ld", d.serial);
    ask_set_key(a->ask, d.identity == IDENTITY_KEY ? key : NULL);
    traffic_body(body, sizeof(body), t->ledger, d.serial, t->hooks_port, d.due);
    bool is_definite =
        d.identity != IDENTITY_NONE ? post_until_definite(a, d.serial, body) : post_once(a, d.serial, body);
    if (!is_definite)
        return;
    plan_deeds(a, &d);
    if (d.identity != IDENTITY_NONE && random_below(r, 20) == 0)
        (void)post_until_definite(a, d.serial, body);
}

/* Whether all of its answers are definite; with repeats those that were are so again. */
static bool post_batch_once(struct agent *a, const char *body, const struct draft *drafts, int count)
{
    int status = agent_send(a, "POST", "/tasks/batch", body);
    bool are_definite = true;
    char path[64];

    COUNT(a->traffic, batches);
    for (int i = 0; i < count; i++) {
        int64_t one = status;
        (void)snprintf(path, sizeof(path), "results.%d.status", i);
        if (status == 200)
            one = ask_number(a->ask, path);
        (void)snprintf(path, sizeof(path), "results.%d.task.", i);
        are_definite = judge_posted(a, drafts[i].serial, path, (int)one) && are_definite;
    }
    return are_definite;
}

static void batch_round(struct agent *a)
{
    struct traffic *t = a->traffic;
    struct draft drafts[BATCH_MAX];
    static const char begin[] = "{\"tasks\":[";
    char body[sizeof(begin) + (BATCH_MAX * BODY_SIZE) + 2];
    int count = 2 + (int)random_below(&a->random, BATCH_MAX - 1);
    int64_t until = clock_mono_ms() + nodes_scaled_ms(INSIST_MS);
    size_t used = sizeof(begin) - 1;

    memcpy(body, begin, sizeof(begin));
    ask_set_key(a->ask, NULL);
    for (int i = 0; i < count; i++) {
        open_draft(a, IDENTITY_OWN_ID, &drafts[i]);
        if (drafts[i].serial < 0)
            return;
        traffic_body(body + used, BODY_SIZE, t->ledger, drafts[i].serial, t->hooks_port, drafts[i].due);
        used += strlen(body + used);
        body[used++] = ',';
    }
    memcpy(body + used - 1, "]}", 3);
    while (!post_batch_once(a, body, drafts, count) && clock_mono_ms() < until)
        nodes_sleep_ms(50 + (int64_t)random_below(&a->random, 200));
    for (int i = 0; i < count; i++)
        plan_deeds(a, &drafts[i]);
}

/* ---------------------------------------------------------------- reading */

static void list_round(struct agent *a)
{
    static const char *const STATES[] = {"scheduled", "ready", "delivering", "delivered", "dead", "expired"};
    char path[80];

    (void)snprintf(path, sizeof(path), "/tasks?limit=20&state=%s%s", STATES[random_below(&a->random, 6)],
                   random_below(&a->random, 2) ? "&queue=q1" : "");
    int status = agent_send(a, "GET", path, NULL);

    COUNT(a->traffic, lists);
    if (status != 200 && status != 503 && status != 0)
        agent_report_wrong(a, "a list", -1, status);
}

static void get_round(struct agent *a)
{
    struct traffic *t = a->traffic;
    size_t count = ledger_count(t->ledger);
    long serial = count > 0 ? (long)(count - 1 - random_below(&a->random, count > 200 ? 200 : count)) : -1;
    const struct entry e = ledger_read(t->ledger, serial);
    char path[64];

    nodes_sleep_ms(20);
    if (random_below(&a->random, 10) == 0) {
        list_round(a);
        return;
    }
    if (e.accepted_mono_ms == 0)
        return;
    (void)snprintf(path, sizeof(path), "/tasks/%s", e.id);
    int status = agent_send(a, "GET", path, NULL);
    const char *id = ask_text(a->ask, "id");
    COUNT(t, gets);
    if (status == 404)
        ledger_missed(t->ledger, serial);
    else if (status == 200 && (!id || strcmp(id, e.id) != 0))
        agent_report_wrong(a, "GET was answered with another task", serial, status);
    else if (status != 200 && status != 503 && status != 0)
        agent_report_wrong(a, "GET", serial, status);
}

/* ---------------------------------------------------------------- threads */

static void *work(void *arg)
{
    struct traffic *t = arg;
    int number = atomic_fetch_add(&t->next_thread, 1);
    struct agent a = {.traffic = t, .random = random_seeded(t->seed + (uint64_t)number), .ask = ask_create()};
    int pace_ms = 1000 * POSTERS / t->per_second;

    while (!atomic_load(&t->is_ending)) {
        bool has_done = false;
        atomic_fetch_add(&t->busy, 1);
        bool is_running = atomic_load(&t->is_running);
        if (number < DOERS)
            has_done = agent_do_deed(&a);
        else if (is_running && number < DOERS + GETTERS)
            get_round(&a);
        else if (is_running && random_below(&a.random, 40) == 0)
            batch_round(&a);
        else if (is_running)
            post_round(&a);
        atomic_fetch_sub(&t->busy, 1);
        if (number >= DOERS && is_running)
            nodes_sleep_ms((int64_t)random_below(&a.random, (size_t)(2 * pace_ms + 1)));
        else if (!has_done)
            nodes_sleep_ms(LOOK_MS);
    }
    ask_destroy(&a.ask);
    return NULL;
}

struct traffic *traffic_create(struct nodes *nodes, struct ledger *ledger, int hooks_port, uint64_t seed,
                               int per_second)
{
    struct traffic *t = calloc(1, sizeof(*t));

    if (!t || pthread_mutex_init(&t->lock, NULL) != 0)
        abort();
    t->plans = plans_create();
    t->nodes = nodes;
    t->ledger = ledger;
    t->hooks_port = hooks_port;
    t->seed = seed;
    t->per_second = per_second;
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&t->threads[i], NULL, work, t) != 0)
            abort();
    }
    return t;
}

void traffic_destroy(struct traffic **traffic)
{
    struct traffic *t = *traffic;

    if (!t)
        return;
    atomic_store(&t->is_ending, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t->threads[i], NULL);
    pthread_mutex_destroy(&t->lock);
    plans_destroy(&t->plans);
    free(t);
    *traffic = NULL;
}

void traffic_resume(struct traffic *t, enum phase phase)
{
    atomic_store(&t->phase, (int)phase);
    atomic_store(&t->is_running, true);
}

/* Whoever saw that traffic runs is busy, and stays so until its round is over. */
void traffic_pause(struct traffic *t)
{
    atomic_store(&t->is_running, false);
    nodes_sleep_ms(10 * LOOK_MS);
    while (!plans_are_empty(t->plans) || atomic_load(&t->busy) > 0)
        nodes_sleep_ms(1);
}

bool traffic_crowd(struct traffic *t, enum phase phase)
{
    struct agent a = {.traffic = t, .random = random_seeded(t->seed), .ask = ask_create()};
    int64_t due_ms = clock_wall_ms() + nodes_scaled_ms(CROWD_DELAY_MS);
    bool are_accepted = true;
    char body[BODY_SIZE], due[64];

    (void)snprintf(due, sizeof(due), "\"run_at\":%lld", (long long)due_ms);
    for (int i = 0; i < CROWD && are_accepted; i++) {
        long serial = ledger_open(t->ledger, phase, BEHAVE_OK, IDENTITY_OWN_ID, due_ms);

        ledger_customize(t->ledger, serial, CUSTOM_LIMITED, false);
        traffic_body(body, sizeof(body), t->ledger, serial, t->hooks_port, due);
        are_accepted =
            serial >= 0 && post_until_definite(&a, serial, body) && ledger_read(t->ledger, serial).accepted_mono_ms > 0;
    }
    ask_destroy(&a.ask);
    return are_accepted;
}

struct traffic_counts traffic_counts(struct traffic *t)
{
    pthread_mutex_lock(&t->lock);
    struct traffic_counts copy = t->counts;
    pthread_mutex_unlock(&t->lock);
    return copy;
}
