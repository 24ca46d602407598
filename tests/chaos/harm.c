/* Each fault is a function that does harm and undoes it.
 *
 * While the append-only file is written every second, gateway 0 is left alone: it must live through all that Redis
 * does, so that its memory, threads and descriptors can be compared. */
#include "harm.h"
#include "base/clock.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_MS 9000      /* drain-timeout and what comes after */
#define DISK_OK_MS 10000 /* Redis tries its disk again every second */
#define KEY "duepost{0}"

int64_t harm_between(struct harm *h, int64_t low, int64_t high)
{
    return low + (int64_t)random_below(&h->random, (size_t)(high - low + 1));
}

void harm_broken(struct harm *h, const char *what, int64_t value)
{
    printf("broken: %s (%lld)\n", what, (long long)value);
    h->broken++;
}

/* --------------------------------------------------------------- gateways */

int harm_pick_gateway(struct harm *h)
{
    return h->phase == PHASE_EVERYSEC ? GATEWAYS - 1 : (int)random_below(&h->random, GATEWAYS);
}

void harm_start_gateway(struct harm *h, int i)
{
    if (h->start_count < HARM_DIARY_MAX)
        h->starts[h->start_count++] = clock_mono_ms();
    if (!nodes_gateway_start(h->nodes, i, NULL))
        harm_broken(h, "a gateway does not start", i);
}

void harm_kill_gateway(struct harm *h, int i)
{
    nodes_gateway_signal(h->nodes, i, SIGKILL);
    int code = nodes_gateway_wait(h->nodes, i, nodes_scaled_ms(END_MS));
    if (code != 128 + SIGKILL)
        harm_broken(h, "a gateway had ended by itself", code);
    h->gateway_kills++;
}

static void gateway_killed(struct harm *h)
{
    int i = harm_pick_gateway(h);

    harm_kill_gateway(h, i);
    nodes_sleep_ms(harm_between(h, 0, 500));
    harm_start_gateway(h, i);
}

static void gateway_stopped(struct harm *h)
{
    int i = harm_pick_gateway(h);

    nodes_gateway_signal(h->nodes, i, SIGSTOP);
    nodes_sleep_ms(harm_between(h, 1200, 4500));
    nodes_gateway_signal(h->nodes, i, SIGCONT);
}

static void both_gateways_stopped(struct harm *h)
{
    for (int i = 0; i < GATEWAYS; i++)
        nodes_gateway_signal(h->nodes, i, SIGSTOP);
    nodes_sleep_ms(harm_between(h, 200, 3000));
    for (int i = 0; i < GATEWAYS; i++)
        nodes_gateway_signal(h->nodes, i, SIGCONT);
}

static void gateway_ended(struct harm *h)
{
    int i = harm_pick_gateway(h);

    nodes_gateway_signal(h->nodes, i, SIGTERM);
    if (harm_between(h, 0, 3) == 0)
        nodes_gateway_signal(h->nodes, i, SIGTERM);
    int code = nodes_gateway_wait(h->nodes, i, nodes_scaled_ms(END_MS));
    if (code != 0)
        harm_broken(h, "a gateway did not end with 0 in time after SIGTERM", code);
    harm_start_gateway(h, i);
}

/* ------------------------------------------------------------------ redis */

static void redis_killed(struct harm *h)
{
    if (h->phase == PHASE_EVERYSEC && h->lossy_kill_count < HARM_DIARY_MAX)
        h->lossy_kills[h->lossy_kill_count++] = clock_mono_ms();
    nodes_redis_kill(h->nodes);
    nodes_sleep_ms(harm_between(h, 0, 1500));
    if (!nodes_redis_start(h->nodes))
        harm_broken(h, "Redis does not start", 0);
}

static void redis_stopped(struct harm *h)
{
    nodes_redis_signal(h->nodes, SIGSTOP);
    nodes_sleep_ms(harm_between(h, 1000, 4000));
    nodes_redis_signal(h->nodes, SIGCONT);
}

static void clients_cut(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "CLIENT KILL TYPE normal SKIPME yes");
}

static void subscribers_cut(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "CLIENT KILL TYPE pubsub");
}

static void clients_paused(struct harm *h)
{
    int64_t ms = harm_between(h, 200, 3000);

    (void)nodes_redis_do(h->nodes, "CLIENT PAUSE %lld ALL", (long long)ms);
    nodes_sleep_ms(ms);
}

static void scripts_flushed(struct harm *h)
{
    for (int i = 0; i < 10; i++) {
        (void)nodes_redis_do(h->nodes, "SCRIPT FLUSH");
        nodes_sleep_ms(100);
    }
}

static void memory_full(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "CONFIG SET maxmemory 1");
    nodes_sleep_ms(harm_between(h, 500, 3000));
    if (!nodes_redis_do(h->nodes, "CONFIG SET maxmemory 0"))
        harm_broken(h, "maxmemory cannot be set back", 0);
}

