/* Tasks that tell how they ended: whom, what, and once. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/lua_ends.h"
#include "../support/wait.h"
#include "task/signature.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARRIVE_MS 15000
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;

static void setup(void)
{
    redis = redis_fixture_create(true);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
}

TestSuite(callbacks, .init = setup, .fini = teardown, .timeout = 300);

static void start(void)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

/* A task that is sent to /ID and calls back /ID-good or /ID-bad. */
static void post(struct gateway *g, const char *id, const char *more_members)
{
    char url[3][200];
    static const char *const ends[] = {"", "-good", "-bad"};
    const struct reply *r;

    for (int i = 0; i < 3; i++) {
        char path[80];
        (void)snprintf(path, sizeof(path), "/%s%s", id, ends[i]);
        (void)snprintf(url[i], sizeof(url[i]), "%s", sink_url(sink, path));
    }
    r = client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\",\"on_success\":\"%s\",\"on_failure\":\"%s\"%s}", id,
                         url[0], url[1], url[2], more_members);
    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static int64_t stat_at(const char *path)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, path);
}

static bool is_settled(void)
{
    json_t *stats = client_get(gateway->api, "/stats")->json;

    return json_integer_at(stats, "tasks.scheduled") == 0 && json_integer_at(stats, "tasks.ready") == 0 &&
           json_integer_at(stats, "tasks.delivering") == 0 &&
           redis_fixture_integer(redis, "EXISTS duepost{0}:callbacks") == 0;
}

/* The news, checked against the task as the API shows it. Borrowed. */
static const struct sink_request *expect_news(const char *path, size_t n, const char *id, const char *state)
{
    const struct sink_request *q = sink_wait(sink, path, n, ARRIVE_MS);
    json_t *body = json_loads(q->body, JSON_REJECT_DUPLICATES, NULL);
    json_t *task = client_get_task(gateway->api, id)->json;
    char type[40];

    (void)snprintf(type, sizeof(type), "task.%s", state);
    cr_assert_not_null(body, "%s", q->body);
    cr_expect_eq(json_object_size(body), 3);
    cr_expect_str_eq(json_text_at(body, "type"), type);
    cr_expect_str_eq(json_text_at(body, "timestamp"), json_text_at(task, "finished_at"));
    cr_expect_str_eq(json_text_at(body, "data.id"), id);
    cr_expect_str_eq(json_text_at(body, "data.state"), state);
    cr_expect_eq(json_integer_at(body, "data.attempts"), json_integer_at(task, "attempts"));
    cr_expect_null(json_at(body, "data.headers"), "%s", q->body);
    cr_expect_str_eq(q->method, "POST");
    cr_expect_str_eq(sink_header(q, "content-type"), "application/json");
    json_decref(body);
    return q;
}

/* ------------------------------------------------------- whom, and what */

Test(callbacks, success_is_told_by_a_task_of_its_own)
{
    start();
    post(gateway, "a",
         ",\"queue\":\"mail\",\"timeout\":\"3s\",\"retry\":{\"max_attempts\":2},\"headers\":{\"X-A\":\"b\"}");
    task_reaches(gateway->api, "a", "delivered", ARRIVE_MS);
    const struct sink_request *q = expect_news("/a-good", 1, "a", "delivered");
    const char *id = sink_header(q, "webhook-id");
    cr_expect_str_eq(sink_header(q, "duepost-queue"), "mail");
    cr_expect_null(sink_header(q, "x-a"), "%s", q->head);
    json_t *task = task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    cr_expect_str_eq(json_text_at(task, "queue"), "mail");
    cr_expect_eq(json_integer_at(task, "max_attempts"), 10, "every default");
    cr_expect(json_null_at(task, "on_success") && json_null_at(task, "on_failure"));
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/a-good"), 1);
    cr_expect_eq(sink_count(sink, "/a-bad"), 0);
    cr_expect_eq(stat_at("totals.created"), 2);
    cr_expect_eq(stat_at("totals.callbacks"), 1);
}

