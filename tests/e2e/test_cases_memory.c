/* What a gateway holds does not grow with faults: a hundred restarts of Redis under load, thousands of requests
 * that Redis refuses, thousands of attempts that a receiver refuses. (The same tests run on a gateway with sanitizers
 * in `make asan`.) */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/random.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARRIVE_MS 30000
#define GROWTH_KB 4096

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(true);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(cases_memory, .init = setup, .fini = teardown, .timeout = 900);

struct usage {
    long rss_kb, threads;
    int descriptors;
};

static struct usage usage_now(void)
{
    struct usage u = {0};
    char path[64], line[256];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)proc_pid(gateway->proc));
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            u.rss_kb = strtol(line + 6, NULL, 10);
        if (strncmp(line, "Threads:", 8) == 0)
            u.threads = strtol(line + 8, NULL, 10);
    }
    if (f)
        (void)fclose(f);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)proc_pid(gateway->proc));
    DIR *d = opendir(path);
    while (d && readdir(d))
        u.descriptors++;
    if (d)
        closedir(d);
    cr_assert(u.rss_kb > 0 && u.threads > 0 && u.descriptors > 0);
    return u;
}

#define IDLE_CONNECTIONS 40 /* to the receiver: as many are kept as were busy at once; each round would leave more */

/* Sanitizers keep freed memory for a while, so there the number itself says nothing. */
static void expect_level(struct usage before)
{
    struct usage now = usage_now();

    cr_expect_leq(now.threads, before.threads, "%ld threads, %ld before", now.threads, before.threads);
    cr_expect_leq(now.descriptors, before.descriptors + IDLE_CONNECTIONS, "%d descriptors, %d before", now.descriptors,
                  before.descriptors);
    if (wait_scaled_ms(1) == 1)
        cr_expect_leq(now.rss_kb, before.rss_kb + GROWTH_KB, "%ld kB, %ld before", now.rss_kb, before.rss_kb);
}

static const struct reply *try_post(const char *id, const char *url)
{
    return client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\",\"retry\":{\"schedule\":[50]}}", id, url);
}

static int64_t stat_of(const char *name)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, name);
}

/* Post some whose answer is not waited for to be good; returns how many were accepted. */
static int post_some(int round, int count)
{
    int accepted = 0;
    char id[32];

    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof(id), "t-%d-%d", round, i);
        accepted += try_post(id, sink_url(sink, "/t"))->status == 201;
    }
    return accepted;
}

static void pause_ms(int64_t ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void restart_redis(int rounds, int first, struct random *random, int *accepted)
{
    for (int i = 0; i < rounds; i++) {
        *accepted += post_some(first + i, 5);
        pause_ms((int64_t)random_below(random, 60)); /* the moment is the case */
        redis_fixture_kill(redis);
        pause_ms((int64_t)random_below(random, 30));
        redis_fixture_start(redis);
    }
    *accepted += post_some(first + rounds, 20);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, ARRIVE_MS);
    WAIT_UNTIL(stat_of("tasks.scheduled") + stat_of("tasks.ready") + stat_of("tasks.delivering") == 0, ARRIVE_MS);
}

Test(cases_memory, a_hundred_restarts_of_redis_leave_nothing_behind)
{
    struct random random = random_seeded(random_seed_from("CASES_SEED", (uint64_t)wait_wall_us()));
    int accepted = 0;

    restart_redis(20, 0, &random, &accepted);
    struct usage before = usage_now();
    restart_redis(80, 1000, &random, &accepted);
    expect_level(before);
    cr_expect_gt(accepted, 100, "only %d tasks were accepted in between", accepted);
    cr_expect_geq(stat_of("totals.delivered"), accepted);
}

/* ------------------------------------------------------------ refusals */

/* A refusal takes a fifth of a second, so many clients ask at once. */
#define CLIENTS 200

struct asker {
    pthread_t thread;
    const char *url;
    int count, others; /* answers that are not 503 */
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct client *c = client_create(gateway->url);

    for (int i = 0; i < a->count; i++)
        a->others += client_post_task(c, "{\"url\":\"%s\"}", a->url)->status != 503;
    client_destroy(&c);
    return NULL;
}

static void expect_refused(int each)
{
    static struct asker askers[CLIENTS];
    int others = 0;

    for (int i = 0; i < CLIENTS; i++) {
        askers[i] = (struct asker){.url = sink_url(sink, "/refused"), .count = each};
        cr_assert_eq(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(askers[i].thread, NULL);
        others += askers[i].others;
    }
    cr_expect_eq(others, 0, "%d of %d answers were not 503", others, CLIENTS * each);
}

Test(cases_memory, requests_that_a_full_redis_refuses_leave_nothing_behind)
{
    redis_fixture_run(redis, "CONFIG SET maxmemory 1");
    expect_refused(5);
    struct usage before = usage_now();
    expect_refused(wait_scaled_ms(1) == 1 ? 40 : 10);
    WAIT_UNTIL(usage_now().descriptors <= before.descriptors + 8, ARRIVE_MS);
    expect_level(before);
    redis_fixture_run(redis, "CONFIG SET maxmemory 0");
    WAIT_UNTIL(try_post("after", sink_url(sink, "/after"))->status == 201, ARRIVE_MS);
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/refused"), 0);
    cr_expect_lt(strlen(proc_stderr(gateway->proc)), 20000, "the log is flooded");
}

static void deliver_to(const char *url, int first, int count)
{
    char id[32];

    for (int i = first; i < first + count; i++) {
        (void)snprintf(id, sizeof(id), "dead-%d", i);
        const struct reply *r = client_post_task(
            gateway->api, "{\"id\":\"%s\",\"url\":\"%s\",\"retry\":{\"max_attempts\":2,\"schedule\":[1]}}", id, url);
        cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    }
    WAIT_UNTIL(stat_of("totals.dead") == first + count, 2 * ARRIVE_MS);
}

/* Nobody listens there. */
Test(cases_memory, attempts_that_a_receiver_refuses_leave_nothing_behind)
{
    int count = wait_scaled_ms(1) == 1 ? 5000 : 500;
    struct sink *gone = sink_create();
    char *url = strdup(sink_url(gone, "/"));

    sink_destroy(&gone);
    deliver_to(url, 0, count); /* all there is to remember about a receiver is there then */
    struct usage before = usage_now();
    deliver_to(url, count, count);
    expect_level(before);
    free(url);
}
