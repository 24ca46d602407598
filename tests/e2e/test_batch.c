/* POST /tasks/batch against the real binary: each task has its own outcome, and it is that of a POST of its own. */
#include "../support/batch.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 20000
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(true);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(batch, .init = setup, .fini = teardown, .timeout = 300);

static void start(const char *option, const char *value)
{
    gateway = gateway_run(redis_fixture_url(redis), option, value, NULL);
}

static json_int_t stat_at(const char *path)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, path);
}

/* ---- outcomes ---- */

Test(batch, each_task_has_its_own_result_in_order)
{
    static const json_int_t statuses[] = {201, 200, 409, 400, 400, 201};
    struct text body = {0};

    start("--threads", "1");
    text_put(&body, "{\"tasks\":[{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"},");
    text_put(&body, "{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"},");
    text_put(&body, "{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"2h\"},");
    text_put(&body, "{\"url\":\"ftp://127.0.0.1/\",\"frob\":1},5,");
    text_put(&body, "{\"url\":\"%s\",\"payload\":{\"n\":1.50}}]}", sink_url(sink, "/now"));
    json_t *results = batch_results(gateway->api, body.s, COUNT(statuses));
    for (size_t i = 0; i < COUNT(statuses); i++)
        cr_expect_eq(batch_status(results, i), statuses[i], "%zu", i);
    cr_expect_str_eq(json_text_at(results, "0.task.id"), "a");
    cr_expect_str_eq(json_text_at(results, "0.task.state"), "scheduled");
    cr_expect_not(json_bool_at(results, "0.task.durable"));
    cr_expect_str_eq(json_text_at(results, "1.task.id"), "a");
    cr_expect_str_eq(json_text_at(results, "2.problem.code"), "id_conflict");
    cr_expect_str_eq(json_text_at(results, "2.problem.state"), "scheduled");
    cr_expect_str_eq(json_text_at(results, "3.problem.errors.0.pointer"), "/url");
    cr_expect_str_eq(json_text_at(results, "3.problem.errors.1.pointer"), "/frob");
    cr_expect_str_eq(json_text_at(results, "4.problem.errors.0.pointer"), "");
    cr_expect_str_eq(sink_wait(sink, "/now", 1, ARRIVE_MS)->body, "{\"n\":1.50}");
    cr_expect_eq(stat_at("totals.created"), 2);
    cr_expect_eq(stat_at("totals.duplicates"), 1);
    free(body.s);
}

Test(batch, a_refused_task_has_the_problem_that_a_post_of_it_would_have)
{
    static const char *const tasks[] = {
        "{}",
        "[]",
        "null",
        "5",
        "{\"url\":null,\"delay\":-1,\"id\":\"-\",\"queue\":\"Q\",\"method\":\"BREW\"}",
        "{\"url\":\"http://127.0.0.1/\",\"headers\":{\"Host\":\"x\",\"A\":5}}",
        "{\"url\":\"http://10.1.2.3/\"}",
        "{\"url\":\"http://127.0.0.1/\",\"delay\":1,\"run_at\":1,\"payload\":1,\"body\":\"\"}",
        "{\"url\":\"http://127.0.0.1/\",\"url\":\"http://127.0.0.1/\"}",
        "{\"url\":\"http://127.0.0.1/\",\"retry\":{\"max_attempts\":0,\"frob\":1}}",
    };
    struct text body = {0};

    start("--threads", "1");
    text_put(&body, "{\"tasks\":[");
    for (size_t i = 0; i < COUNT(tasks); i++)
        text_put(&body, "%s%s", i > 0 ? "," : "", tasks[i]);
    text_put(&body, "]}");
    json_t *results = json_incref(batch_results(gateway->api, body.s, COUNT(tasks)));
    for (size_t i = 0; i < COUNT(tasks); i++) {
        json_t *result = json_array_get(results, i);
        const struct reply *alone = client_post(gateway->api, "/tasks", tasks[i]);
        cr_assert_eq(alone->status, 400, "%s", tasks[i]);
        cr_expect_eq(json_integer_at(result, "status"), 400, "%s", tasks[i]);
        cr_expect(json_equal(json_at(result, "problem"), alone->json), "%s: %s", tasks[i], alone->body);
    }
    cr_expect_eq(stat_at("totals.created"), 0);
    json_decref(results);
    free(body.s);
}

Test(batch, an_empty_one_has_no_results)
{
    start("--threads", "1");
    batch_results(gateway->api, "{\"tasks\":[]}", 0);
}

#define MANY 1000

