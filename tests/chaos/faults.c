/* A fault is a function that does harm and undoes it. After it (except when the next one follows at once) a probe task
 * is posted through each gateway until it is accepted, and must reach the receiver: the time that takes, from the end
 * of the fault, is the recovery.
 *
 * While the append-only file is written every second, gateway 0 is left alone: it must live through all that Redis
 * does, so that its memory, threads and descriptors can be compared. */
#include "faults.h"
#include "ask.h"
#include "base/clock.h"
#include "traffic.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECOVER_MS (CLAIM_IDLE_MAX_MS + 5000)
#define GIVE_UP_MS 60000
#define END_MS 9000 /* drain-timeout and what comes after */
#define KILLS_MAX 4096
#define STARTS_MAX 4096
#define EXCUSE_MS 2000
#define KEY "duepost{0}"

struct faults {
    struct nodes *nodes;
    struct ledger *ledger;
    struct ask *ask;
    struct random random;
    int hooks_port;
    enum phase phase;
    int64_t lossy_kills[KILLS_MAX], starts[STARTS_MAX];
    int lossy_kill_count, start_count, broken;
    bool has_orphaned;
    struct tally *tallies;
};

struct tally {
    int count, measured; /* not measured: the next fault came at once */
    int64_t slowest_ms;
};

static int64_t between(struct faults *f, int64_t low, int64_t high)
{
    return low + (int64_t)random_below(&f->random, (size_t)(high - low + 1));
}

static void broken(struct faults *f, const char *what, int64_t value)
{
    printf("broken: %s (%lld)\n", what, (long long)value);
    f->broken++;
}

/* --------------------------------------------------------------- gateways */

static int pick_gateway(struct faults *f)
{
    return f->phase == PHASE_EVERYSEC ? GATEWAYS - 1 : (int)random_below(&f->random, GATEWAYS);
}

static void start_gateway(struct faults *f, int i)
{
    if (f->start_count < STARTS_MAX)
        f->starts[f->start_count++] = clock_mono_ms();
    if (!nodes_gateway_start(f->nodes, i, NULL))
        broken(f, "a gateway does not start", i);
}

static void gateway_killed(struct faults *f)
{
    int i = pick_gateway(f);

    nodes_gateway_signal(f->nodes, i, SIGKILL);
    int code = nodes_gateway_wait(f->nodes, i, nodes_scaled_ms(END_MS));
    if (code != 128 + SIGKILL)
        broken(f, "a gateway had ended by itself", code);
    nodes_sleep_ms(between(f, 0, 500));
    start_gateway(f, i);
}

static void gateway_stopped(struct faults *f)
{
    int i = pick_gateway(f);

    nodes_gateway_signal(f->nodes, i, SIGSTOP);
    nodes_sleep_ms(between(f, 1200, 4500));
    nodes_gateway_signal(f->nodes, i, SIGCONT);
}

static void both_gateways_stopped(struct faults *f)
{
    for (int i = 0; i < GATEWAYS; i++)
        nodes_gateway_signal(f->nodes, i, SIGSTOP);
    nodes_sleep_ms(between(f, 200, 3000));
    for (int i = 0; i < GATEWAYS; i++)
        nodes_gateway_signal(f->nodes, i, SIGCONT);
}

static void gateway_ended(struct faults *f)
{
    int i = pick_gateway(f);

    nodes_gateway_signal(f->nodes, i, SIGTERM);
    if (between(f, 0, 3) == 0)
        nodes_gateway_signal(f->nodes, i, SIGTERM);
    int code = nodes_gateway_wait(f->nodes, i, nodes_scaled_ms(END_MS));
    if (code != 0)
        broken(f, "a gateway did not end with 0 in time after SIGTERM", code);
    start_gateway(f, i);
}

/* ------------------------------------------------------------------ redis */

static void redis_killed(struct faults *f)
{
    if (f->phase == PHASE_EVERYSEC && f->lossy_kill_count < KILLS_MAX)
        f->lossy_kills[f->lossy_kill_count++] = clock_mono_ms();
    nodes_redis_kill(f->nodes);
    nodes_sleep_ms(between(f, 0, 1500));
    if (!nodes_redis_start(f->nodes))
        broken(f, "Redis does not start", 0);
}

static void redis_stopped(struct faults *f)
{
    nodes_redis_signal(f->nodes, SIGSTOP);
    nodes_sleep_ms(between(f, 1000, 4000));
    nodes_redis_signal(f->nodes, SIGCONT);
}

static void clients_cut(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "CLIENT KILL TYPE normal SKIPME yes");
}

static void subscribers_cut(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "CLIENT KILL TYPE pubsub");
}

