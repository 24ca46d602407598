/* GET /metrics against the real binary. That Prometheus takes its text, tests/lint/metrics.sh asks promtool. */
#include "../support/gateway.h"
#include "../support/wait.h"
#include "base/buf.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(metrics, .init = setup, .fini = teardown, .timeout = 120);

/* The value behind a sample's name and labels; fails the test when there is none. */
static double sample(const char *page, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = page; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return strtod(line + n + 1, NULL);
        if (*line == '\0')
            break;
    }
    cr_assert_fail("there is no %s in %s", name, page);
    return 0;
}

static const char *metrics(void)
{
    const struct reply *r = client_get(w->api, "/metrics");

    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_str_eq(reply_header(r, "content-type"), "text/plain; version=0.0.4; charset=utf-8");
    return r->body;
}

Test(metrics, what_happened_is_counted)
{
    const char *page = NULL;

    SINK_SCRIPT(w->sink, "/bad", {.status = 500});
    (void)client_post_task(w->api, "{\"id\":\"good\",\"url\":\"%s\"}", sink_url(w->sink, "/good"));
    (void)client_post_task(w->api, "{\"id\":\"bad\",\"url\":\"%s\",\"queue\":\"q\",\"retry\":{\"max_attempts\":1}}",
                           sink_url(w->sink, "/bad"));
    (void)client_post_task(w->api, "{\"id\":\"late\",\"url\":\"%s\",\"delay\":\"1h\",\"queue\":\"q\"}",
                           sink_url(w->sink, "/good"));
    (void)task_reaches(w->api, "good", "delivered", ARRIVE_MS);
    (void)task_reaches(w->api, "bad", "dead", ARRIVE_MS);

    page = metrics();
    cr_expect_eq(sample(page, "duepost_redis_up"), 1);
    cr_expect_gt(sample(page, "duepost_redis_latency_seconds"), 0);
    cr_expect_eq(sample(page, "duepost_tasks_created_total"), 3);
    cr_expect_eq(sample(page, "duepost_attempts_total"), 2);
    cr_expect_eq(sample(page, "duepost_attempts_failed_total"), 1);
    cr_expect_eq(sample(page, "duepost_tasks_delivered_total"), 1);
    cr_expect_eq(sample(page, "duepost_tasks_dead_total"), 1);
    cr_expect_eq(sample(page, "duepost_tasks{state=\"scheduled\"}"), 1);
    cr_expect_eq(sample(page, "duepost_tasks{state=\"dead\"}"), 1);
    cr_expect_eq(sample(page, "duepost_queue_tasks{queue=\"q\",state=\"scheduled\"}"), 1);
    cr_expect_eq(sample(page, "duepost_queue_tasks{queue=\"q\",state=\"dead\"}"), 1);
    cr_expect_eq(sample(page, "duepost_queue_tasks{queue=\"default\",state=\"scheduled\"}"), 0);
    cr_expect_eq(sample(page, "duepost_tasks_overdue"), 0);
    cr_expect_eq(sample(page, "duepost_lateness_seconds_count"), 2);
    cr_expect_eq(sample(page, "duepost_lateness_seconds_bucket{le=\"+Inf\"}"), 2);
    cr_expect_gt(sample(page, "duepost_lateness_seconds_sum"), 0);
    cr_expect_eq(sample(page, "duepost_worker_in_flight"), 0);
    cr_expect_eq(sample(page, "duepost_mover_moved_total"), 2);
    cr_expect_gt(sample(page, "process_resident_memory_bytes"), 1e6);
    cr_expect_gt(sample(page, "process_open_fds"), 5);
}

Test(metrics, the_age_of_a_delivery_under_way_is_seen)
{
    SINK_SCRIPT(w->sink, "/slow", {.status = 200, .is_held = true});
    (void)client_post_task(w->api, "{\"id\":\"slow\",\"url\":\"%s\"}", sink_url(w->sink, "/slow"));
    (void)sink_wait(w->sink, "/slow", 1, ARRIVE_MS);
    WAIT_UNTIL(sample(metrics(), "duepost_oldest_delivering_seconds") > 0.2, ARRIVE_MS);
    cr_expect_eq(sample(metrics(), "duepost_tasks{state=\"delivering\"}"), 1);
    cr_expect_eq(sample(metrics(), "duepost_worker_in_flight"), 1);
    sink_release(w->sink);
    (void)task_reaches(w->api, "slow", "delivered", ARRIVE_MS);
}

Test(metrics, without_redis_the_page_comes_within_a_second_and_says_so)
{
    const struct reply *r = NULL;

    redis_fixture_pause(w->redis);
    r = client_get(w->api, "/metrics");
    redis_fixture_resume(w->redis);
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_leq(r->duration_ms, wait_scaled_ms(1000));
    cr_expect_eq(sample(r->body, "duepost_redis_up"), 0);
    cr_expect_null(strstr(r->body, "duepost_tasks_created_total"));
    cr_expect_gt(sample(r->body, "process_start_time_seconds"), 1e9);
    cr_expect_eq(sample(r->body, "duepost_worker_in_flight"), 0);
}

Test(metrics, the_page_needs_a_token_where_others_do)
{
    struct gateway *g = gateway_start(
        &(struct gateway_opts){.redis = redis_fixture_url(w->redis),
                               .env = (const char *const[]){"DUEPOST_TOKEN=full", "DUEPOST_READ_TOKEN=read", NULL}});

    cr_expect_eq(client_get(g->api, "/metrics")->status, 401);
    client_set_token(g->api, "read");
    cr_expect_eq(client_get(g->api, "/metrics")->status, 200);
    gateway_destroy(&g);
}
