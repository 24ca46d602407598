/* After a fault (except when the next one follows at once) a probe task is posted through each gateway until it is
 * accepted, and must reach the receiver: the time that takes, from the end of the fault, is the recovery. */
#include "faults.h"
#include "ask.h"
#include "base/clock.h"
#include "harm.h"
#include "traffic.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECOVER_MS (CLAIM_IDLE_MAX_MS + 5000)
#define GIVE_UP_MS 60000
#define EXCUSE_MS 2000
#define PAUSE_MIN_MS 50
#define CUT_MS 500         /* a killed gateway's connections end within this */
#define LONE_PAUSE_MS 3500 /* the slowest attempt ends meanwhile: no task is hit again and again */

struct tally {
    int count, measured; /* not measured: the next fault came at once */
    int64_t slowest_ms;
};

struct faults {
    struct harm harm;
    struct ledger *ledger;
    struct ask *ask;
    int hooks_port;
    int64_t pause_max_ms;
    bool has_orphaned;
    bool *is_chosen; /* one for each of FAULTS */
    struct tally *tallies, lone_kills;
};

/* --------------------------------------------------------------- choosing */

static bool is_enabled(const struct faults *f, size_t i, enum phase phase)
{
    return f->is_chosen[i] && (FAULTS[i].phases >> phase & 1) != 0;
}

static bool is_named(const char *name, const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && name[i] && (text[i] == name[i] || (text[i] == '_' && name[i] == ' ')))
        i++;
    return i == len && name[i] == '\0';
}

bool faults_choose(struct faults *f, const char *names)
{
    memset(f->is_chosen, 0, FAULT_COUNT * sizeof(*f->is_chosen));
    for (const char *at = names, *end; at; at = *end ? end + 1 : NULL) {
        size_t len = strcspn(at, ","), i = 0;
        end = at + len;
        while (i < FAULT_COUNT && !is_named(FAULTS[i].name, at, len))
            i++;
        if (i == FAULT_COUNT) {
            printf("there is no fault \"%.*s\"; there are:\n", (int)len, at);
            faults_print_names();
            return false;
        }
        f->is_chosen[i] = true;
    }
    return true;
}

void faults_pause_ms(struct faults *f, int64_t ms)
{
    f->pause_max_ms = ms;
}

static const struct fault *pick(struct faults *f, enum phase phase)
{
    size_t sum = 0, ticket;

    for (size_t i = 0; i < FAULT_COUNT; i++)
        sum += is_enabled(f, i, phase) ? (size_t)FAULTS[i].weight : 0;
    ticket = sum > 0 ? random_below(&f->harm.random, sum) : 0;
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        if (!is_enabled(f, i, phase))
            continue;
        if (ticket < (size_t)FAULTS[i].weight)
            return &FAULTS[i];
        ticket -= (size_t)FAULTS[i].weight;
    }
    return NULL;
}

/* --------------------------------------------------------------- recovery */

/* Post a task through this gateway until it is accepted; its serial number. */
static long post_probe(struct faults *f, int gateway, int64_t until)
{
    long serial = ledger_open(f->ledger, f->harm.phase, BEHAVE_OK, IDENTITY_OWN_ID, clock_wall_ms());
    char body[512];

    traffic_body(body, sizeof(body), f->ledger, serial, f->hooks_port, "\"delay\":0");
    while (clock_mono_ms() < until) {
        int status = ask_send(f->ask, "POST", nodes_port(f->harm.nodes, gateway), "/tasks", body);
        const char *id = ask_text(f->ask, "id");
        if ((status == 200 || status == 201) && id) {
            ledger_accept(f->ledger, serial, id);
            return serial;
        }
        nodes_sleep_ms(20);
    }
    return serial;
}

/* The time until the probes of all gateways were accepted and arrived. */
static int64_t recover(struct faults *f)
{
    int64_t began = clock_mono_ms(), until = began + nodes_scaled_ms(GIVE_UP_MS);

    for (int i = 0; i < GATEWAYS; i++) {
        long serial = post_probe(f, i, until);
        while (ledger_read(f->ledger, serial).requests == 0 && clock_mono_ms() < until)
            nodes_sleep_ms(2);
    }
    return clock_mono_ms() - began;
}

static void expect_recovery(struct faults *f, struct tally *t, const char *name)
{
    int64_t ms = recover(f);

    t->measured++;
    if (ms > t->slowest_ms)
        t->slowest_ms = ms;
    if (ms > nodes_scaled_ms(RECOVER_MS)) {
        printf("slow recovery after: %s\n", name);
        harm_broken(&f->harm, "recovery took too many ms", ms);
    }
}

