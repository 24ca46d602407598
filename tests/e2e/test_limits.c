/* The limits of a queue across two gateways on one Redis, counted where it matters: at the receiver. */
#include "../support/crowd.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/meter.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GATEWAYS 2
#define ARRIVE_MS 30000
#define SECOND_US 1000000

static struct redis_fixture *redis;
static struct meter *meter;
static struct gateway *gateways[GATEWAYS];

static void setup(void)
{
    redis = redis_fixture_create(false);
    meter = meter_create(0);
    for (int i = 0; i < GATEWAYS; i++)
        gateways[i] = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
}

static void teardown(void)
{
    for (int i = 0; i < GATEWAYS; i++)
        gateway_destroy(&gateways[i]);
    meter_destroy(&meter);
    redis_fixture_destroy(&redis);
}

TestSuite(limits, .init = setup, .fini = teardown, .timeout = 900);

static struct client *api(int i)
{
    return gateways[i % GATEWAYS]->api;
}

static bool is_long(void)
{
    return getenv("DUEPOST_TEST_LONG") != NULL;
}

static void fill(const char *queue, int count, const char *more)
{
    crowd_create(api(0), &(struct crowd){.queue = queue, .url = meter_url(meter), .count = count, .more = more});
}

static void pass(int64_t ms)
{
    int64_t until = wait_mono_ms() + ms;

    WAIT_UNTIL(wait_mono_ms() >= until, ms + 5000);
}

static int64_t total(const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "totals.%s", name);
    return json_integer_at(client_get(api(0), "/stats")->json, path);
}

/* ------------------------------------------------------------------ rates */

static size_t count_between(const struct meter_arrival *a, size_t n, int64_t from_us, int64_t to_us)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += a[i].at_us >= from_us && a[i].at_us < to_us;
    return count;
}

/* How much of a time in which these tasks arrived the bucket could gather tokens: it holds a tenth of a second's worth,
 * so of each moment when this machine stands still only that counts (a bit less, for what was in it before). */
static int64_t usable_us(const struct meter_arrival *a, size_t n, int64_t from_us, int64_t to_us)
{
    int64_t sum = 0, last_us = from_us;

    for (size_t i = 0; i < n; i++) {
        if (a[i].at_us < from_us || a[i].at_us >= to_us)
            continue;
        sum += a[i].at_us - last_us < 90000 ? a[i].at_us - last_us : 90000;
        last_us = a[i].at_us;
    }
    return sum + (to_us - last_us < 90000 ? to_us - last_us : 90000);
}

#define WINDOWS 16 /* a quarter of a second apart */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Windows of this length, from when the bucket, which was full, is empty. Most hold as many as they should; none holds
 * many more, where a moment when this machine stood still has moved some from before its start into it. A build with a
 * sanitizer may fall behind for moments that no gap between arrivals shows, and loses tokens by that. */
static void expect_rate(const char *queue, double rate, int64_t window_us)
{
    struct meter_arrival *a;
    char path[32];
    double exact = rate * (double)window_us / SECOND_US, above[WINDOWS], below[WINDOWS];
    bool is_slow_build = wait_scaled_ms(1) > 1;

    (void)snprintf(path, sizeof(path), "/%s-", queue);
    size_t n = meter_arrivals(meter, path, &a);
    cr_assert_gt(n, 0);
    for (int i = 0; i < WINDOWS; i++) {
        int64_t from_us = a[0].at_us + SECOND_US + i * SECOND_US / 4, to_us = from_us + window_us;
        double count = (double)count_between(a, n, from_us, to_us);
        cr_assert_geq(a[n - 1].at_us, to_us, "%s ran dry", queue);
        above[i] = 100 * (count / exact - 1);
        below[i] = 100 * (count / (rate * (double)usable_us(a, n, from_us, to_us) / SECOND_US) - 1);
    }
    qsort(above, WINDOWS, sizeof(*above), by_size);
    qsort(below, WINDOWS, sizeof(*below), by_size);
    (void)fprintf(stderr, "%s: %.2f %% off, %.2f %% at most\n", queue, above[WINDOWS / 2], above[WINDOWS - 1]);
    cr_expect_leq(above[WINDOWS / 2], 1);
    cr_expect_geq(below[WINDOWS / 2], is_slow_build ? -4 : -1);
    cr_expect_leq(above[WINDOWS - 1], 4);
    free(a);
}