Test(callbacks, failure_is_told_when_a_task_dies_or_expires)
{
    start();
    SINK_SCRIPT(sink, "/dead", {.status = 500});
    SINK_SCRIPT(sink, "/gone", {.status = 410});
    post(gateway, "dead", ",\"retry\":{\"max_attempts\":2,\"initial\":1}");
    post(gateway, "gone", "");
    post(gateway, "late", ",\"delay\":\"1h\",\"expires_in\":50");
    expect_news("/dead-bad", 1, "dead", "dead");
    expect_news("/gone-bad", 1, "gone", "dead");
    expect_news("/late-bad", 1, "late", "expired");
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(stat_at("totals.callbacks"), 3);
    cr_expect_eq(sink_count(sink, "/late"), 0);
    cr_expect_eq(sink_count(sink, "/dead-good") + sink_count(sink, "/gone-good") + sink_count(sink, "/late-good"), 0);
}

Test(callbacks, a_cancelled_task_tells_nobody)
{
    start();
    SINK_SCRIPT(sink, "/held", {.status = 500, .is_held = true});
    post(gateway, "cancelled", ",\"delay\":\"1h\"");
    post(gateway, "held", "");
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    cr_expect_eq(client_delete_task(gateway->api, "cancelled")->status, 204);
    cr_expect_eq(client_delete_task(gateway->api, "held")->status, 202);
    sink_release(sink);
    task_reaches(gateway->api, "held", "cancelled", ARRIVE_MS);
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(stat_at("totals.callbacks"), 0);
    cr_expect_eq(stat_at("totals.created"), 2);
}

Test(callbacks, only_the_end_that_was_asked_for_is_told)
{
    const char *url;

    start();
    url = sink_url(sink, "/told");
    SINK_SCRIPT(sink, "/dead", {.status = 410});
    client_post_task(gateway->api, "{\"id\":\"good\",\"url\":\"%s\",\"on_failure\":\"%s\"}", sink_url(sink, "/ok"),
                     url);
    client_post_task(gateway->api, "{\"id\":\"bad\",\"url\":\"%s\",\"on_success\":\"%s\"}", sink_url(sink, "/dead"),
                     url);
    task_reaches(gateway->api, "good", "delivered", ARRIVE_MS);
    task_reaches(gateway->api, "bad", "dead", ARRIVE_MS);
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/told"), 0);
    cr_expect_eq(stat_at("totals.callbacks"), 0);
}

Test(callbacks, the_urls_are_shown_and_checked_like_the_url)
{
    start();
    post(gateway, "a", ",\"delay\":\"1h\"");
    json_t *task = client_get_task(gateway->api, "a")->json;
    cr_expect_str_eq(json_text_at(task, "on_success"), sink_url(sink, "/a-good"));
    cr_expect_str_eq(json_text_at(task, "on_failure"), sink_url(sink, "/a-bad"));
    const struct reply *r = client_post_task(gateway->api,
                                             "{\"url\":\"%s\",\"on_success\":\"http://10.0.0.1/\","
                                             "\"on_failure\":\"gopher://x/\"}",
                                             sink_url(sink, "/b"));
    cr_expect_eq(r->status, 400);
    cr_expect_str_eq(json_text_at(r->json, "errors.0.pointer"), "/on_success");
    cr_expect_str_eq(json_text_at(r->json, "errors.1.pointer"), "/on_failure");
}