static void rest(struct faults *f)
{
    int64_t low = f->pause_max_ms < PAUSE_MIN_MS ? f->pause_max_ms : PAUSE_MIN_MS;

    nodes_sleep_ms(harm_between(&f->harm, low, f->pause_max_ms));
}

void faults_storm(struct faults *f, enum phase phase, int64_t until_mono_ms)
{
    f->harm.phase = phase;
    while (clock_mono_ms() < until_mono_ms) {
        const struct fault *fault = pick(f, phase);
        if (!fault)
            return;
        struct tally *t = &f->tallies[fault - FAULTS];
        fault->inject(&f->harm);
        t->count++;
        f->has_orphaned = f->has_orphaned || fault->is_orphaning;
        if (harm_between(&f->harm, 0, 3) == 0)
            continue;
        expect_recovery(f, t, fault->name);
        rest(f);
    }
}

static void await_redelivery(struct faults *f)
{
    int64_t until = clock_mono_ms() + nodes_scaled_ms(RECOVER_MS);
    int waiting;

    nodes_sleep_ms(CUT_MS);
    while ((waiting = ledger_watched(f->ledger).waiting) > 0 && clock_mono_ms() < until)
        nodes_sleep_ms(5);
    if (waiting > 0)
        harm_broken(&f->harm, "tasks of a gateway killed alone were not sent again in time", waiting);
}

void faults_lone_kills(struct faults *f, int64_t until_mono_ms)
{
    f->harm.phase = PHASE_LONE_KILLS;
    while (clock_mono_ms() < until_mono_ms) {
        int i = harm_pick_gateway(&f->harm);
        ledger_watch(f->ledger, CUT_MS);
        harm_kill_gateway(&f->harm, i);
        f->lone_kills.count++;
        await_redelivery(f);
        harm_start_gateway(&f->harm, i);
        expect_recovery(f, &f->lone_kills, "a gateway killed alone");
        nodes_sleep_ms(LONE_PAUSE_MS);
    }
}

/* ----------------------------------------------------------------- report */

bool faults_excuse(const struct faults *f, int64_t answered_mono_ms)
{
    for (int i = 0; i < f->harm.lossy_kill_count; i++) {
        int64_t before_ms = f->harm.lossy_kills[i] - answered_mono_ms;
        if (before_ms >= -200 && before_ms <= EXCUSE_MS)
            return true;
    }
    return false;
}

bool faults_have_orphaned(const struct faults *f)
{
    return f->has_orphaned;
}

int faults_broken(const struct faults *f)
{
    return f->harm.broken;
}

int faults_recent_starts(const struct faults *f, int64_t within_ms)
{
    int count = 0;

    for (int i = 0; i < f->harm.start_count; i++)
        count += clock_mono_ms() - f->harm.starts[i] <= within_ms;
    return count;
}

int faults_gateway_kills(const struct faults *f)
{
    return f->harm.gateway_kills;
}

static void print_tally(const char *name, const struct tally *t)
{
    if (t->count > 0 && t->measured > 0)
        printf("%-36s %5d  %lld ms\n", name, t->count, (long long)t->slowest_ms);
    else if (t->count > 0)
        printf("%-36s %5d  -\n", name, t->count);
}

void faults_print(const struct faults *f)
{
    printf("%-36s %5s  %s\n", "fault", "times", "slowest recovery");
    for (size_t i = 0; i < FAULT_COUNT; i++)
        print_tally(FAULTS[i].name, &f->tallies[i]);
    print_tally("gateway killed alone", &f->lone_kills);
}

void faults_print_names(void)
{
    for (size_t i = 0; i < FAULT_COUNT; i++)
        printf("  %s\n", FAULTS[i].name);
}

struct faults *faults_create(struct nodes *nodes, struct ledger *ledger, int hooks_port, struct random random)
{
    struct faults *f = calloc(1, sizeof(*f));

    if (!f)
        abort();
    f->harm.nodes = nodes;
    f->ledger = ledger;
    f->hooks_port = hooks_port;
    f->harm.random = random;
    f->ask = ask_create();
    f->tallies = calloc(FAULT_COUNT, sizeof(*f->tallies));
    f->is_chosen = calloc(FAULT_COUNT, sizeof(*f->is_chosen));
    if (!f->tallies || !f->is_chosen)
        abort();
    memset(f->is_chosen, true, FAULT_COUNT * sizeof(*f->is_chosen));
    return f;
}

void faults_destroy(struct faults **f)
{
    if (!*f)
        return;
    ask_destroy(&(*f)->ask);
    free((*f)->tallies);
    free((*f)->is_chosen);
    free(*f);
    *f = NULL;
}
