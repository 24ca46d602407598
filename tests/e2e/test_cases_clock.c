/* The clock of Redis is stepped under running gateways, or is wrong from the start. Due times are by that clock:
 * nothing is lost, nothing comes before its due time by it, nothing twice, and nobody spins. The clock is stepped by a
 * library that is loaded before libc (tests/preload/clock_step.c). */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARRIVE_MS 15000
#define SECOND_US INT64_C(1000000)
#define HOUR_MS 3600000
#define DAY_US (24 * 3600 * SECOND_US)
#define CALM_MS 2000
#define CALM_CPU_MS 600 /* of these */

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;
static char *dir, *preload, *step_file;
static const char *redis_env[3];
static volatile int64_t *step_us;

/* The library lies beside this program. */
static char *preload_setting(void)
{
    char self[512], *setting = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    cr_assert_gt(n, 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    cr_assert(asprintf(&setting, "LD_PRELOAD=%s/clock_step.so", self) > 0);
    cr_assert_eq(access(strchr(setting, '=') + 1, R_OK), 0, "%s is missing", setting);
    return setting;
}

static void map_step(void)
{
    char *path = tmpdir_path(dir, "step");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    cr_assert(fd >= 0 && ftruncate(fd, sizeof(int64_t)) == 0);
    step_us = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq((void *)(uintptr_t)step_us, MAP_FAILED);
    close(fd);
    cr_assert(asprintf(&step_file, "CLOCK_STEP_FILE=%s", path) > 0);
    free(path);
}

static void setup(void)
{
    dir = tmpdir_create();
    preload = preload_setting();
    map_step();
    redis_env[0] = preload;
    redis_env[1] = step_file;
    redis = redis_fixture_create_stopped(true);
    redis_fixture_set_env(redis, redis_env);
    redis_fixture_start(redis);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
    free(preload);
    free(step_file);
    tmpdir_destroy(&dir);
}

TestSuite(cases_clock, .init = setup, .fini = teardown, .timeout = 300);

static int64_t redis_now_ms(void)
{
    redisReply *r = redis_fixture_command(redis, "TIME");
    int64_t ms = strtoll(r->element[0]->str, NULL, 10) * 1000 + strtoll(r->element[1]->str, NULL, 10) / 1000;

    freeReplyObject(r);
    return ms;
}

/* Step it, and see that it was. */
static void step_clock(int64_t by_us)
{
    int64_t before_ms = redis_now_ms();

    *step_us += by_us;
    int64_t found_ms = redis_now_ms() - before_ms - by_us / 1000;
    cr_assert(found_ms >= 0 && found_ms < 5000, "the clock of Redis was not stepped");
}

static void post(const char *id, const char *path, int delay_ms)
{
    const struct reply *r =
        client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d,\"timeout\":\"1m\"}", id,
                         sink_url(sink, path), delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static int64_t stat_of(const char *name)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, name);
}

static void start_two(void)
{
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
}

static void hold_one(void)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    post("held", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
}

static void pass_ms(int64_t ms)
{
    int64_t until_ms = wait_mono_ms() + ms;

    WAIT_UNTIL(wait_mono_ms() >= until_ms, ms + 1000);
}

static int64_t cpu_ms(const struct gateway *g)
{
    char path[64], text[1024];
    long long user = 0, system = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)proc_pid(g->proc));
    FILE *f = fopen(path, "r");
    cr_assert(f && fgets(text, sizeof(text), f));
    (void)fclose(f);
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 14; field++) /* to utime, the 14th */
        at = strchr(at + 1, ' ');
    cr_assert_not_null(at);
    user = strtoll(at, &at, 10);
    system = strtoll(at, NULL, 10);
    return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

/* All seem to have been silent for a day, the delivery under way as well; nothing is taken from the living. */
Test(cases_clock, a_step_of_a_day_forward_delivers_what_is_due_then_once_and_robs_nobody)
{
    enum { TASKS = 10 };
    char id[32], path[32];

    start_two();
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(id, sizeof(id), "due-%d", i);
        (void)snprintf(path, sizeof(path), "/due-%d", i);
        post(id, path, HOUR_MS);
    }
    hold_one();
    step_clock(DAY_US);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(id, sizeof(id), "due-%d", i);
        task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    }
    int64_t spent_ms = cpu_ms(gateway) + cpu_ms(second);
    pass_ms(CALM_MS); /* twice claim-idle */
    spent_ms = cpu_ms(gateway) + cpu_ms(second) - spent_ms;
    cr_expect_leq(spent_ms, CALM_CPU_MS, "%lld ms of CPU in %d ms", (long long)spent_ms, CALM_MS);
    cr_expect_eq(sink_count(sink, "/held"), 1, "the delivery under way was begun again");
    sink_release(sink);
    task_reaches(gateway->api, "held", "delivered", ARRIVE_MS);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(path, sizeof(path), "/due-%d", i);
        cr_expect_eq(sink_count(sink, path), 1);
    }
    cr_expect_eq(stat_of("totals.recovered"), 0);
    gateway_stop(gateway);
    gateway_stop(second);
}