Test(callbacks, the_news_are_signed_and_keep_the_trace)
{
    const char *const headers[] = {"traceparent: " TRACE, NULL};
    char body[400];
    struct signature_secrets secrets;
    size_t bad = 0;

    const char *const env[] = {"DUEPOST_SIGNING_SECRET=" SECRET, NULL};
    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .env = env});
    (void)snprintf(body, sizeof(body), "{\"id\":\"a\",\"url\":\"%s\",", sink_url(sink, "/a"));
    (void)snprintf(body + strlen(body), sizeof(body) - strlen(body), "\"on_success\":\"%s\"}", sink_url(sink, "/told"));
    const struct client_request post = {.method = "POST", .path = "/tasks", .body = body, .headers = headers};
    cr_assert_eq(client_request(gateway->api, &post)->status, 201);
    const struct sink_request *q = expect_news("/told", 1, "a", "delivered");
    cr_expect_str_eq(sink_header(q, "traceparent"), TRACE);
    cr_assert_eq(signature_secrets_parse(SECRET, &secrets, &bad), ERR_OK);
    cr_expect(signature_verify(&secrets, sink_header(q, "webhook-signature"), sink_header(q, "webhook-id"),
                               sink_header(q, "webhook-timestamp"), q->body, q->body_bytes),
              "%s", q->head);
    signature_secrets_deinit(&secrets);
}

/* -------------------------------------------------- tasks like any other */

Test(callbacks, news_that_do_not_get_through_are_tried_again_and_call_nobody)
{
    start();
    SINK_SCRIPT(sink, "/a-good", {.status = 503}, {.status = 200});
    SINK_SCRIPT(sink, "/b-good", {.status = 410});
    post(gateway, "a", "");
    post(gateway, "b", "");
    expect_news("/a-good", 2, "a", "delivered");
    expect_news("/b-good", 1, "b", "delivered");
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(stat_at("totals.callbacks"), 2);
    cr_expect_eq(stat_at("totals.dead"), 1);
    cr_expect_eq(sink_count(sink, "/b-bad"), 0);
}

static void do_queue(const char *action)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "/queues/default/%s", action);
    const struct reply *r = client_request(gateway->api, &(struct client_request){.method = "POST", .path = path});
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
}

Test(callbacks, they_wait_with_a_paused_queue)
{
    start();
    post(gateway, "before", "");
    task_reaches(gateway->api, "before", "delivered", ARRIVE_MS);
    expect_news("/before-good", 1, "before", "delivered");
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    do_queue("pause");
    post(gateway, "late", ",\"expires_in\":50");
    task_reaches(gateway->api, "late", "expired", ARRIVE_MS);
    WAIT_UNTIL(stat_at("totals.callbacks") == 2, ARRIVE_MS);
    cr_expect_eq(stat_at("tasks.scheduled"), 1);
    cr_expect_eq(sink_count(sink, "/late-bad"), 0);
    do_queue("resume");
    expect_news("/late-bad", 1, "late", "expired");
}

Test(callbacks, they_are_made_also_when_too_many_are_pending)
{
    gateway = gateway_run(redis_fixture_url(redis), "--max-pending", "1", NULL);
    SINK_SCRIPT(sink, "/a", {.status = 200, .is_held = true});
    post(gateway, "a", "");
    sink_wait(sink, "/a", 1, ARRIVE_MS);
    SINK_SCRIPT(sink, "/a-good", {.status = 200});
    sink_release(sink);
    expect_news("/a-good", 1, "a", "delivered");
}

Test(callbacks, a_redriven_task_tells_its_next_end)
{
    start();
    SINK_SCRIPT(sink, "/a", {.status = 410}, {.status = 200});
    post(gateway, "a", "");
    expect_news("/a-bad", 1, "a", "dead");
    const struct reply *r =
        client_request(gateway->api, &(struct client_request){.method = "POST", .path = "/tasks/a/redrive"});
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    task_reaches(gateway->api, "a", "delivered", ARRIVE_MS);
    expect_news("/a-good", 1, "a", "delivered");
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(stat_at("totals.callbacks"), 2);
}