Test(limits, max_per_second_holds_within_a_percent)
{
    static const struct {
        const char *queue, *settings;
        double rate;
    } rows[] = {{"at50", "{'max_per_second':50}", 50},
                {"at200", "{'max_per_second':200}", 200},
                {"at1000", "{'max_per_second':1000}", 1000}};
    int64_t window_ms = is_long() ? 60000 : 10000;

    for (size_t i = 0; i < 3; i++) {
        crowd_put(api((int)i), rows[i].queue, rows[i].settings);
        crowd_do(api(0), rows[i].queue, "pause");
        fill(rows[i].queue, (int)(rows[i].rate * (double)(window_ms + 8000) / 1000), NULL);
    }
    for (size_t i = 0; i < 3; i++)
        crowd_do(api(0), rows[i].queue, "resume");
    pass(window_ms + 6000);
    for (size_t i = 0; i < 3; i++)
        expect_rate(rows[i].queue, rows[i].rate, window_ms * 1000);
    cr_expect_eq(total("failed_attempts"), 0);
}

Test(limits, a_new_rate_counts_at_once)
{
    static const struct {
        const char *settings;
        double rate;
    } rows[] = {{"{'max_per_second':20}", 20}, {"{'max_per_second':400}", 400}, {"{'max_per_second':40}", 40}};
    /* A rate holds from some moment of its PUT on, which may take a while: the one before is counted until that began.
     */
    int64_t from_us[3], to_us[3];

    crowd_put(api(0), "mail", "{'paused':true}");
    fill("mail", 3000, NULL);
    for (size_t i = 0; i < 3; i++) {
        crowd_put(api((int)i), "mail", rows[i].settings);
        from_us[i] = wait_wall_us();
        pass(2500);
        to_us[i] = wait_wall_us();
    }
    struct meter_arrival *a;
    size_t n = meter_arrivals(meter, "", &a);
    for (size_t i = 0; i < 3; i++) {
        size_t count = count_between(a, n, from_us[i], to_us[i]);
        int64_t span_us = to_us[i] - from_us[i], usable = usable_us(a, n, from_us[i], to_us[i]);
        double most = rows[i].rate * (double)span_us / SECOND_US;
        /* A machine that stood still excuses a quarter: a queue that did would look like it. */
        double least = rows[i].rate * (double)(usable > span_us / 4 * 3 ? usable : span_us / 4 * 3) / SECOND_US;
        /* Beside the bucket of the first one, what was on its way at a change. */
        double slack = 0.02 * most + 0.1 * rows[i].rate + 4;
        cr_expect((double)count <= most + slack && (double)count >= least - slack, "%s: %zu instead of %.0f to %.0f",
                  rows[i].settings, count, least, most);
    }
    free(a);
}

Test(limits, retries_go_through_the_limit_too)
{
    crowd_put(api(0), "mail", "{'max_per_second':40}");
    meter_set_status(meter, 500);
    fill("mail", 20, ",\"retry\":{\"schedule\":[1],\"max_attempts\":50}");
    pass(4000);
    struct meter_arrival *a;
    size_t n = meter_arrivals(meter, "", &a);
    cr_assert_gt(n, 0);
    int64_t from_us = a[0].at_us + SECOND_US;
    size_t count = count_between(a, n, from_us, from_us + 2 * SECOND_US);
    cr_expect(count >= 75 && count <= 82, "%zu attempts in two seconds", count);
    meter_set_status(meter, 200);
    WAIT_UNTIL(total("delivered") == 20, ARRIVE_MS);
    free(a);
}

Test(limits, waiting_for_a_limit_is_no_attempt)
{
    crowd_put(api(0), "mail", "{'max_per_second':100,'max_concurrency':2}");
    meter_set_hold(meter, 10);
    fill("mail", 200, ",\"retry\":{\"max_attempts\":1}");
    WAIT_UNTIL(total("delivered") == 200, ARRIVE_MS);
    cr_expect_eq(total("attempts"), 200);
    cr_expect_eq(total("failed_attempts"), 0);
    cr_expect_eq(meter_count(meter, ""), 200);
    cr_expect_leq(meter_take_peak(meter), 2);
    cr_expect_eq(json_integer_at(client_get_task(api(1), "mail-199")->json, "attempts"), 1);
}

/* ------------------------------------------------------------------ slots */

/* How full the slots were on average, from `from_us` to now, when each request is held for `hold_ms`. */
static double use_of(int slots, int64_t from_us, int hold_ms)
{
    struct meter_arrival *a;
    size_t n = meter_arrivals(meter, "", &a);
    int64_t now_us = wait_wall_us();
    double held_us = 1000.0 * hold_ms * (double)count_between(a, n, from_us, now_us);

    free(a);
    return held_us / (double)(now_us - from_us) / slots;
}

static int64_t released(const char *queue)
{
    json_t *q = crowd_queue(api(1), queue);

    return json_integer_at(q, "ready") + json_integer_at(q, "delivering");
}