Test(cases_clock, what_a_dead_gateway_held_is_recovered_after_a_step_too)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true}, {.status = 200});
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    post("held", "/held", 0);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    gateway_kill(gateway);
    step_clock(DAY_US);
    sink_wait(sink, "/held", 2, 1000 + 5000);
    task_reaches(second->api, "held", "delivered", ARRIVE_MS);
}

Test(cases_clock, a_step_back_moves_due_times_with_the_clock_and_breaks_nothing)
{
    char path[32];

    start_two();
    post("early", "/early", 1500);
    hold_one();
    step_clock(-600 * SECOND_US);
    for (int i = 0; i < 5; i++) { /* the Stream's last entry is ten minutes ahead */
        char id[32];
        (void)snprintf(id, sizeof(id), "new-%d", i);
        (void)snprintf(path, sizeof(path), "/new-%d", i);
        post(id, path, 300);
        task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    }
    pass_ms(2000);
    cr_expect_eq(sink_count(sink, "/early"), 0, "its time has not come by the clock of Redis");
    cr_expect_eq(sink_count(sink, "/held"), 1);
    step_clock(600 * SECOND_US);
    task_reaches(gateway->api, "early", "delivered", ARRIVE_MS);
    sink_release(sink);
    task_reaches(gateway->api, "held", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/early"), 1);
    cr_expect_eq(sink_count(sink, "/held"), 1);
    cr_expect_eq(stat_of("totals.recovered"), 0);
    cr_expect_eq(stat_of("totals.delivered"), 7);
}

#define CROWD 20000
#define CROWD_SLOW 4000 /* with a gateway that is instrumented */

/* No call takes them all at once, and none is forgotten. */
Test(cases_clock, twenty_thousand_tasks_due_in_one_millisecond_are_all_delivered_once)
{
    const char *url = sink_url(sink, "/crowd");
    int64_t due_ms = redis_now_ms() + HOUR_MS;
    int count = wait_scaled_ms(1) > 1 ? CROWD_SLOW : CROWD;

    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "3s", NULL);
    redis_fixture_run(redis, "CONFIG SET appendfsync no"); /* for the sake of time */
    for (int i = 0; i < count; i++) {
        const struct reply *r =
            client_post_task(gateway->api, "{\"url\":\"%s\",\"run_at\":%lld}", url, (long long)due_ms);
        cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    }
    redis_fixture_run(redis, "CONFIG RESETSTAT");
    step_clock(2 * HOUR_MS * INT64_C(1000));
    WAIT_UNTIL(stat_of("totals.delivered") == count, 60000);
    cr_expect_eq(sink_count(sink, "/crowd"), (size_t)count);
    cr_expect_eq(stat_of("totals.attempts"), count);
    redisReply *stats = redis_fixture_command(redis, "INFO commandstats");
    const char *script = strstr(stats->str, "cmdstat_evalsha:");
    const char *each = script ? strstr(script, "usec_per_call=") : NULL;
    cr_assert_not_null(each);
    double us = strtod(each + strlen("usec_per_call="), NULL);
    cr_expect_lt(us, 5000, "a script takes %.0f us", us);
    freeReplyObject(stats);
}

/* The gateway's own clock decides nothing, so it may differ from that of Redis. */
static void expect_delays_kept(int64_t skew_us)
{
    enum { TASKS = 40, DELAY_MS = 700 };
    char id[32], path[32];
    int64_t posted_us[TASKS];

    *step_us = skew_us;
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(id, sizeof(id), "t-%d", i);
        (void)snprintf(path, sizeof(path), "/t-%d", i);
        posted_us[i] = wait_wall_us();
        post(id, path, DELAY_MS);
        pass_ms(7); /* other fractions of a second */
    }
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(path, sizeof(path), "/t-%d", i);
        int64_t took_us = sink_wait(sink, path, 1, ARRIVE_MS)->arrived_us - posted_us[i];
        cr_expect_geq(took_us, DELAY_MS * 1000 - 1000, "%lld us instead of %d ms", (long long)took_us, DELAY_MS);
        cr_expect_leq(took_us, (DELAY_MS + wait_scaled_ms(1000)) * 1000, "%lld us instead of %d ms", (long long)took_us,
                      DELAY_MS);
    }
}

Test(cases_clock, delays_are_kept_with_a_redis_that_is_ahead)
{
    expect_delays_kept(5 * SECOND_US);
}

Test(cases_clock, delays_are_kept_with_a_redis_that_is_behind)
{
    expect_delays_kept(-5 * SECOND_US);
}
