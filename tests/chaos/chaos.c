/* Nothing lost: two gateways on one Redis under load, while faults are injected at random.
 *
 *   calm       10 %   without faults: everything is delivered exactly once
 *   always     45 %   a storm of faults, the append-only file written before every answer: nothing is lost
 *   everysec   35 %   the same, the file written every second: what was answered just before a kill may be lost
 *   calm       10 %   exactly once again
 *
 * Then every task is looked up, the counters are compared, and the memory must come back. CHAOS_SECONDS (600) is how
 * long faults and calm last together, CHAOS_SEED repeats the choices of a run, CHAOS_RATE is how many tasks are posted
 * a second, CHAOS_ONLY takes only faults whose name holds that text, CHAOS_ORPHANS=0 leaves out what is deleted by
 * hand, DUEPOST_BIN is the gateway. */
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
#define END_MS 9000

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

static void calm(struct run *r, enum phase phase, int64_t ms)
{
    traffic_resume(r->traffic, phase);
    nodes_sleep_ms(ms);
    traffic_pause(r->traffic);
    expect_settled(r, "without faults all is settled soon");
}

static void storm(struct run *r, enum phase phase, int64_t ms)
{
    traffic_resume(r->traffic, phase);
    faults_storm(r->faults, phase, clock_mono_ms() + ms);
    traffic_pause(r->traffic);
    expect_settled(r, "after the faults all is settled soon");
}

static bool start_all(struct run *r)
{
    if (!nodes_redis_start(r->nodes))
        return false;
    for (int i = 0; i < GATEWAYS; i++) {
        if (!nodes_gateway_start(r->nodes, i, NULL))
            return false;
    }
    return verdict_settled(r);
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
    storm(r, PHASE_ALWAYS, total_ms * 45 / 100);
    say(began, "faults, appendfsync everysec");
    nodes_redis_policy(r->nodes, "everysec");
    plain_result(nodes_redis_do(r->nodes, "CONFIG SET appendfsync everysec"), "appendfsync can be set");
    r->usage_before = nodes_usage(r->nodes, 0);
    storm(r, PHASE_EVERYSEC, total_ms * 35 / 100);
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
    long delivered = 0, unasked = 0;

    for (size_t i = 0; i < count; i++) {
        const struct entry e = ledger_read(r->ledger, (long)i);
        delivered += e.successes > 0;
        unasked += e.accepted_mono_ms == 0 && e.requests > 0;
    }
    faults_print(r->faults);
    printf(
        "accepted %ld (and %zu tasks in all), delivered %ld, duplicates %d, lost %d, lost within the last 2 s before "
        "a kill with everysec %d\n",
        c.accepted, count, delivered, r->duplicates, r->lost, r->lost_excused);
    printf("posts %ld, refused %ld, repeated %ld, accepted without the client learning it %ld, GETs %ld\n", c.posts,
           c.refused, c.repeats, unasked, c.gets);
    printf("deletes near the due time %ld: cancelled %ld, under way %ld, too late %ld; slowest answer %lld ms\n",
           c.deletes, c.cancelled, c.under_way, c.too_late, (long long)c.slowest_ms);
    printf("slowest redelivery after a gateway went away %lld ms, latest first request %lld ms after the due time\n",
           (long long)r->slowest_redelivery_ms, (long long)r->latest_ms);
}

int main(void)
{
    const char *binary = getenv("DUEPOST_BIN");
    uint64_t seed = random_seed_from("CHAOS_SEED", (uint64_t)clock_wall_us());
    long seconds = number_from("CHAOS_SECONDS", 600);
    bool is_slow = nodes_scaled_ms(1) > 1;
    int rate = (int)number_from("CHAOS_RATE", is_slow ? RATE_SLOW : RATE);
    struct random random = random_seeded(seed);
    struct run r = {0};

    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || curl_global_init(CURL_GLOBAL_ALL) != 0)
        return 1;
    json_object_seed(0);
    printf("CHAOS_SEED=%llu CHAOS_SECONDS=%ld\n", (unsigned long long)seed, seconds);
    r.nodes = nodes_create(binary ? binary : "build/release/duepost");
    r.ledger = ledger_create((size_t)(seconds + 120) * (size_t)(rate + 50));
    r.hooks = hooks_create(r.ledger);
    r.ask = ask_create();
    r.faults = faults_create(r.nodes, r.ledger, hooks_port(r.hooks), random);
    r.traffic = traffic_create(r.nodes, r.ledger, hooks_port(r.hooks), random_next(&random), rate);
    bool is_started = start_all(&r);
    plain_result(is_started, "Redis and two gateways start");
    if (is_started) {
        all_phases(&r, seconds * 1000);
        print_report(&r);
    }
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