Test(limits, max_concurrency_is_used_fully_and_never_exceeded)
{
    int hold_ms = 50;

    meter_set_hold(meter, hold_ms);
    crowd_put(api(0), "mail", "{'max_concurrency':8}");
    fill("mail", 3000, NULL);
    WAIT_UNTIL(meter_under_way(meter) == 8, ARRIVE_MS);
    int64_t from_us = wait_wall_us();
    pass(3000);
    double use = use_of(8, from_us, hold_ms);
    int peak = meter_take_peak(meter);
    (void)fprintf(stderr, "8 slots: used to %.1f %%, at most %d\n", 100 * use, peak);
    cr_expect_eq(peak, 8);
    cr_expect_gt(use, 0.5, "used to %.1f %%", 100 * use);
    crowd_put(api(1), "mail", "{'max_concurrency':30}");
    WAIT_UNTIL(meter_under_way(meter) == 30, ARRIVE_MS);
    pass(500);
    cr_expect_eq(meter_take_peak(meter), 30);
    crowd_put(api(0), "mail", "{'max_concurrency':3}");
    WAIT_UNTIL(released("mail") <= 3, ARRIVE_MS);
    meter_take_peak(meter);
    pass(1000);
    cr_expect_eq(meter_take_peak(meter), 3);
    crowd_put(api(0), "mail", "{}");
    WAIT_UNTIL(total("delivered") == 3000, ARRIVE_MS);
    cr_expect_eq(total("attempts"), 3000);
}

/* Both gateways hold some of the four slots when one of them dies. */
Test(limits, slots_of_a_killed_gateway_free_themselves)
{
    meter_set_hold(meter, 600000);
    crowd_put(api(0), "mail", "{'max_concurrency':6}");
    fill("mail", 100, NULL);
    WAIT_UNTIL(meter_under_way(meter) == 6, ARRIVE_MS);
    cr_assert_eq(json_integer_at(crowd_queue(api(0), "mail"), "delivering"), 6);
    gateway_kill(gateways[1]);
    meter_set_hold(meter, 20);
    WAIT_UNTIL(json_integer_at(client_get(api(0), "/stats")->json, "totals.recovered") > 0 ||
                   meter_under_way(meter) == 6,
               ARRIVE_MS);
    int left = meter_under_way(meter);
    cr_assert_leq(left, 6);
    if (left < 6) /* the dead one had some */
        WAIT_UNTIL(json_integer_at(client_get(api(0), "/stats")->json, "totals.delivered") == 100 - left, ARRIVE_MS);
    cr_expect_leq(meter_take_peak(meter), 6);
}

/* ------------------------------------------------------------------ pause */

/* The number at the end of "/mail-17". */
static int number_of(const char *path)
{
    return (int)strtol(strrchr(path, '-') + 1, NULL, 10);
}

static size_t arrived_after(int64_t from_us)
{
    struct meter_arrival *a;
    size_t n = meter_arrivals(meter, "", &a);
    size_t count = count_between(a, n, from_us, INT64_MAX);

    for (size_t i = 0; i < n; i++)
        if (a[i].at_us >= from_us)
            (void)fprintf(stderr, "%s came %lld us later\n", a[i].path, (long long)(a[i].at_us - from_us));
    free(a);
    return count;
}

/* Tasks until this many wait, the next of *created; the queue is paused. */
static void fill_up_to(int waiting, int *created)
{
    int count = waiting - (int)json_integer_at(crowd_queue(api(0), "mail"), "scheduled");

    crowd_create(api(0), &(struct crowd){.queue = "mail", .url = meter_url(meter), .from = *created, .count = count});
    *created += count;
}

/* The receiver is slow and has its share of the slots, so that tasks wait in the workers; the pause comes when the
 * first wave has filled them. The promise rests on a worker that sees within 150 ms what it was given before; one that
 * a sanitizer makes ten times slower has 200 ms more. */
Test(limits, after_the_answer_to_pause_no_attempt_begins)
{
    int64_t more_ms = wait_scaled_ms(1) > 1 ? 200 : 0;

    meter_set_hold(meter, (int)wait_scaled_ms(30)); /* slow for a slow build too */
    crowd_put(api(0), "mail", "{'paused':true}");
    for (int i = 0, created = 0; i < 10; i++) {
        size_t before = meter_count(meter, "");
        fill_up_to(15000, &created); /* more than two gateways deliver until they are paused, however fast they are */
        crowd_do(api(i), "mail", "resume");
        WAIT_UNTIL(meter_count(meter, "") > before + 1000, ARRIVE_MS);
        json_t *queue = i % 2 ? crowd_do(api(i / 2), "mail", "pause") : NULL;
        if (!queue)
            crowd_put(api(i / 2), "mail", "{'paused':true}");
        int64_t answered_us = wait_wall_us();
        pass(more_ms + 200);
        cr_assert_eq(arrived_after(answered_us + more_ms * 1000), 0, "round %d", i);
        cr_assert_gt(json_integer_at(crowd_queue(api(1), "mail"), "scheduled"), 0, "round %d ran dry", i);
        cr_assert(json_bool_at(crowd_queue(api(1), "mail"), "paused"));
        cr_assert_eq(json_integer_at(crowd_queue(api(0), "mail"), "overdue"), 0);
    }
}

