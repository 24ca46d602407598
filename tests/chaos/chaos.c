/* Nothing lost: two gateways on one Redis under load, while faults are injected at random.
 *
 *   calm        10 %   without faults: everything is delivered exactly once
 *   always      35 %   a storm of faults, the append-only file written before every answer: nothing is lost
 *   lone kills  15 %   one gateway at a time is killed and nothing else happens: the other sends again in time
 *   everysec    30 %   a storm, the file written every second: what was answered just before a kill may be lost
 *   calm        10 %   exactly once again
 *
 * Then every task is looked up, the counters are compared, and the memory must come back. USAGE says what can be
 * chosen. */
#include "../support/plain.h"
#include "base/clock.h"
#include "verdict.h"
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE 150
#define RATE_SLOW 40
#define PAUSE_MS 800
#define END_MS 9000

static const char USAGE[] =
    "chaos: two gateways on one Redis under load, faults at random, nothing may be lost. By environment:\n"
    "  CHAOS_SECONDS=600   how long faults and calm last together\n"
    "  CHAOS_SEED=N        repeats the choices of a run, which prints its seed\n"
    "  CHAOS_RATE=150      tasks that are posted a second\n"
    "  CHAOS_FAULTS=a,b    only these faults, _ for a blank: CHAOS_FAULTS=gateway_killed,Redis_killed\n"
    "  CHAOS_PAUSE_MS=800  the longest pause between two faults; 0: as fast as recovery allows\n"
    "  DUEPOST_BIN=PATH    the gateway\n"
    "Faults:\n";

static long number_from(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static void say(int64_t began_ms, const char *what)
{
    printf("%6.1f s  %s\n", (double)(clock_mono_ms() - began_ms) / 1000, what);
    (void)fflush(stdout);
}

static void expect_settled(struct run *r, const char *sentence)
{
    plain_result(verdict_settled(r), sentence);
}

static void note_busiest(struct run *r, int *out)
{
    int n = hooks_take_busiest(r->hooks);

    if (n > *out)
        *out = n;
}

static void calm(struct run *r, enum phase phase, int64_t ms)
{
    note_busiest(r, &r->busiest);
    traffic_resume(r->traffic, phase);
    plain_result(traffic_crowd(r->traffic, phase), "without faults every task is accepted");
    nodes_sleep_ms(ms);
    traffic_pause(r->traffic);
    expect_settled(r, "without faults all is settled soon");
    note_busiest(r, &r->busiest_in_calm);
}

static void storm(struct run *r, enum phase phase, int64_t ms)
{
    traffic_resume(r->traffic, phase);
    faults_storm(r->faults, phase, clock_mono_ms() + ms);
    traffic_pause(r->traffic);
    expect_settled(r, "after the faults all is settled soon");
}

static void lone_kills(struct run *r, int64_t ms)
{
    traffic_resume(r->traffic, PHASE_LONE_KILLS);
    faults_lone_kills(r->faults, clock_mono_ms() + ms);
    traffic_pause(r->traffic);
    expect_settled(r, "after the faults all is settled soon");
}

static bool make_queue(struct run *r, const char *name, const char *settings)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/queues/%s", name);
    return ask_send(r->ask, "PUT", nodes_port(r->nodes, 0), path, settings) == 201;
}

static bool make_queues(struct run *r)
{
    char settings[64];

    (void)snprintf(settings, sizeof(settings), "{\"max_concurrency\":%d,\"max_per_second\":100}", LIMITED_SLOTS);
    return make_queue(r, LIMITED_QUEUE, settings) && make_queue(r, HELD_QUEUE, "{\"paused\":true}");
}

static bool start_all(struct run *r)
{
    if (!nodes_redis_start(r->nodes))
        return false;
    for (int i = 0; i < GATEWAYS; i++) {
        if (!nodes_gateway_start(r->nodes, i, NULL))
            return false;
    }
    return verdict_settled(r) && make_queues(r);
}

/* End the gateways, and begin again with ones that keep finished tasks for a second. */
static void forget_everything(struct run *r)
{
    static const char *const SHORT[] = {"--retention-delivered",
                                        "1s",
                                        "--retention-dead",
                                        "1s",
                                        "--retention-cancelled",
                                        "1s",
                                        "--retention-expired",
                                        "1s",
                                        NULL};

    for (int i = 0; i < GATEWAYS; i++) {
        nodes_gateway_signal(r->nodes, i, SIGTERM);
        plain_result(nodes_gateway_wait(r->nodes, i, nodes_scaled_ms(END_MS)) == 0, "a gateway ends with 0");
    }
    for (int i = 0; i < GATEWAYS; i++)
        plain_result(nodes_gateway_start(r->nodes, i, SHORT), "a gateway starts");
    verdict_empty(r);
    for (int i = 0; i < GATEWAYS; i++) {
        nodes_gateway_signal(r->nodes, i, SIGTERM);
        plain_result(nodes_gateway_wait(r->nodes, i, nodes_scaled_ms(END_MS)) == 0, "a gateway ends with 0");
    }
    plain_result(nodes_reports(r->nodes) == 0, "no sanitizer has reported anything");
}

