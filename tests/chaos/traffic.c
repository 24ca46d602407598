/* Each poster works in rounds: pick a kind of task, POST it, note the answer. A task with an id of its own or with an
 * Idempotency-Key is posted again and again until the answer is definite, as a careful client would; any other is not,
 * since each try could make another task: what became of it is only counted when the receiver sees it.
 *
 * Planned DELETEs stand in one list under the lock; the cancellers take the earliest and sleep until its moment. */
#include "traffic.h"
#include "../support/random.h"
#include "ask.h"
#include "base/clock.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POSTERS 4
#define CANCELLERS 2
#define GETTERS 1
#define THREADS (POSTERS + CANCELLERS + GETTERS)
#define PLANS_MAX 4096
#define INSIST_MS 25000 /* how long a task is posted, and a DELETE repeated */
#define DELAY_MAX_MS 3000
#define NEAR_MS 5
#define LOOK_MS 5
#define SHOWN_MAX 10

struct plan {
    long serial;
    int64_t at_ms; /* Unix time */
};

struct traffic {
    struct nodes *nodes;
    struct ledger *ledger;
    int hooks_port, per_second;
    uint64_t seed;
    atomic_bool is_running, is_ending;
    atomic_int phase, busy, next_thread;
    pthread_t threads[THREADS];
    pthread_mutex_t lock;
    struct plan plans[PLANS_MAX]; /* these and below: under the lock */
    size_t plan_count;
    struct traffic_counts counts;
};

/* One thread's own things. */
struct agent {
    struct traffic *traffic;
    struct random random;
    struct ask *ask;
};

/* --------------------------------------------------------------- counting */

#define COUNT(t, field)                   \
    do {                                  \
        pthread_mutex_lock(&(t)->lock);   \
        (t)->counts.field++;              \
        pthread_mutex_unlock(&(t)->lock); \
    } while (0)

static void report_wrong(struct traffic *t, const char *what, long serial, int status)
{
    const struct entry e = ledger_read(t->ledger, serial);

    if (traffic_counts(t).wrong < SHOWN_MAX)
        printf("wrong: %s: task %ld (%s), status %d\n", what, serial, e.id, status);
    COUNT(t, wrong);
}

/* Send to any gateway. Its slowness counts when nothing was done to that gateway itself meanwhile. */
static int send_any(struct agent *a, const char *method, const char *path, const char *body)
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

void traffic_body(char *out, size_t size, struct ledger *l, long serial, int hooks_port, const char *due)
{
    const struct entry e = ledger_read(l, serial);
    char id[64] = "";
    int attempts = e.behaviour == BEHAVE_FAIL_ALWAYS ? 3 : 20;

    if (e.identity == IDENTITY_OWN_ID)
        (void)snprintf(id, sizeof(id), "\"id\":\"%s\",", e.id);
    (void)snprintf(out, size,
                   "{%s\"url\":\"http://127.0.0.1:%d/%ld\",%s,\"queue\":\"q%ld\",\"timeout\":%d,"
                   "\"retry\":{\"schedule\":[\"200ms\"],\"max_attempts\":%d},\"payload\":{\"serial\":%ld}}",
                   id, hooks_port, serial, due, serial % 3, e.behaviour == BEHAVE_HANG_ONCE ? 1500 : 20000, attempts,
                   serial);
}

static void note_accepted(struct agent *a, long serial, int status)
{
    struct traffic *t = a->traffic;
    const char *id = ask_text(a->ask, "id");

    const char *state = ask_text(a->ask, "state");

    if (state && strcmp(state, "gone") == 0)
        ledger_missed(t->ledger, serial);
    if (!id) {
        report_wrong(t, "accepted without an id", serial, status);
        return;
    }
    if (ledger_read(t->ledger, serial).accepted_mono_ms == 0)
        COUNT(t, accepted);
    else
        COUNT(t, repeats);
    ledger_accept(t->ledger, serial, id);
}