Test(batch, a_thousand_tasks_are_all_delivered_once)
{
    struct text body = {0};

    start("--threads", "2");
    text_put(&body, "{\"tasks\":[");
    for (int i = 0; i < MANY; i++)
        text_put(&body, "%s{\"url\":\"%s\",\"payload\":%d}", i > 0 ? "," : "", sink_url(sink, "/many"), i);
    text_put(&body, "]}");
    json_t *results = batch_results(gateway->api, body.s, MANY);
    json_t *ids = json_object();
    for (size_t i = 0; i < MANY; i++) {
        cr_assert_eq(batch_status(results, i), 201);
        json_object_set_new(ids, json_text_at(json_array_get(results, i), "task.id"), json_true());
    }
    cr_expect_eq(json_object_size(ids), MANY, "each has an id of its own");
    json_decref(ids);
    WAIT_UNTIL(stat_at("totals.delivered") == MANY, ARRIVE_MS);
    bool came[MANY] = {false};
    for (size_t i = 1; i <= MANY; i++)
        came[strtoul(sink_wait(sink, "/many", i, ARRIVE_MS)->body, NULL, 10)] = true;
    for (int i = 0; i < MANY; i++)
        cr_assert(came[i], "task %d did not come", i);
    cr_expect_eq(sink_count(sink, "/many"), MANY);
    free(body.s);
}

Test(batch, a_thousand_and_one_are_refused_and_none_is_stored)
{
    struct text body = {0};

    start("--threads", "1");
    text_put(&body, "{\"tasks\":[");
    for (int i = 0; i <= MANY; i++)
        text_put(&body, "%s{\"url\":\"http://127.0.0.1:9/\"}", i > 0 ? "," : "");
    text_put(&body, "]}");
    const struct reply *r = batch_post(gateway->api, body.s);
    cr_assert_eq(r->status, 400, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(r->json, "errors.0.pointer"), "/tasks");
    cr_expect_eq(stat_at("totals.created"), 0);
    free(body.s);
}

Test(batch, each_task_is_as_durable_as_it_asks)
{
    struct text body = {0};

    start("--threads", "1");
    text_put(&body, "{\"tasks\":[");
    for (int i = 0; i < 20; i++)
        text_put(&body, "%s{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\",\"durability\":\"%s\"}", i > 0 ? "," : "",
                 i % 2 == 0 ? "fsync" : "memory");
    text_put(&body, "]}");
    json_t *results = batch_results(gateway->api, body.s, 20);
    for (size_t i = 0; i < 20; i++) {
        cr_expect_eq(batch_status(results, i), 201);
        cr_expect_eq(json_bool_at(json_array_get(results, i), "task.durable"), i % 2 == 0, "task %zu", i);
    }
    free(body.s);
}

Test(batch, the_limit_of_pending_tasks_holds_for_each)
{
    struct text body = {0};

    start("--max-pending", "3");
    text_put(&body, "{\"tasks\":[");
    for (int i = 0; i < 5; i++)
        text_put(&body, "%s{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}", i > 0 ? "," : "");
    text_put(&body, "]}");
    json_t *results = batch_results(gateway->api, body.s, 5);
    for (size_t i = 0; i < 5; i++)
        cr_expect_eq(batch_status(results, i), i < 3 ? 201 : 503, "task %zu", i);
    cr_expect_str_eq(json_text_at(results, "4.problem.code"), "too_many_pending");
    free(body.s);
}

Test(batch, tasks_keep_the_trace_of_the_request)
{
    static const char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const char *const headers[] = {"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", NULL};

    start("--threads", "1");
    const struct reply *r = client_request(
        gateway->api, &(struct client_request){
                          .method = "POST",
                          .path = "/tasks/batch",
                          .body = "{\"tasks\":[{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}]}",
                          .headers = headers,
                      });
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(client_get_task(gateway->api, "a")->json, "traceparent"), trace);
}

/* ---- refused as a whole ---- */

