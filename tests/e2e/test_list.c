/* GET /tasks against the real binary: pages in every state, by queue and over all of them, in order, each task once. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include "base/buf.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define PAGES_MAX 2000

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(list, .init = setup, .fini = teardown, .timeout = 300);

static void create(const char *id, const char *queue, const char *path, int delay_ms)
{
    const struct reply *r = client_post_task(
        w->api, "{\"id\":\"%s\",\"queue\":\"%s\",\"url\":\"%s\",\"delay\":%d,\"retry\":{\"max_attempts\":1}}", id,
        queue, sink_url(w->sink, path), delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

/* All pages of a list: the ids in order, each with a blank behind it; free(). */
static char *ids_of(const char *query, int *pages)
{
    struct buf all;
    char path[600];
    char cursor[300] = "";

    buf_init(&all, 1 << 24);
    for (*pages = 0; *pages < PAGES_MAX; (*pages)++) {
        (void)snprintf(path, sizeof(path), "/tasks?%s%s%s", query, cursor[0] ? "&cursor=" : "", cursor);
        const struct reply *r = client_get(w->api, path);
        const json_t *tasks = json_object_get(r->json, "tasks");
        const json_t *next = json_object_get(r->json, "next_cursor");

        cr_assert_eq(r->status, 200, "%s: %d %s", path, r->status, r->body);
        cr_assert(json_is_array(tasks), "%s", r->body);
        for (size_t i = 0; i < json_array_size(tasks); i++)
            buf_printf(&all, "%s ", json_string_value(json_object_get(json_array_get(tasks, i), "id")));
        if (json_is_null(next))
            break;
        cr_assert(json_is_string(next), "%s", r->body);
        (void)snprintf(cursor, sizeof(cursor), "%s", json_string_value(next));
    }
    cr_assert_lt(*pages, PAGES_MAX, "the pages of %s do not end", query);
    (*pages)++;
    return buf_take(&all, NULL);
}

static void expect_list(const char *query, const char *want)
{
    int pages = 0;
    char *ids = ids_of(query, &pages);

    cr_expect_str_eq(ids, want, "%s gives \"%s\", not \"%s\"", query, ids, want);
    free(ids);
}

Test(list, an_empty_gateway_has_no_tasks)
{
    const struct reply *r = client_get(w->api, "/tasks");

    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_eq(json_array_size(json_object_get(r->json, "tasks")), 0);
    cr_expect(json_is_null(json_object_get(r->json, "next_cursor")));
}

Test(list, scheduled_tasks_come_in_due_order_over_all_queues_and_by_queue)
{
    create("c", "x", "/", 300000);
    create("a", "y", "/", 100000);
    create("b", "x", "/", 200000);
    create("d", "z", "/", 400000);
    expect_list("state=scheduled", "a b c d ");
    expect_list("state=scheduled&limit=1", "a b c d ");
    expect_list("state=scheduled&limit=3", "a b c d ");
    expect_list("state=scheduled&queue=x", "b c ");
    expect_list("state=scheduled&queue=x&limit=1", "b c ");
    expect_list("state=scheduled&queue=none", "");
    expect_list("limit=2", "a b c d ");
    expect_list("state=dead", "");
}

Test(list, tasks_of_one_instant_are_paged_each_once)
{
    enum { COUNT = 500 };
    struct buf want;
    int pages = 0;

    buf_init(&want, 1 << 20);
    for (int i = 0; i < COUNT; i++) {
        const struct reply *r = client_post_task(
            w->api, "{\"id\":\"t%03d\",\"queue\":\"%s\",\"url\":\"%s\",\"run_at\":\"2034-01-01T00:00:00Z\"}", i,
            i % 3 ? "one" : "two", sink_url(w->sink, "/"));
        cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
        buf_printf(&want, "t%03d ", i);
    }
    for (int limit = 7; limit <= 500; limit = limit * 5 + 1) {
        char query[64];

        (void)snprintf(query, sizeof(query), "state=scheduled&limit=%d", limit);
        char *ids = ids_of(query, &pages);
        cr_expect_str_eq(ids, want.data, "limit %d", limit);
        free(ids);
    }
    buf_deinit(&want);
}

Test(list, pages_of_many_queues_are_merged)
{
    enum { QUEUES = 300 };
    struct buf want;
    int pages = 0;

    buf_init(&want, 1 << 20);
    for (int i = 0; i < QUEUES; i++) {
        char id[16], queue[16];

        (void)snprintf(id, sizeof(id), "t%03d", i);
        (void)snprintf(queue, sizeof(queue), "q%d", i * 7 % QUEUES);
        create(id, queue, "/", 1000000 + 1000 * i);
        buf_printf(&want, "%s ", id);
    }
    char *ids = ids_of("state=scheduled&limit=40", &pages);
    cr_expect_str_eq(ids, want.data);
    cr_expect_geq(pages, QUEUES / 40);
    free(ids);
    buf_deinit(&want);
}

