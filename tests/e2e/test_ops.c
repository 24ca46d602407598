/* The calls for operators: health, readiness, the OpenAPI file, and every member of /stats with its number. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
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

TestSuite(ops, .init = setup, .fini = teardown, .timeout = 300);

static void post(const char *id, const char *path, const char *more)
{
    const struct reply *r =
        client_post_task(w->api, "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, sink_url(w->sink, path), more);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static json_t *stats(void)
{
    const struct reply *r = client_get(w->api, "/stats");

    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_assert_str_eq(reply_header(r, "content-type"), "application/json");
    return r->json;
}

Test(ops, a_running_gateway_is_live_and_ready)
{
    cr_assert_eq(client_get(w->api, "/healthz")->status, 200);
    cr_assert_eq(client_get(w->api, "/readyz")->status, 200);
}

Test(ops, the_served_contract_is_the_file)
{
    const struct reply *r = client_get(w->api, "/openapi.yaml");
    FILE *f = fopen("api/openapi.yaml", "r");
    char *line = NULL;
    size_t size = 0, offset = 0;

    cr_assert_not_null(f, "api/openapi.yaml is not here: tests run in the folder of the repository");
    cr_assert_eq(r->status, 200);
    for (ssize_t n; (n = getline(&line, &size, f)) > 0; offset += (size_t)n)
        cr_assert_eq(strncmp(r->body + offset, line, (size_t)n), 0, "served otherwise: %s", line);
    cr_assert_eq(offset, r->body_bytes);
    free(line);
    cr_assert_eq(fclose(f), 0);
}

Test(ops, stats_of_an_idle_gateway_have_every_member)
{
    static const char *const integers[] = {"uptime_ms",
                                           "tasks.scheduled",
                                           "tasks.overdue",
                                           "tasks.ready",
                                           "tasks.delivering",
                                           "tasks.dead",
                                           "totals.created",
                                           "totals.duplicates",
                                           "totals.attempts",
                                           "totals.delivered",
                                           "totals.failed_attempts",
                                           "totals.retried",
                                           "totals.dead",
                                           "totals.cancelled",
                                           "totals.expired",
                                           "totals.redriven",
                                           "totals.recovered",
                                           "totals.orphans",
                                           "totals.trimmed",
                                           "totals.callbacks",
                                           "lateness_ms.count",
                                           "mover.last_run_ms_ago",
                                           "mover.moved",
                                           "workers.threads",
                                           "workers.in_flight",
                                           "workers.capacity",
                                           "redis.used_memory_bytes"};
    static const char *const zero[] = {"tasks.scheduled", "tasks.overdue",     "tasks.ready",       "tasks.delivering",
                                       "tasks.dead",      "totals.created",    "totals.attempts",   "totals.delivered",
                                       "totals.dead",     "lateness_ms.count", "workers.in_flight", "mover.moved"};
    json_t *s = stats();

    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
        cr_expect_geq(json_integer_at(s, integers[i]), 0, "%s", integers[i]);
    for (size_t i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
        cr_expect_eq(json_integer_at(s, zero[i]), 0, "%s", zero[i]);
    cr_expect(json_null_at(s, "tasks.oldest_overdue_ms"));
    cr_expect(json_null_at(s, "tasks.oldest_delivering_ms"));
    cr_expect(json_null_at(s, "mover.next_due_in_ms"));
    cr_expect_eq(json_object_size(json_at(s, "queues")), 0);
    cr_expect(json_bool_at(s, "redis.up"));
    cr_expect_gt(strlen(json_text_at(s, "redis.version")), 0);
    cr_expect_gt(strlen(json_text_at(s, "redis.mode")), 0);
    cr_expect_geq(json_number_at(s, "redis.rtt_ms"), 0);
    cr_expect_eq(json_integer_at(s, "workers.capacity"), 256);
    cr_expect_geq(json_integer_at(s, "workers.threads"), 1);
    cr_expect_gt(strlen(json_text_at(s, "version")), 0);
    int64_t clock_gap_ms = json_time_at(s, "now") - wait_wall_ms();
    cr_expect(clock_gap_ms <= 0 && clock_gap_ms > -wait_scaled_ms(5000), "now is %lld ms off", (long long)clock_gap_ms);
}

Test(ops, stats_count_each_outcome_once)
{
    SINK_SCRIPT(w->sink, "/flaky", {.status = 500}, {.status = 200});
    SINK_SCRIPT(w->sink, "/bad", {.status = 500});
    post("fine", "/fine", "");
    post("flaky", "/flaky", ",\"queue\":\"other\",\"retry\":{\"schedule\":[1]}");
    post("bad", "/bad", ",\"retry\":{\"schedule\":[1],\"max_attempts\":3}");
    post("later", "/later", ",\"delay\":\"1h\"");
    post("never", "/never", ",\"delay\":\"1h\"");
    cr_assert_eq(client_delete_task(w->api, "never")->status, 204);
    task_reaches(w->api, "fine", "delivered", ARRIVE_MS);
    task_reaches(w->api, "flaky", "delivered", ARRIVE_MS);
    task_reaches(w->api, "bad", "dead", ARRIVE_MS);
    json_t *s = stats();

    cr_expect_eq(json_integer_at(s, "totals.created"), 5);
    cr_expect_eq(json_integer_at(s, "totals.duplicates"), 0);
    cr_expect_eq(json_integer_at(s, "totals.attempts"), 6);
    cr_expect_eq(json_integer_at(s, "totals.delivered"), 2);
    cr_expect_eq(json_integer_at(s, "totals.failed_attempts"), 4);
    cr_expect_eq(json_integer_at(s, "totals.retried"), 3);
    cr_expect_eq(json_integer_at(s, "totals.dead"), 1);
    cr_expect_eq(json_integer_at(s, "totals.cancelled"), 1);
    cr_expect_eq(json_integer_at(s, "totals.expired"), 0);
    cr_expect_eq(json_integer_at(s, "totals.recovered"), 0);
    cr_expect_eq(json_integer_at(s, "tasks.scheduled"), 1);
    cr_expect_eq(json_integer_at(s, "tasks.ready"), 0);
    cr_expect_eq(json_integer_at(s, "tasks.delivering"), 0);
    cr_expect_eq(json_integer_at(s, "tasks.dead"), 1);
    cr_expect_eq(json_integer_at(s, "queues.default.scheduled"), 1);
    cr_expect_eq(json_integer_at(s, "queues.default.dead"), 1);
    cr_expect_eq(json_integer_at(s, "queues.other.scheduled"), 0);
    cr_expect_eq(json_integer_at(s, "lateness_ms.count"), 6);
    int64_t due_in_ms = json_integer_at(s, "mover.next_due_in_ms");
    cr_expect(due_in_ms > 3500000 && due_in_ms <= 3600000, "next due in %lld ms", (long long)due_in_ms);
}

Test(ops, stats_show_what_is_under_way)
{
    SINK_SCRIPT(w->sink, "/held", {.status = 200, .is_held = true});
    post("one", "/held", ",\"queue\":\"slow\"");
    post("two", "/held", ",\"queue\":\"slow\"");
    sink_wait(w->sink, "/held", 2, ARRIVE_MS);
    json_t *s = stats();

    cr_expect_eq(json_integer_at(s, "tasks.delivering"), 2);
    cr_expect_eq(json_integer_at(s, "queues.slow.delivering"), 2);
    cr_expect_geq(json_integer_at(s, "tasks.oldest_delivering_ms"), 0);
    cr_expect_eq(json_integer_at(s, "workers.in_flight"), 2);
    cr_expect_eq(json_integer_at(s, "tasks.ready"), 0);
    cr_expect_eq(json_integer_at(s, "tasks.overdue"), 0);
    WAIT_UNTIL(json_integer_at(stats(), "tasks.oldest_delivering_ms") >= 100, ARRIVE_MS);
    sink_release(w->sink);
    WAIT_UNTIL(json_integer_at(stats(), "tasks.delivering") == 0, ARRIVE_MS);
    cr_expect(json_null_at(stats(), "tasks.oldest_delivering_ms"));
}

Test(ops, percentiles_of_lateness_are_in_order)
{
    for (int i = 0; i < 50; i++) {
        char id[32], more[64];
        (void)snprintf(id, sizeof(id), "late-%d", i);
        (void)snprintf(more, sizeof(more), ",\"delay\":%d", i);
        post(id, "/late", more);
    }
    sink_wait(w->sink, "/late", 50, ARRIVE_MS);
    WAIT_UNTIL(json_integer_at(stats(), "lateness_ms.count") == 50, ARRIVE_MS);
    json_t *s = stats();
    double p50 = json_number_at(s, "lateness_ms.p50"), p99 = json_number_at(s, "lateness_ms.p99");
    double p999 = json_number_at(s, "lateness_ms.p999"), max = json_number_at(s, "lateness_ms.max");

    cr_expect(p50 >= 0 && p50 <= p99 && p99 <= p999 && p999 <= max, "%f %f %f %f", p50, p99, p999, max);
    cr_expect_geq(json_integer_at(s, "mover.moved"), 1);
}

Test(ops, an_idle_gateway_leaves_redis_alone)
{
    post("first", "/first", "");
    task_reaches(w->api, "first", "delivered", ARRIVE_MS);
    /* Two looks, two seconds of Redis apart; what the looking itself costs is a handful. */
    long long before = redis_fixture_info(w->redis, "total_commands_processed");
    int64_t until_ms = wait_mono_ms() + 2000;
    WAIT_UNTIL(wait_mono_ms() >= until_ms, 3000);
    long long spent = redis_fixture_info(w->redis, "total_commands_processed") - before;

    cr_assert_leq(spent, 20, "%lld commands in two idle seconds", spent);
}