Test(batch, a_wrong_body_is_refused_as_a_whole)
{
    static const struct {
        const char *body, *code, *pointer;
    } rows[] = {
        {"{}", "invalid_request", "/tasks"},
        {"[]", "invalid_request", ""},
        {"{\"tasks\":{}}", "invalid_request", "/tasks"},
        {"{\"tasks\":[],\"atomic\":true}", "invalid_request", "/atomic"},
        {"{\"tasks\":[],\"tasks\":[]}", "invalid_request", "/tasks"},
        {"{\"tasks\":[{\"url\":\"http://127.0.0.1:9/\"},{\"url\":tru}]}", "invalid_json", "/tasks/1"},
        {"{\"tasks\":[{\"url\":\"http://127.0.0.1:9/\"}", "invalid_json", ""},
        {"", "invalid_json", ""},
    };

    start("--threads", "1");
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct reply *r = batch_post(gateway->api, rows[i].body);
        cr_expect_eq(r->status, 400, "%s: %d %s", rows[i].body, r->status, r->body);
        cr_expect_str_eq(json_text_at(r->json, "code"), rows[i].code, "%s", rows[i].body);
        cr_expect_str_eq(json_text_at(r->json, "errors.0.pointer"), rows[i].pointer, "%s", rows[i].body);
    }
    cr_expect_eq(stat_at("totals.created"), 0);
}

Test(batch, an_idempotency_key_is_refused)
{
    const char *const headers[] = {"Idempotency-Key: k", NULL};

    start("--threads", "1");
    const struct reply *r = client_request(
        gateway->api, &(struct client_request){
                          .method = "POST", .path = "/tasks/batch", .body = "{\"tasks\":[]}", .headers = headers});
    cr_assert_eq(r->status, 400, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(r->json, "code"), "invalid_header");
    cr_expect_str_eq(json_text_at(r->json, "errors.0.header"), "Idempotency-Key");
}

/* ---- sizes ---- */

#define BODY_MAX 4096

Test(batch, it_may_be_sixteen_times_as_large_as_one_task)
{
    start("--max-body", "4096");
    char *body = batch_of(16, 4000);

    cr_assert(strlen(body) > 15 * BODY_MAX && strlen(body) <= 16 * BODY_MAX);
    json_t *results = batch_results(gateway->api, body, 16);
    for (size_t i = 0; i < 16; i++)
        cr_expect_eq(batch_status(results, i), 201);
    free(body);
    body = batch_of(17, 4000);
    const struct reply *r = batch_post(gateway->api, body);
    cr_expect_eq(r->status, 413, "%d %s", r->status, r->body);
    cr_expect_not_null(strstr(json_text_at(r->json, "detail"), "65536"), "%s", r->body);
    free(body);
    cr_expect_eq(stat_at("totals.created"), 16);
}

Test(batch, a_task_larger_than_one_may_be_is_refused_alone)
{
    struct text body = {0};

    start("--max-body", "4096");
    char *large = batch_of(1, 4096);
    text_put(&body, "{\"tasks\":[{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"},");
    for (const char *s = large + strlen("{\"tasks\":["); s[2] != '\0'; s++)
        text_put(&body, "%c", *s);
    text_put(&body, "]}");
    json_t *results = batch_results(gateway->api, body.s, 2);
    cr_expect_eq(batch_status(results, 0), 201);
    cr_expect_eq(batch_status(results, 1), 413);
    cr_expect_str_eq(json_text_at(results, "1.problem.code"), "body_too_large");
    cr_expect_not_null(strstr(json_text_at(results, "1.problem.detail"), "4096"));
    free(large);
    free(body.s);
}

Test(batch, other_calls_keep_their_limit)
{
    start("--max-body", "4096");
    char *body = batch_of(2, 4000);

    cr_expect_eq(client_post(gateway->api, "/tasks", body)->status, 413);
    cr_expect_eq(
        client_request(gateway->api, &(struct client_request){.method = "PATCH", .path = "/tasks/a", .body = body})
            ->status,
        413);
    free(body);
}

/* What a thousand wrong tasks have to be told is cut before the answer is too long to be sent. */
Test(batch, a_thousand_tasks_with_a_hundred_faults_each_are_answered)
{
    struct text body = {0};

    start("--threads", "1");
    text_put(&body, "{\"tasks\":[");
    for (int i = 0; i < MANY; i++) {
        text_put(&body, "%s{", i > 0 ? "," : "");
        for (int k = 0; k < 100; k++)
            text_put(&body, "%s\"frob-%d\":0", k > 0 ? "," : "", k);
        text_put(&body, "}");
    }
    text_put(&body, "]}");
    json_t *results = batch_results(gateway->api, body.s, MANY);
    cr_expect_eq(json_array_size(json_at(results, "0.problem.errors")), 100);
    json_t *last = json_array_get(results, MANY - 1);
    cr_expect_eq(json_integer_at(last, "status"), 400);
    cr_expect_eq(json_array_size(json_at(last, "problem.errors")), 1);
    cr_expect_not_null(strstr(json_text_at(last, "problem.detail"), "101 faults"), "all are counted");
    free(body.s);
}