/* As many slots as the gateways can always give to one receiver: without them some tasks find its share taken, and go
 * back to their lane for a while. A gateway that stands still for a moment, with half the slots, lets the other's tasks
 * pass by its own; twice in these few seconds it may. */
Test(limits, resume_drains_in_due_order)
{
    int64_t now_ms = wait_wall_ms();
    int slots = 50;

    crowd_put(api(0), "mail", "{'paused':true,'max_concurrency':50}");
    crowd_create(
        api(1), &(struct crowd){
                    .queue = "mail", .url = meter_url(meter), .count = 5000, .run_at_ms = now_ms + 1000, .step_ms = 1});
    WAIT_UNTIL(wait_wall_ms() > now_ms + 6100, ARRIVE_MS);
    cr_assert_eq(meter_count(meter, ""), 0);
    crowd_do(api(0), "mail", "resume");
    WAIT_UNTIL(meter_count(meter, "") == 5000, ARRIVE_MS);
    struct meter_arrival *a;
    size_t n = meter_arrivals(meter, "", &a);
    int farthest = 0, near = 0;
    for (size_t i = 0; i < n; i++) {
        int off = abs(number_of(a[i].path) - (int)i);
        farthest = off > farthest ? off : farthest;
        near += off <= 2 * slots;
    }
    (void)fprintf(stderr, "the farthest was %d places off\n", farthest);
    cr_expect_geq(near, 0.98 * (double)n, "%d of %zu within %d places", near, n, 2 * slots);
    free(a);
}

Test(limits, a_paused_queue_of_idle_tasks_is_paused_at_once)
{
    crowd_create(
        api(0),
        &(struct crowd){.queue = "mail", .url = meter_url(meter), .count = 10, .run_at_ms = wait_wall_ms() + 600000});
    const struct reply *r = client_post(api(0), "/queues/mail/pause", NULL);
    cr_expect_lt(r->duration_ms, 80, "%ld ms: nothing was under way", r->duration_ms);
}

/* --------------------------------------------------------------- defaults */

Test(limits, defaults_count_on_the_other_gateway_from_the_next_task)
{
    char body[96];

    for (int i = 1; i <= 100; i++) {
        (void)snprintf(body, sizeof(body), "{'retry':{'max_attempts':%d}}", i);
        crowd_put(api(i), "mail", body);
        const struct reply *r =
            client_post_task(api(i + 1), "{\"url\":\"%s/x\",\"queue\":\"mail\",\"delay\":\"1h\"}", meter_url(meter));
        cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
        cr_assert_eq(json_integer_at(r->json, "max_attempts"), i);
    }
}

Test(limits, defaults_count_member_by_member)
{
    crowd_put(api(0), "mail", "{'timeout':'300ms','retry':{'max_attempts':2,'schedule':[1]}}");
    meter_set_hold(meter, 2000);
    struct reply *r =
        client_post_task(api(1), "{\"id\":\"theirs\",\"url\":\"%s/a\",\"queue\":\"mail\"}", meter_url(meter));
    cr_assert_eq(json_integer_at(r->json, "max_attempts"), 2);
    r = client_post_task(api(1),
                         "{\"id\":\"own\",\"url\":\"%s/b\",\"queue\":\"mail\",\"timeout\":\"10s\","
                         "\"retry\":{\"max_attempts\":7}}",
                         meter_url(meter));
    cr_assert_eq(json_integer_at(r->json, "max_attempts"), 7);
    r = client_post_task(api(1), "{\"id\":\"other\",\"url\":\"%s/c\",\"queue\":\"other\"}", meter_url(meter));
    cr_assert_eq(json_integer_at(r->json, "max_attempts"), 10);
    json_t *dead = task_reaches(api(0), "theirs", "dead", ARRIVE_MS);
    cr_expect_eq(json_integer_at(dead, "attempts"), 2, "by the schedule of the queue");
    task_reaches(api(0), "own", "delivered", ARRIVE_MS);
    cr_expect_eq(meter_count(meter, "/a"), 2);
    cr_expect_eq(meter_count(meter, "/b"), 1);
}
