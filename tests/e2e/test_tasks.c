/* The calls on tasks against the real binary: what POST answers, what GET shows and what DELETE does in every state
 * a task can be in. How wrong requests are refused is in test_requests.c, the wire in test_delivery.c.
 *
 * A receiver's answer that is held until sink_release() keeps a task in `delivering` for as long as a test needs it.
 * "It is never sent" is shown by a later task that has arrived meanwhile. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
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

TestSuite(tasks, .init = setup, .fini = teardown, .timeout = 300);

/* Post a task that must be accepted; its JSON. */
static json_t *create(const char *body)
{
    const struct reply *r = client_post(w->api, "/tasks", body);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    return r->json;
}

/* A task `id` for the receiver's `path` that has had its only attempt, or is about to have it. */
static void create_one_shot(const char *id, const char *path)
{
    const struct reply *r = client_post_task(w->api, "{\"id\":\"%s\",\"url\":\"%s\",\"retry\":{\"max_attempts\":1}}",
                                             id, sink_url(w->sink, path));

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

/* When this returns, everything that was due before has been handed out: a later task has arrived. */
static void pass_time_ms(int ms)
{
    const struct reply *r =
        client_post_task(w->api, "{\"url\":\"%s\",\"delay\":%d}", sink_url(w->sink, "/sentinel"), ms);

    cr_assert_eq(r->status, 201);
    sink_wait(w->sink, "/sentinel", 1, ms + ARRIVE_MS);
}

static const char *const task_members[] = {
    "id",       "queue",        "state",           "url",        "method",      "run_at",           "created_at",
    "attempts", "max_attempts", "next_attempt_at", "expires_at", "finished_at", "cancel_requested", "last_attempt"};

static void expect_members(json_t *task)
{
    for (size_t i = 0; i < sizeof(task_members) / sizeof(task_members[0]); i++)
        cr_assert_not_null(json_object_get(task, task_members[i]), "the task has no %s", task_members[i]);
}

Test(tasks, a_task_with_every_member_is_accepted_and_shown)
{
    const struct reply *r = client_post_task(
        w->api,
        "{\"id\":\"order-17:close\",\"url\":\"%s\",\"delay\":\"1h30m\",\"queue\":\"orders.eu\",\"method\":\"PUT\","
        "\"headers\":{\"X-Shop\":\"17\",\"Authorization\":\"Bearer abc\",\"X-Api-Key\":\"k\"},"
        "\"payload\":{\"order\":17},\"timeout\":\"5s\",\"retry\":{\"max_attempts\":3,\"initial\":\"2s\","
        "\"multiplier\":1.5,\"max\":\"1m\",\"jitter\":0,\"max_age\":\"1d\"}}",
        sink_url(w->sink, "/orders?a=1"));

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    cr_assert_str_eq(reply_header(r, "location"), "/tasks/order-17:close");
    cr_assert_str_eq(reply_header(r, "content-type"), "application/json");
    expect_members(r->json);
    cr_expect_eq(json_object_size(r->json), sizeof(task_members) / sizeof(task_members[0]) + 1);
    cr_expect_not(json_bool_at(r->json, "durable"));
    cr_expect_str_eq(json_text_at(r->json, "id"), "order-17:close");
    cr_expect_str_eq(json_text_at(r->json, "queue"), "orders.eu");
    cr_expect_str_eq(json_text_at(r->json, "state"), "scheduled");
    cr_expect_str_eq(json_text_at(r->json, "method"), "PUT");
    cr_expect_str_eq(json_text_at(r->json, "url"), sink_url(w->sink, "/orders?a=1"));
    cr_expect_eq(json_time_at(r->json, "run_at") - json_time_at(r->json, "created_at"), 90 * 60 * 1000);
    cr_expect_eq(json_time_at(r->json, "next_attempt_at"), json_time_at(r->json, "run_at"));
    cr_expect_eq(json_integer_at(r->json, "attempts"), 0);
    cr_expect_eq(json_integer_at(r->json, "max_attempts"), 3);
    cr_expect(json_null_at(r->json, "finished_at"));
    cr_expect(json_null_at(r->json, "last_attempt"));
    cr_expect_not(json_bool_at(r->json, "cancel_requested"));
}

Test(tasks, get_adds_the_headers_masked_and_the_payload)
{
    create("{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\",\"payload\":{\"n\":1.50},"
           "\"headers\":{\"X-Shop\":\"17\",\"authorization\":\"Bearer abc\",\"Cookie\":\"c=1\",\"X-Api-Key\":\"k\","
           "\"X-Auth-Kind\":\"z\",\"X-Signature-2\":\"s\"}}");
    const struct reply *r = client_get_task(w->api, "a");

    cr_assert_eq(r->status, 200);
    expect_members(r->json);
    cr_expect_str_eq(json_text_at(r->json, "headers.X-Shop"), "17");
    cr_expect_str_eq(json_text_at(r->json, "headers.authorization"), "***");
    cr_expect_str_eq(json_text_at(r->json, "headers.Cookie"), "***");
    cr_expect_str_eq(json_text_at(r->json, "headers.X-Api-Key"), "***");
    cr_expect_str_eq(json_text_at(r->json, "headers.X-Auth-Kind"), "***");
    cr_expect_str_eq(json_text_at(r->json, "headers.X-Signature-2"), "***");
    cr_expect_not_null(strstr(r->body, "{\"n\":1.50}"), "the payload is not shown as it was given: %s", r->body);
}

Test(tasks, get_shows_the_body_under_the_member_it_was_given_by)
{
    create("{\"id\":\"t\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\",\"body\":\"h\\u00e9 \\\"x\\\"\"}");
    create("{\"id\":\"b\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\",\"body_base64\":\"AP8Q\"}");
    create("{\"id\":\"n\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}");
    json_t *text = client_get_task(w->api, "t")->json;
    json_t *bytes = client_get_task(w->api, "b")->json;
    json_t *none = client_get_task(w->api, "n")->json;

    cr_expect_str_eq(json_text_at(text, "body"), "h\xc3\xa9 \"x\"");
    cr_expect_null(json_at(text, "payload"));
    cr_expect_str_eq(json_text_at(bytes, "body_base64"), "AP8Q");
    cr_expect_null(json_at(bytes, "body"));
    cr_expect_null(json_at(none, "payload"));
    cr_expect_null(json_at(none, "body"));
    cr_expect_null(json_at(none, "body_base64"));
}

Test(tasks, a_generated_id_is_unique_and_can_be_asked_for)
{
    const char *first = json_text_at(create("{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}"), "id");
    const char *second = json_text_at(create("{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}"), "id");

    cr_assert_str_neq(first, second);
    cr_assert_eq(client_get_task(w->api, first)->status, 200);
    cr_assert_eq(client_get_task(w->api, second)->status, 200);
}

Test(tasks, the_same_id_with_the_same_bytes_answers_with_the_task_as_it_is)
{
    const char *body = "{\"id\":\"twice\",\"url\":\"http://127.0.0.1:9/\",\"delay\":3600000}";
    json_t *first = create(body);
    const struct reply *again = client_post(w->api, "/tasks", body);

    cr_assert_eq(again->status, 200, "%d %s", again->status, again->body);
    cr_expect(json_equal(again->json, first));
    cr_assert_eq(client_delete_task(w->api, "twice")->status, 204);
    const struct reply *after = client_post(w->api, "/tasks", body);
    cr_assert_eq(after->status, 200);
    cr_expect_str_eq(json_text_at(after->json, "state"), "cancelled");
    json_t *stats = client_get(w->api, "/stats")->json;
    cr_expect_eq(json_integer_at(stats, "totals.created"), 1);
    cr_expect_eq(json_integer_at(stats, "totals.duplicates"), 2);
}

Test(tasks, the_same_id_with_another_request_is_a_conflict_that_says_the_state)
{
    create("{\"id\":\"taken\",\"url\":\"http://127.0.0.1:9/\",\"delay\":3600000}");
    const struct reply *r =
        client_post(w->api, "/tasks", "{\"id\":\"taken\",\"url\":\"http://127.0.0.1:9/\",\"delay\":3600001}");

    cr_assert_eq(r->status, 409, "%d %s", r->status, r->body);
    cr_expect_str_eq(reply_header(r, "content-type"), "application/problem+json");
    cr_expect_str_eq(json_text_at(r->json, "code"), "id_conflict");
    cr_expect_str_eq(json_text_at(r->json, "state"), "scheduled");
    cr_expect_eq(json_integer_at(r->json, "status"), 409);
}

Test(tasks, a_time_may_be_written_in_every_documented_form)
{
    static const struct {
        const char *member;
        const char *run_at;
    } forms[] = {
        {"\"2035-01-01T00:00:00Z\"", "2035-01-01T00:00:00.000Z"},
        {"\"2035-01-01t00:00:00.5z\"", "2035-01-01T00:00:00.500Z"},
        {"\"2035-01-01T00:00:00+05:30\"", "2034-12-31T18:30:00.000Z"},
        {"\"2034-12-31T18:30:00-00:00\"", "2034-12-31T18:30:00.000Z"},
        {"\"2035-01-01T00:00:00.123000001Z\"", "2035-01-01T00:00:00.124Z"},
        {"\"2035-01-01T00:00:00.999999999Z\"", "2035-01-01T00:00:01.000Z"},
        {"2051222400123", "2035-01-01T00:00:00.123Z"},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const struct reply *r =
            client_post_task(w->api, "{\"url\":\"http://127.0.0.1:9/\",\"run_at\":%s}", forms[i].member);
        cr_assert_eq(r->status, 201, "%s: %d %s", forms[i].member, r->status, r->body);
        cr_expect_str_eq(json_text_at(r->json, "run_at"), forms[i].run_at, "%s", forms[i].member);
    }
}

Test(tasks, a_delay_may_be_written_in_every_documented_form)
{
    static const struct {
        const char *member;
        int64_t ms;
    } forms[] = {
        {"250", 250},           {"\"250ms\"", 250}, {"\"30s\"", 30000},         {"\"15m\"", 900000},
        {"\"1h30m\"", 5400000}, {"0", 0},           {"\"7d\"", 7LL * 86400000}, {"\"3653d\"", 3653LL * 86400000},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const struct reply *r =
            client_post_task(w->api, "{\"url\":\"%s\",\"delay\":%s}", sink_url(w->sink, "/"), forms[i].member);
        cr_assert_eq(r->status, 201, "%s: %d %s", forms[i].member, r->status, r->body);
        int64_t delay = json_time_at(r->json, "run_at") - json_time_at(r->json, "created_at");
        cr_expect_eq(delay, forms[i].ms, "%s became %lld ms", forms[i].member, (long long)delay);
    }
}

Test(tasks, a_past_time_means_now_and_the_answer_shows_now)
{
    int64_t before_ms = wait_wall_ms();
    const struct reply *r = client_post_task(
        w->api, "{\"id\":\"past\",\"url\":\"%s\",\"run_at\":\"2001-01-01T00:00:00Z\"}", sink_url(w->sink, "/past"));

    cr_assert_eq(r->status, 201);
    int64_t run_at_ms = json_time_at(r->json, "run_at");
    cr_expect_geq(run_at_ms, before_ms);
    cr_expect_leq(run_at_ms, wait_wall_ms());
    sink_wait(w->sink, "/past", 1, ARRIVE_MS);
}

Test(tasks, a_delivered_task_shows_its_attempt_and_drops_its_payload)
{
    const struct reply *r = client_post_task(w->api, "{\"id\":\"done\",\"url\":\"%s\",\"payload\":{\"secret\":1}}",
                                             sink_url(w->sink, "/done"));

    cr_assert_eq(r->status, 201);
    json_t *task = task_reaches(w->api, "done", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    cr_expect_eq(json_integer_at(task, "last_attempt.status"), 200);
    cr_expect(json_null_at(task, "last_attempt.error"));
    cr_expect(json_null_at(task, "next_attempt_at"));
    cr_expect_geq(json_integer_at(task, "last_attempt.duration_ms"), 0);
    cr_expect_geq(json_time_at(task, "last_attempt.at"), json_time_at(task, "run_at"));
    cr_expect_geq(json_time_at(task, "finished_at"), json_time_at(task, "last_attempt.at"));
    cr_expect_null(json_at(task, "payload"));
}

Test(tasks, a_dead_task_keeps_its_payload_and_says_why)
{
    SINK_SCRIPT(w->sink, "/bad", {.status = 500, .body = "out of paper"});
    const struct reply *r = client_post_task(
        w->api,
        "{\"id\":\"dead\",\"url\":\"%s\",\"payload\":[7],\"retry\":{\"max_attempts\":2,\"initial\":1,\"max\":1}}",
        sink_url(w->sink, "/bad"));

    cr_assert_eq(r->status, 201);
    json_t *task = task_reaches(w->api, "dead", "dead", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 2);
    cr_expect_eq(json_integer_at(task, "last_attempt.status"), 500);
    cr_expect_not_null(strstr(json_text_at(task, "last_attempt.error"), "out of paper"), "no excerpt of the answer");
    cr_expect(json_null_at(task, "next_attempt_at"));
    cr_expect_eq(json_integer_at(task, "payload.0"), 7);
    cr_expect_eq(sink_count(w->sink, "/bad"), 2);
}

Test(tasks, a_task_under_way_is_delivering_without_a_next_attempt)
{
    SINK_SCRIPT(w->sink, "/held", {.status = 200, .is_held = true});
    create_one_shot("held", "/held");
    sink_wait(w->sink, "/held", 1, ARRIVE_MS);
    json_t *task = task_reaches(w->api, "held", "delivering", ARRIVE_MS);

    cr_expect(json_null_at(task, "next_attempt_at"));
    cr_expect(json_null_at(task, "finished_at"));
    cr_expect_eq(json_integer_at(task, "attempts"), 0);
    sink_release(w->sink);
    task_reaches(w->api, "held", "delivered", ARRIVE_MS);
}

Test(tasks, an_unknown_task_is_404_for_get_and_delete)
{
    const struct reply *got = client_get_task(w->api, "nobody");
    const struct reply *deleted = client_delete_task(w->api, "nobody");

    cr_assert_eq(got->status, 404);
    cr_expect_str_eq(json_text_at(got->json, "code"), "task_not_found");
    cr_expect_str_eq(reply_header(got, "content-type"), "application/problem+json");
    cr_assert_eq(deleted->status, 404);
}

Test(tasks, a_deleted_task_is_never_sent)
{
    const struct reply *r =
        client_post_task(w->api, "{\"id\":\"gone\",\"url\":\"%s\",\"delay\":200}", sink_url(w->sink, "/gone"));

    cr_assert_eq(r->status, 201);
    const struct reply *deleted = client_delete_task(w->api, "gone");
    cr_assert_eq(deleted->status, 204);
    cr_expect_eq(deleted->body_bytes, 0);
    json_t *task = client_get_task(w->api, "gone")->json;
    cr_expect_str_eq(json_text_at(task, "state"), "cancelled");
    cr_expect_geq(json_time_at(task, "finished_at"), json_time_at(task, "created_at"));
    cr_expect(json_null_at(task, "next_attempt_at"));
    cr_assert_eq(client_delete_task(w->api, "gone")->status, 204, "DELETE again is 204 again");
    pass_time_ms(400);
    cr_assert_eq(sink_count(w->sink, "/gone"), 0);
}

Test(tasks, delete_of_a_task_under_way_lets_the_attempt_finish_as_delivered)
{
    SINK_SCRIPT(w->sink, "/held", {.status = 200, .is_held = true});
    create_one_shot("held", "/held");
    sink_wait(w->sink, "/held", 1, ARRIVE_MS);
    const struct reply *r = client_delete_task(w->api, "held");

    cr_assert_eq(r->status, 202, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(r->json, "state"), "delivering");
    cr_expect(json_bool_at(r->json, "cancel_requested"));
    cr_expect_eq(client_delete_task(w->api, "held")->status, 202, "DELETE again is 202 again");
    sink_release(w->sink);
    json_t *task = task_reaches(w->api, "held", "delivered", ARRIVE_MS);
    cr_expect(json_bool_at(task, "cancel_requested"));
}

Test(tasks, delete_of_a_task_under_way_allows_no_retry)
{
    SINK_SCRIPT(w->sink, "/held", {.status = 500, .is_held = true});
    const struct reply *r = client_post_task(
        w->api, "{\"id\":\"held\",\"url\":\"%s\",\"retry\":{\"initial\":1,\"max\":1}}", sink_url(w->sink, "/held"));

    cr_assert_eq(r->status, 201);
    sink_wait(w->sink, "/held", 1, ARRIVE_MS);
    cr_assert_eq(client_delete_task(w->api, "held")->status, 202);
    sink_release(w->sink);
    json_t *task = task_reaches(w->api, "held", "cancelled", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    pass_time_ms(100);
    cr_assert_eq(sink_count(w->sink, "/held"), 1);
}

Test(tasks, delete_while_a_retry_is_waiting_ends_it)
{
    SINK_SCRIPT(w->sink, "/bad", {.status = 500});
    const struct reply *r = client_post_task(
        w->api, "{\"id\":\"retry\",\"url\":\"%s\",\"retry\":{\"schedule\":[\"300ms\"]}}", sink_url(w->sink, "/bad"));

    cr_assert_eq(r->status, 201);
    json_t *task = client_get_task(w->api, "retry")->json;
    WAIT_UNTIL(json_integer_at(task = client_get_task(w->api, "retry")->json, "attempts") == 1, ARRIVE_MS);
    cr_expect_str_eq(json_text_at(task, "state"), "scheduled");
    cr_expect_geq(json_time_at(task, "next_attempt_at"), json_time_at(task, "last_attempt.at") + 300);
    cr_assert_eq(client_delete_task(w->api, "retry")->status, 204);
    pass_time_ms(500);
    cr_assert_eq(sink_count(w->sink, "/bad"), 1);
}

Test(tasks, a_finished_task_cannot_be_deleted)
{
    SINK_SCRIPT(w->sink, "/bad", {.status = 500});
    create_one_shot("fine", "/fine");
    create_one_shot("dead", "/bad");
    task_reaches(w->api, "fine", "delivered", ARRIVE_MS);
    task_reaches(w->api, "dead", "dead", ARRIVE_MS);
    const struct reply *fine = client_delete_task(w->api, "fine");
    const struct reply *dead = client_delete_task(w->api, "dead");

    cr_assert_eq(fine->status, 409);
    cr_expect_str_eq(json_text_at(fine->json, "code"), "state_conflict");
    cr_expect_str_eq(json_text_at(fine->json, "state"), "delivered");
    cr_assert_eq(dead->status, 409);
    cr_expect_str_eq(json_text_at(dead->json, "state"), "dead");
}

Test(tasks, delete_races_with_the_due_moment_and_the_answer_is_the_truth)
{
    enum { TASKS = 100 };
    bool is_cancelled[TASKS];

    for (int i = 0; i < TASKS; i++) {
        char path[32], id[32];
        (void)snprintf(path, sizeof(path), "/race/%d", i);
        (void)snprintf(id, sizeof(id), "race-%d", i);
        const struct reply *r =
            client_post_task(w->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d}", id, sink_url(w->sink, path), i % 5);
        cr_assert_eq(r->status, 201);
        r = client_delete_task(w->api, id);
        is_cancelled[i] = r->status == 204;
        cr_assert(r->status == 204 || r->status == 202 || r->status == 409, "%d %s", r->status, r->body);
    }
    pass_time_ms(100);
    for (int i = 0; i < TASKS; i++) {
        char path[32], id[32];
        (void)snprintf(path, sizeof(path), "/race/%d", i);
        (void)snprintf(id, sizeof(id), "race-%d", i);
        if (!is_cancelled[i])
            task_reaches(w->api, id, "delivered", ARRIVE_MS);
        cr_expect_eq(sink_count(w->sink, path), is_cancelled[i] ? 0 : 1, "task %d", i);
    }
}

Test(tasks, the_payload_arrives_byte_for_byte_on_every_attempt)
{
    static const char payload[] = "{\"id\":12345678901234567890, \"x\":1.10}";

    SINK_SCRIPT(w->sink, "/exact", {.status = 500}, {.status = 503}, {.status = 200});
    const struct reply *r = client_post_task(
        w->api, "{ \"id\":\"exact\",\n \"payload\" : %s ,\"url\":\"%s\",\"retry\":{\"initial\":1,\"max\":1}}", payload,
        sink_url(w->sink, "/exact"));

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    task_reaches(w->api, "exact", "delivered", ARRIVE_MS);
    for (size_t n = 1; n <= 3; n++) {
        const struct sink_request *request = sink_wait(w->sink, "/exact", n, ARRIVE_MS);
        cr_expect_str_eq(request->body, payload, "attempt %zu: %s", n, request->body);
    }
}