static void clients_paused(struct faults *f)
{
    int64_t ms = between(f, 200, 3000);

    (void)nodes_redis_do(f->nodes, "CLIENT PAUSE %lld ALL", (long long)ms);
    nodes_sleep_ms(ms);
}

static void scripts_flushed(struct faults *f)
{
    for (int i = 0; i < 10; i++) {
        (void)nodes_redis_do(f->nodes, "SCRIPT FLUSH");
        nodes_sleep_ms(100);
    }
}

static void memory_full(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "CONFIG SET maxmemory 1");
    nodes_sleep_ms(between(f, 500, 3000));
    if (!nodes_redis_do(f->nodes, "CONFIG SET maxmemory 0"))
        broken(f, "maxmemory cannot be set back", 0);
}

/* A replica of nobody: it keeps its data and refuses writes. */
static void read_only(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "REPLICAOF 127.0.0.1 1");
    nodes_sleep_ms(between(f, 300, 3000));
    if (!nodes_redis_do(f->nodes, "REPLICAOF NO ONE"))
        broken(f, "Redis is not a master again", 0);
}

static void redis_sleeps(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "DEBUG SLEEP %lld.%lld", (long long)between(f, 0, 2), (long long)between(f, 1, 9));
}

static void sync_changed(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "CONFIG SET appendfsync no");
    nodes_sleep_ms(between(f, 100, 1000));
    (void)nodes_redis_do(f->nodes, "CONFIG SET appendfsync always");
    nodes_sleep_ms(between(f, 100, 1000));
    (void)nodes_redis_do(f->nodes, "CONFIG SET appendfsync everysec");
}

static void readers_unblocked(struct faults *f)
{
    redisReply *r = nodes_redis(f->nodes, "CLIENT LIST TYPE normal");

    for (const char *line = r && r->type == REDIS_REPLY_STRING ? r->str : NULL; line && *line;) {
        if (strncmp(line, "id=", 3) == 0)
            (void)nodes_redis_do(f->nodes, "CLIENT UNBLOCK %ld ERROR", strtol(line + 3, NULL, 10));
        const char *end = strchr(line, '\n');
        line = end ? end + 1 : NULL;
    }
    if (r)
        freeReplyObject(r);
}

static void group_destroyed(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "XGROUP DESTROY " KEY ":ready workers");
}

static void stream_deleted(struct faults *f)
{
    (void)nodes_redis_do(f->nodes, "DEL " KEY ":ready");
}

/* Deleting a consumer drops its list of pending entries. */
static void consumers_deleted(struct faults *f)
{
    redisReply *r = nodes_redis(f->nodes, "XINFO CONSUMERS " KEY ":ready workers");

    for (size_t i = 0; r && r->type == REDIS_REPLY_ARRAY && i < r->elements; i++)
        (void)nodes_redis_do(f->nodes, "XGROUP DELCONSUMER " KEY ":ready workers %s", r->element[i]->element[1]->str);
    if (r)
        freeReplyObject(r);
}

static void container_deleted(struct faults *f)
{
    static const char *const NAMES[] = {"q:q0", "q:q1",      "q:q2", "lanes", "flight", "delivered",
                                        "dead", "cancelled", "out",  "busy",  "workers"};

    (void)nodes_redis_do(f->nodes, "DEL " KEY ":%s", NAMES[random_below(&f->random, sizeof(NAMES) / sizeof(NAMES[0]))]);
}

/* What a killed gateway had in flight is in no container any more: only the sweep finds it. */
static void killed_and_deleted(struct faults *f)
{
    int i = pick_gateway(f);

    nodes_gateway_signal(f->nodes, i, SIGKILL);
    (void)nodes_gateway_wait(f->nodes, i, nodes_scaled_ms(END_MS));
    stream_deleted(f);
    start_gateway(f, i);
}

/* -------------------------------------------------------------- the table */

#define ANY (1 << PHASE_ALWAYS | 1 << PHASE_EVERYSEC)