Test(callbacks, a_large_payload_is_not_told)
{
    char *body = malloc(900000);

    start();
    int n = snprintf(body, 900000, ",\"body\":\"%0800000d\"", 0);
    cr_assert_lt(n, 900000);
    SINK_SCRIPT(sink, "/big", {.status = 410});
    char *request = malloc(1000000);
    (void)snprintf(request, 1000000, "{\"id\":\"big\",\"url\":\"%s\"", sink_url(sink, "/big"));
    size_t at = strlen(request);
    (void)snprintf(request + at, 1000000 - at, ",\"on_failure\":\"%s\"%s}", sink_url(sink, "/told"), body);
    cr_assert_eq(client_post(gateway->api, "/tasks", request)->status, 201);
    const struct sink_request *q = expect_news("/told", 1, "big", "dead");
    cr_expect_lt(q->body_bytes, 1000, "%zu bytes", q->body_bytes);
    free(request);
    free(body);
}

/* ------------------------------------------------------- once, whatever */

#define CROWD 500

static void expect_once_each(int count)
{
    char path[40];

    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "/t%d-good", i);
        cr_expect_eq(sink_count(sink, path), 1, "%s was told %zu times", path, sink_count(sink, path));
    }
}

Test(callbacks, two_gateways_make_each_once)
{
    char id[32];

    start();
    second = gateway_run(redis_fixture_url(redis), NULL);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        post(i % 2 == 0 ? gateway : second, id, "");
    }
    WAIT_UNTIL(stat_at("totals.callbacks") == CROWD && is_settled(), 30000);
    expect_once_each(CROWD);
    cr_expect_eq(stat_at("totals.created"), 2 * CROWD);
    cr_expect_eq(stat_at("totals.delivered"), 2 * CROWD);
}

/* The task has ended and its gateway is dead before it could make the callback: the next one does. */
Test(callbacks, an_end_without_a_gateway_is_told_by_the_next_one)
{
    struct lua_fixture *lua;
    struct lua_entry e;

    start();
    gateway_kill(gateway);
    gateway_destroy(&gateway);
    lua = lua_fixture_attach(redis);
    e = lua_start_ending(
        lua, &(struct lua_ending){.id = "a", .due = "+0", .queue = "mail", .on_success = sink_url(sink, "/told")});
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    lua_fixture_destroy(&lua);
    /* Past its retention too: its record stays until then. */
    gateway = gateway_run(redis_fixture_url(redis), "--retention-delivered", "1ms", NULL);
    const struct sink_request *q = sink_wait(sink, "/told", 1, ARRIVE_MS);
    cr_expect_not_null(strstr(q->body, "\"type\":\"task.delivered\""), "%s", q->body);
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/told"), 1);
    cr_expect_eq(stat_at("totals.callbacks"), 1);
}

#define KILLS 12
#define A_KILL 40

/* Killed at any moment between an attempt and the callback of its end. Attempts may be repeated, as ever; but each task
 * makes its callback once. */
Test(callbacks, gateways_killed_under_load_lose_none_and_make_none_twice)
{
    char id[32], path[40];
    int posted = 0;
    size_t told = 0;

    for (int k = 0; k < KILLS; k++) {
        gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
        for (int i = 0; i < A_KILL; i++, posted++) {
            (void)snprintf(id, sizeof(id), "t%d", posted);
            post(gateway, id, "");
        }
        /* Each time a little later, so that it meets each step. */
        nanosleep(&(struct timespec){.tv_nsec = k * 1500000}, NULL);
        gateway_kill(gateway);
        gateway_destroy(&gateway);
    }
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    WAIT_UNTIL(stat_at("totals.callbacks") == posted && is_settled(), 30000);
    for (int i = 0; i < posted; i++) {
        (void)snprintf(path, sizeof(path), "/t%d-good", i);
        cr_expect_geq(sink_count(sink, path), 1, "%s was not told", path);
        told += sink_count(sink, path);
    }
    cr_expect_eq(stat_at("totals.callbacks"), posted);
    cr_expect_eq(stat_at("totals.created"), 2 * posted);
    cr_expect_leq((int64_t)told - posted, stat_at("totals.recovered"), "%zu repeats and fewer recoveries",
                  told - posted);
}