static void restart_redis(struct harm *h)
{
    nodes_redis_kill(h->nodes);
    if (!nodes_redis_start(h->nodes))
        harm_broken(h, "Redis does not start", 0);
}

/* With appendfsync always Redis ends itself then. Else it takes no writes until what it holds back is written; to kill
 * it before that would lose more than its last second. */
static void disk_full(struct harm *h)
{
    int64_t written = nodes_redis_info(h->nodes, "aof_current_size") - nodes_redis_info(h->nodes, "aof_base_size");

    nodes_redis_limit_files(h->nodes, written + harm_between(h, 0, 4000));
    nodes_sleep_ms(harm_between(h, 500, 3000));
    nodes_redis_limit_files(h->nodes, -1);
    if (h->phase != PHASE_EVERYSEC) {
        restart_redis(h);
        return;
    }
    int64_t until = clock_mono_ms() + nodes_scaled_ms(DISK_OK_MS);
    while (!nodes_redis_do(h->nodes, "DEL " KEY ":none") && clock_mono_ms() < until)
        nodes_sleep_ms(20);
}

/* A replica of nobody: it keeps its data and refuses writes. */
static void read_only(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "REPLICAOF 127.0.0.1 1");
    nodes_sleep_ms(harm_between(h, 300, 3000));
    if (!nodes_redis_do(h->nodes, "REPLICAOF NO ONE"))
        harm_broken(h, "Redis is not a master again", 0);
}

static void redis_sleeps(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "DEBUG SLEEP %lld.%lld", (long long)harm_between(h, 0, 2),
                         (long long)harm_between(h, 1, 9));
}

static void sync_changed(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "CONFIG SET appendfsync no");
    nodes_sleep_ms(harm_between(h, 100, 1000));
    (void)nodes_redis_do(h->nodes, "CONFIG SET appendfsync always");
    nodes_sleep_ms(harm_between(h, 100, 1000));
    (void)nodes_redis_do(h->nodes, "CONFIG SET appendfsync everysec");
}

static void readers_unblocked(struct harm *h)
{
    redisReply *r = nodes_redis(h->nodes, "CLIENT LIST TYPE normal");

    for (const char *line = r && r->type == REDIS_REPLY_STRING ? r->str : NULL; line && *line;) {
        if (strncmp(line, "id=", 3) == 0)
            (void)nodes_redis_do(h->nodes, "CLIENT UNBLOCK %ld ERROR", strtol(line + 3, NULL, 10));
        const char *end = strchr(line, '\n');
        line = end ? end + 1 : NULL;
    }
    if (r)
        freeReplyObject(r);
}

static void group_destroyed(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "XGROUP DESTROY " KEY ":ready workers");
}

static void stream_deleted(struct harm *h)
{
    (void)nodes_redis_do(h->nodes, "DEL " KEY ":ready");
}

/* Deleting a consumer drops its list of pending entries. */
static void consumers_deleted(struct harm *h)
{
    redisReply *r = nodes_redis(h->nodes, "XINFO CONSUMERS " KEY ":ready workers");

    for (size_t i = 0; r && r->type == REDIS_REPLY_ARRAY && i < r->elements; i++)
        (void)nodes_redis_do(h->nodes, "XGROUP DELCONSUMER " KEY ":ready workers %s", r->element[i]->element[1]->str);
    if (r)
        freeReplyObject(r);
}

static void container_deleted(struct harm *h)
{
    static const char *const NAMES[] = {"q:q0", "q:q1",      "q:q2", "lanes", "flight", "delivered",
                                        "dead", "cancelled", "out",  "busy",  "workers"};

    (void)nodes_redis_do(h->nodes, "DEL " KEY ":%s", NAMES[random_below(&h->random, sizeof(NAMES) / sizeof(NAMES[0]))]);
}

/* What a killed gateway had in flight is in no container any more: only the sweep finds it. */
static void killed_and_deleted(struct harm *h)
{
    int i = harm_pick_gateway(h);

    harm_kill_gateway(h, i);
    stream_deleted(h);
    harm_start_gateway(h, i);
}

/* -------------------------------------------------------------- the table */

#define ANY (1 << PHASE_ALWAYS | 1 << PHASE_EVERYSEC)

const struct fault FAULTS[] = {
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
    {"disk full", disk_full, ANY, 1, false},
    {"read-only", read_only, ANY, 1, false},
    {"Redis sleeps", redis_sleeps, ANY, 1, false},
    {"appendfsync changed", sync_changed, 1 << PHASE_EVERYSEC, 1, false},
    {"group destroyed", group_destroyed, ANY, 1, true},
    {"Stream deleted", stream_deleted, ANY, 1, true},
    {"consumers deleted", consumers_deleted, ANY, 1, true},
    {"a container deleted", container_deleted, ANY, 1, true},
    {"gateway killed and Stream deleted", killed_and_deleted, ANY, 1, true},
};
const size_t FAULT_COUNT = sizeof(FAULTS) / sizeof(FAULTS[0]);