static const struct fault {
    const char *name;
    void (*inject)(struct faults *f);
    int phases, weight;
    bool is_orphaning; /* what it takes away is repaired by the patrol, within a minute; CHAOS_ORPHANS=0: not done */
} FAULTS[] = {
    {"gateway killed", gateway_killed, ANY, 5, false},
    {"gateway stopped past claim-idle", gateway_stopped, ANY, 2, false},
    {"both gateways stopped", both_gateways_stopped, ANY, 1, false},
    {"gateway ended by SIGTERM", gateway_ended, ANY, 2, false},
    {"Redis killed", redis_killed, ANY, 2, false},
    {"Redis stopped", redis_stopped, ANY, 1, false},
    {"clients cut", clients_cut, ANY, 1, false},
    {"subscribers cut", subscribers_cut, ANY, 1, false},
    {"clients paused", clients_paused, ANY, 1, false},
    {"blocked readers unblocked", readers_unblocked, ANY, 1, false},
    {"scripts flushed", scripts_flushed, ANY, 1, false},
    {"memory full", memory_full, ANY, 1, false},
    {"read-only", read_only, ANY, 1, false},
    {"Redis sleeps", redis_sleeps, ANY, 1, false},
    {"appendfsync changed", sync_changed, 1 << PHASE_EVERYSEC, 1, false},
    {"group destroyed", group_destroyed, ANY, 1, true},
    {"Stream deleted", stream_deleted, ANY, 1, true},
    {"consumers deleted", consumers_deleted, ANY, 1, true},
    {"a container deleted", container_deleted, ANY, 1, true},
    {"gateway killed, then Stream deleted", killed_and_deleted, ANY, 1, true},
};
#define FAULT_COUNT (sizeof(FAULTS) / sizeof(FAULTS[0]))

static bool is_enabled(const struct fault *fault, enum phase phase)
{
    const char *orphans = getenv("CHAOS_ORPHANS");
    const char *only = getenv("CHAOS_ONLY");

    if (only && strstr(fault->name, only) == NULL)
        return false;
    return (fault->phases >> phase & 1) != 0 && (!fault->is_orphaning || !orphans || strcmp(orphans, "0") != 0);
}

static const struct fault *pick(struct faults *f, enum phase phase)
{
    size_t sum = 0, ticket;

    for (size_t i = 0; i < FAULT_COUNT; i++)
        sum += is_enabled(&FAULTS[i], phase) ? (size_t)FAULTS[i].weight : 0;
    ticket = sum > 0 ? random_below(&f->random, sum) : 0;
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        if (!is_enabled(&FAULTS[i], phase))
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
    long serial = ledger_open(f->ledger, f->phase, BEHAVE_OK, IDENTITY_OWN_ID, clock_wall_ms());
    char body[512];

    traffic_body(body, sizeof(body), f->ledger, serial, f->hooks_port, "\"delay\":0");
    while (clock_mono_ms() < until) {
        int status = ask_send(f->ask, "POST", nodes_port(f->nodes, gateway), "/tasks", body);
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

void faults_storm(struct faults *f, enum phase phase, int64_t until_mono_ms)
{
    f->phase = phase;
    while (clock_mono_ms() < until_mono_ms) {
        const struct fault *fault = pick(f, phase);
        if (!fault)
            return;
        struct tally *t = &f->tallies[fault - FAULTS];
        fault->inject(f);
        t->count++;
        f->has_orphaned = f->has_orphaned || fault->is_orphaning;
        if (between(f, 0, 3) == 0)
            continue;
        int64_t ms = recover(f);
        t->measured++;
        if (ms > t->slowest_ms)
            t->slowest_ms = ms;
        if (ms > nodes_scaled_ms(RECOVER_MS)) {
            printf("slow recovery after: %s\n", fault->name);
            broken(f, "recovery took too many ms", ms);
        }
        nodes_sleep_ms(between(f, 50, 800));
    }
}

/* ----------------------------------------------------------------- report */

bool faults_excuse(const struct faults *f, int64_t answered_mono_ms)
{
    for (int i = 0; i < f->lossy_kill_count; i++) {
        int64_t before_ms = f->lossy_kills[i] - answered_mono_ms;
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
    return f->broken;
}

int faults_recent_starts(const struct faults *f, int64_t within_ms)
{
    int count = 0;

    for (int i = 0; i < f->start_count; i++)
        count += clock_mono_ms() - f->starts[i] <= within_ms;
    return count;
}

void faults_print(const struct faults *f)
{
    printf("%-36s %5s  %s\n", "fault", "times", "slowest recovery");
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        const struct tally *t = &f->tallies[i];
        if (t->count > 0 && t->measured > 0)
            printf("%-36s %5d  %lld ms\n", FAULTS[i].name, t->count, (long long)t->slowest_ms);
        else if (t->count > 0)
            printf("%-36s %5d  -\n", FAULTS[i].name, t->count);
    }
}

struct faults *faults_create(struct nodes *nodes, struct ledger *ledger, int hooks_port, struct random random)
{
    struct faults *f = calloc(1, sizeof(*f));

    if (!f)
        abort();
    f->nodes = nodes;
    f->ledger = ledger;
    f->hooks_port = hooks_port;
    f->random = random;
    f->ask = ask_create();
    f->tallies = calloc(FAULT_COUNT, sizeof(*f->tallies));
    if (!f->tallies)
        abort();
    return f;
}

void faults_destroy(struct faults **f)
{
    if (!*f)
        return;
    ask_destroy(&(*f)->ask);
    free((*f)->tallies);
    free(*f);
    *f = NULL;
}