/* Whether the answer is definite. */
static bool post_once(struct agent *a, long serial, const char *body)
{
    struct traffic *t = a->traffic;
    int status = send_any(a, "POST", "/tasks", body);

    COUNT(t, posts);
    if (status == 201 || status == 200) {
        note_accepted(a, serial, status);
        return true;
    }
    if (status == 0 || status == 503) {
        COUNT(t, refused);
        return false;
    }
    report_wrong(t, "POST", serial, status);
    return true;
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

static void plan_delete(struct traffic *t, long serial, int64_t at_ms)
{
    pthread_mutex_lock(&t->lock);
    if (t->plan_count < PLANS_MAX)
        t->plans[t->plan_count++] = (struct plan){.serial = serial, .at_ms = at_ms};
    pthread_mutex_unlock(&t->lock);
}

static void post_round(struct agent *a)
{
    struct traffic *t = a->traffic;
    struct random *r = &a->random;
    enum identity identity = (enum identity)random_below(r, IDENTITY_COUNT);
    bool is_to_delete = random_below(r, 6) == 0;
    int64_t delay_ms = random_below(r, 3) == 0 && !is_to_delete ? 0 : 100 + (int64_t)random_below(r, DELAY_MAX_MS);
    int64_t due_ms = clock_wall_ms() + delay_ms;
    enum behaviour behaviour = is_to_delete ? BEHAVE_OK : pick_behaviour(r);
    long serial = ledger_open(t->ledger, (enum phase)atomic_load(&t->phase), behaviour, identity, due_ms);
    char due[64], body[512], key[32];

    if (serial < 0)
        return;
    (void)snprintf(key, sizeof(key), "k-%ld", serial);
    ask_set_key(a->ask, identity == IDENTITY_KEY ? key : NULL);
    if (is_to_delete || random_below(r, 2) == 0)
        (void)snprintf(due, sizeof(due), "\"run_at\":%lld", (long long)due_ms);
    else
        (void)snprintf(due, sizeof(due), "\"delay\":%lld", (long long)delay_ms);
    traffic_body(body, sizeof(body), t->ledger, serial, t->hooks_port, due);
    bool is_definite = identity != IDENTITY_NONE ? post_until_definite(a, serial, body) : post_once(a, serial, body);
    if (!is_definite || ledger_read(t->ledger, serial).accepted_mono_ms == 0)
        return;
    if (is_to_delete)
        plan_delete(t, serial, due_ms + (int64_t)random_below(r, 2 * NEAR_MS + 1) - NEAR_MS);
    if (identity != IDENTITY_NONE && random_below(r, 20) == 0)
        (void)post_until_definite(a, serial, body);
}

/* --------------------------------------------------- deleting, reading */

/* Take the plan that comes next, if its moment is near. */
static bool take_plan(struct traffic *t, struct plan *out)
{
    size_t first = 0;
    bool is_taken = false;

    pthread_mutex_lock(&t->lock);
    for (size_t i = 1; i < t->plan_count; i++) {
        if (t->plans[i].at_ms < t->plans[first].at_ms)
            first = i;
    }
    if (t->plan_count > 0 && t->plans[first].at_ms - clock_wall_ms() <= 2 * LOOK_MS) {
        *out = t->plans[first];
        t->plans[first] = t->plans[--t->plan_count];
        is_taken = true;
    }
    pthread_mutex_unlock(&t->lock);
    return is_taken;
}

static void delete_until_definite(struct agent *a, const struct plan *p)
{
    struct traffic *t = a->traffic;
    const struct entry e = ledger_read(t->ledger, p->serial);
    int64_t until = clock_mono_ms() + nodes_scaled_ms(INSIST_MS);
    char path[64];
    int status;

    (void)snprintf(path, sizeof(path), "/tasks/%s", e.id);
    ledger_delete_sent(t->ledger, p->serial);
    while ((status = send_any(a, "DELETE", path, NULL)) == 0 || status == 503) {
        if (clock_mono_ms() > until)
            return;
        nodes_sleep_ms(100);
    }
    COUNT(t, deletes);
    if (status == 204) {
        ledger_cancelled(t->ledger, p->serial);
        COUNT(t, cancelled);
    } else if (status == 202) {
        COUNT(t, under_way);
    } else if (status == 409) {
        COUNT(t, too_late);
    } else if (status == 404) {
        ledger_missed(t->ledger, p->serial);
    } else {
        report_wrong(t, "DELETE", p->serial, status);
    }
}

static bool cancel_round(struct agent *a)
{
    struct plan p;

    if (!take_plan(a->traffic, &p))
        return false;
    int64_t left_ms = p.at_ms - clock_wall_ms();
    if (left_ms > 0)
        nodes_sleep_ms(left_ms);
    delete_until_definite(a, &p);
    return true;
}

static void get_round(struct agent *a)
{
    struct traffic *t = a->traffic;
    size_t count = ledger_count(t->ledger);
    long serial = count > 0 ? (long)(count - 1 - random_below(&a->random, count > 200 ? 200 : count)) : -1;
    const struct entry e = ledger_read(t->ledger, serial);
    char path[64];

    nodes_sleep_ms(20);
    if (e.accepted_mono_ms == 0)
        return;
    (void)snprintf(path, sizeof(path), "/tasks/%s", e.id);
    int status = send_any(a, "GET", path, NULL);
    const char *id = ask_text(a->ask, "id");
    COUNT(t, gets);
    if (status == 404)
        ledger_missed(t->ledger, serial);
    else if (status == 200 && (!id || strcmp(id, e.id) != 0))
        report_wrong(t, "GET was answered with another task", serial, status);
    else if (status != 200 && status != 503 && status != 0)
        report_wrong(t, "GET", serial, status);
}

/* ---------------------------------------------------------------- threads */

static void *work(void *arg)
{
    struct traffic *t = arg;
    int number = atomic_fetch_add(&t->next_thread, 1);
    struct agent a = {.traffic = t, .random = random_seeded(t->seed + (uint64_t)number), .ask = ask_create()};
    int pace_ms = 1000 * POSTERS / t->per_second;

    while (!atomic_load(&t->is_ending)) {
        bool has_deleted = false;
        atomic_fetch_add(&t->busy, 1);
        bool is_running = atomic_load(&t->is_running);
        if (number < CANCELLERS)
            has_deleted = cancel_round(&a);
        else if (is_running && number < CANCELLERS + GETTERS)
            get_round(&a);
        else if (is_running)
            post_round(&a);
        atomic_fetch_sub(&t->busy, 1);
        if (number >= CANCELLERS && is_running)
            nodes_sleep_ms((int64_t)random_below(&a.random, (size_t)(2 * pace_ms + 1)));
        else if (!has_deleted)
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
    free(t);
    *traffic = NULL;
}

void traffic_resume(struct traffic *t, enum phase phase)
{
    atomic_store(&t->phase, (int)phase);
    atomic_store(&t->is_running, true);
}

static bool has_plans(struct traffic *t)
{
    pthread_mutex_lock(&t->lock);
    bool has = t->plan_count > 0;
    pthread_mutex_unlock(&t->lock);
    return has;
}

/* Whoever saw that traffic runs is busy, and stays so until its round is over. */
void traffic_pause(struct traffic *t)
{
    atomic_store(&t->is_running, false);
    nodes_sleep_ms(10 * LOOK_MS);
    while (has_plans(t) || atomic_load(&t->busy) > 0)
        nodes_sleep_ms(1);
}

struct traffic_counts traffic_counts(struct traffic *t)
{
    pthread_mutex_lock(&t->lock);
    struct traffic_counts copy = t->counts;
    pthread_mutex_unlock(&t->lock);
    return copy;
}