Test(list, finished_tasks_come_as_they_ended_by_state_and_queue)
{
    SINK_SCRIPT(w->sink, "/bad", {.status = 500});
    create("good-1", "x", "/good", 0);
    (void)task_reaches(w->api, "good-1", "delivered", ARRIVE_MS);
    create("bad-1", "y", "/bad", 0);
    (void)task_reaches(w->api, "bad-1", "dead", ARRIVE_MS);
    create("bad-2", "x", "/bad", 0);
    (void)task_reaches(w->api, "bad-2", "dead", ARRIVE_MS);
    create("good-2", "y", "/good", 0);
    (void)task_reaches(w->api, "good-2", "delivered", ARRIVE_MS);
    create("late", "x", "/good", 100000);
    create("no", "x", "/good", 100000);
    cr_assert_eq(client_delete_task(w->api, "no")->status, 204);

    expect_list("state=delivered", "good-1 good-2 ");
    expect_list("state=dead&limit=1", "bad-1 bad-2 ");
    expect_list("state=dead&queue=x", "bad-2 ");
    expect_list("state=delivered&queue=y&limit=1", "good-2 ");
    expect_list("state=cancelled", "no ");
    expect_list("state=expired", "");
    expect_list("", "late good-1 good-2 bad-1 bad-2 no ");
    expect_list("limit=1", "late good-1 good-2 bad-1 bad-2 no ");
    expect_list("queue=x", "late good-1 bad-2 no ");
}

Test(list, tasks_under_way_are_listed)
{
    SINK_SCRIPT(w->sink, "/slow", {.status = 200, .is_held = true});
    create("one", "x", "/slow", 0);
    create("two", "y", "/slow", 0);
    sink_wait(w->sink, "/slow", 2, ARRIVE_MS);

    int pages = 0;
    char *ids = ids_of("state=delivering&limit=1", &pages);
    cr_expect(strcmp(ids, "one two ") == 0 || strcmp(ids, "two one ") == 0, "%s", ids);
    free(ids);
    expect_list("state=delivering&queue=y", "two ");
    expect_list("state=ready", "");
    sink_release(w->sink);
    (void)task_reaches(w->api, "two", "delivered", ARRIVE_MS);
    (void)task_reaches(w->api, "one", "delivered", ARRIVE_MS);
    expect_list("state=delivering", "");
}

Test(list, a_listed_task_is_the_summary_that_every_answer_has)
{
    const struct reply *r = client_post_task(
        w->api,
        "{\"id\":\"big\",\"url\":\"%s\",\"delay\":\"1h\",\"headers\":{\"X-A\":\"%01000d\"},\"body\":\"%060000d\"}",
        sink_url(w->sink, "/"), 1, 2);
    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    json_t *created = json_incref(r->json);
    (void)json_object_del(created, "durable");
    const json_t *listed = json_array_get(json_object_get(client_get(w->api, "/tasks")->json, "tasks"), 0);
    cr_expect(json_equal(created, listed));
    json_decref(created);
}

Test(list, a_wrong_query_is_refused_parameter_by_parameter)
{
    static const struct {
        const char *query;
        const char *parameter;
    } rows[] = {
        {"state=sleeping", "state"},
        {"state=", "state"},
        {"queue=UPPER", "queue"},
        {"queue=", "queue"},
        {"limit=0", "limit"},
        {"limit=501", "limit"},
        {"limit=-1", "limit"},
        {"limit=ten", "limit"},
        {"limit=1.0", "limit"},
        {"limit=99999999999999999999", "limit"},
        {"cursor=", "cursor"},
        {"cursor=nonsense", "cursor"},
        {"cursor=scheduled.12", "cursor"},
        {"cursor=scheduled.12.", "cursor"},
        {"cursor=scheduled.1e3.a", "cursor"},
        {"cursor=scheduled.-1.a", "cursor"},
        {"cursor=scheduled.12.a%20b", "cursor"},
        {"cursor=ready.12", "cursor"},
        {"cursor=ready.12-", "cursor"},
        {"cursor=ready.12-1.a", "cursor"},
        {"state=dead&cursor=scheduled.12.a", "cursor"},
        {"order=due", "order"},
        {"limit=5&limit=5", "limit"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char path[200];

        (void)snprintf(path, sizeof(path), "/tasks?%s", rows[i].query);
        const struct reply *r = client_get(w->api, path);
        const json_t *first = json_array_get(json_object_get(r->json, "errors"), 0);
        const char *parameter = json_string_value(json_object_get(first, "parameter"));

        cr_expect_eq(r->status, 400, "%s: %d %s", rows[i].query, r->status, r->body);
        cr_expect(parameter && strcmp(parameter, rows[i].parameter) == 0, "%s: %s", rows[i].query, r->body);
    }
}

Test(list, without_redis_the_answer_is_503_within_bounds)
{
    redis_fixture_kill(w->redis);
    const struct reply *r = client_get(w->api, "/tasks");
    cr_expect_eq(r->status, 503, "%d %s", r->status, r->body);
    cr_expect_not_null(reply_header(r, "retry-after"));
    cr_expect_leq(r->duration_ms, 4000);
}