static void all_phases(struct run *r, int64_t total_ms)
{
    int64_t began = clock_mono_ms();

    r->memory_before = nodes_redis_info(r->nodes, "used_memory");
    say(began, "calm");
    calm(r, PHASE_CALM_FIRST, total_ms / 10);
    say(began, "faults, appendfsync always");
    storm(r, PHASE_ALWAYS, total_ms * 35 / 100);
    say(began, "gateways killed alone");
    lone_kills(r, total_ms * 15 / 100);
    say(began, "faults, appendfsync everysec");
    nodes_redis_policy(r->nodes, "everysec");
    plain_result(nodes_redis_do(r->nodes, "CONFIG SET appendfsync everysec"), "appendfsync can be set");
    r->usage_before = nodes_usage(r->nodes, 0);
    storm(r, PHASE_EVERYSEC, total_ms * 30 / 100);
    say(began, "calm");
    calm(r, PHASE_CALM_LAST, total_ms / 10);
    say(began, "looking at every task");
    verdict_tasks(r);
    verdict_state(r);
    say(began, "forgetting every task");
    forget_everything(r);
}

static void print_report(struct run *r)
{
    struct traffic_counts c = traffic_counts(r->traffic);
    size_t count = ledger_count(r->ledger);
    struct watched w = ledger_watched(r->ledger);
    long delivered = 0, unasked = 0;

    for (size_t i = 0; i < count; i++) {
        const struct entry e = ledger_read(r->ledger, (long)i);
        delivered += e.successes > 0;
        unasked += e.accepted_mono_ms == 0 && e.requests > 0;
    }
    faults_print(r->faults);
    printf(
        "accepted %ld (and %zu tasks in all), delivered %ld, duplicates %d, lost %d, lost within the last 2 s before "
        "a kill with everysec %d, dead because ten gateways died over them %d\n",
        c.accepted, count, delivered, r->duplicates, r->lost, r->lost_excused, r->worn_out);
    printf("posts %ld, refused %ld, repeated %ld, accepted without the client learning it %ld, GETs %ld\n", c.posts,
           c.refused, c.repeats, unasked, c.gets);
    printf("deletes near the due time %ld: cancelled %ld, under way %ld, too late %ld; slowest answer %lld ms\n",
           c.deletes, c.cancelled, c.under_way, c.too_late, (long long)c.slowest_ms);
    printf("patches near the due time %ld: made %ld; run %ld, redriven %ld, batches %ld, lists %ld; at once in the "
           "limited "
           "queue %d, without faults %d\n",
           c.patches, c.patched, c.runs, c.redriven, c.batches, c.lists, r->busiest, r->busiest_in_calm);
    printf("gateways killed %d; tasks cut off by one killed alone and sent again %d, slowest %lld ms\n",
           faults_gateway_kills(r->faults), w.redelivered, (long long)w.slowest_ms);
    printf("slowest redelivery after a gateway went away %lld ms, latest first request %lld ms after the due time\n",
           (long long)r->slowest_redelivery_ms, (long long)r->latest_ms);
}

static int usage(void)
{
    printf("%s", USAGE);
    faults_print_names();
    return 0;
}

static bool choose(struct faults *f)
{
    const char *names = getenv("CHAOS_FAULTS");

    faults_pause_ms(f, number_from("CHAOS_PAUSE_MS", PAUSE_MS));
    return !names || !*names || faults_choose(f, names);
}

static void run_all(struct run *r, long seconds)
{
    bool is_started = start_all(r);

    plain_result(is_started, "Redis and two gateways start");
    if (is_started) {
        all_phases(r, seconds * 1000);
        print_report(r);
    }
}

int main(int argc, char **argv)
{
    const char *binary = getenv("DUEPOST_BIN");
    uint64_t seed = random_seed_from("CHAOS_SEED", (uint64_t)clock_wall_us());
    long seconds = number_from("CHAOS_SECONDS", 600);
    int rate = (int)number_from("CHAOS_RATE", nodes_scaled_ms(1) > 1 ? RATE_SLOW : RATE);
    struct random random = random_seeded(seed);
    struct run r = {0};

    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage();
    /* SIGXFSZ: also for Redis, whose disk is full at times. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
        curl_global_init(CURL_GLOBAL_ALL) != 0)
        return 1;
    json_object_seed(0);
    printf("CHAOS_SEED=%llu CHAOS_SECONDS=%ld\n", (unsigned long long)seed, seconds);
    r.nodes = nodes_create(binary ? binary : "build/release/duepost");
    r.ledger = ledger_create((size_t)(seconds + 120) * (size_t)(rate + 50));
    r.hooks = hooks_create(r.ledger);
    r.ask = ask_create();
    r.faults = faults_create(r.nodes, r.ledger, hooks_port(r.hooks), random);
    r.traffic = traffic_create(r.nodes, r.ledger, hooks_port(r.hooks), random_next(&random), rate);
    bool is_chosen = choose(r.faults);
    plain_result(is_chosen, "the faults that were asked for exist");
    if (is_chosen)
        run_all(&r, seconds);
    traffic_destroy(&r.traffic);
    faults_destroy(&r.faults);
    hooks_destroy(&r.hooks);
    printf("CHAOS_SEED=%llu\n", (unsigned long long)seed);
    int status = plain_end();
    nodes_destroy(&r.nodes, status == 0);
    ask_destroy(&r.ask);
    ledger_destroy(&r.ledger);
    return status;
}
