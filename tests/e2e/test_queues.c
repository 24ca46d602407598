/* The calls under /queues, each in every state a queue can be in. (Purge and redrive: test_queue_tasks.c.) */
#include "../support/crowd.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 20000

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(queues, .init = setup, .fini = teardown, .timeout = 300);

static struct reply *call(const char *method, const char *path, const char *body)
{
    return client_request(w->api, &(struct client_request){.method = method, .path = path, .body = body});
}

static int64_t number(const char *queue, const char *member)
{
    return json_integer_at(crowd_queue(w->api, queue), member);
}

/* ---------------------------------------------------------- get, put, list */

Test(queues, there_are_none_at_first)
{
    const struct reply *r = client_get(w->api, "/queues");

    cr_assert_eq(r->status, 200);
    cr_expect_str_eq(r->body, "{\"queues\":[]}\n");
}

Test(queues, every_call_on_a_queue_nobody_made_is_a_404)
{
    static const char *const calls[][2] = {
        {"GET", "/queues/mail"},          {"DELETE", "/queues/mail"},     {"POST", "/queues/mail/pause"},
        {"POST", "/queues/mail/resume"},  {"POST", "/queues/mail/purge"}, {"POST", "/queues/mail/redrive"},
        {"GET", "/queues/Mail"},          {"DELETE", "/queues/%20"},      {"POST", "/queues/.mail/purge"},
        {"POST", "/queues/Mail/redrive"}, {"POST", "/queues/a%2Fb/pause"}};

    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        const struct reply *r = call(calls[i][0], calls[i][1], NULL);
        cr_expect_eq(r->status, 404, "%s %s: %d", calls[i][0], calls[i][1], r->status);
        cr_expect_str_eq(json_text_at(r->json, "code"), "queue_not_found", "%s %s", calls[i][0], calls[i][1]);
    }
}

Test(queues, a_task_makes_its_queue)
{
    crowd_post(w, "a", "mail", ",\"delay\":\"1h\"");
    json_t *q = crowd_queue(w->api, "mail");

    cr_expect_str_eq(json_text_at(q, "name"), "mail");
    cr_expect_not(json_bool_at(q, "paused"));
    cr_expect(json_null_at(q, "max_concurrency"));
    cr_expect(json_null_at(q, "max_per_second"));
    cr_expect(json_null_at(q, "timeout"));
    cr_expect(json_null_at(q, "retry"));
    cr_expect_eq(json_integer_at(q, "scheduled"), 1);
    cr_expect_eq(json_integer_at(q, "overdue"), 0);
    cr_expect(json_null_at(q, "oldest_overdue_ms"));
    cr_expect_eq(json_integer_at(q, "ready"), 0);
    cr_expect_eq(json_integer_at(q, "delivering"), 0);
    cr_expect(json_null_at(q, "oldest_delivering_ms"));
    cr_expect_eq(json_integer_at(q, "dead"), 0);
    cr_expect_eq(json_object_size(q), 13);
}

Test(queues, put_replaces_all_settings)
{
    struct reply *r = call("PUT", "/queues/mail",
                           "{\"paused\":true,\"max_concurrency\":5,\"max_per_second\":0.5,\"timeout\":\"1m\","
                           "\"retry\":{\"max_attempts\":3,\"initial\":\"2s\"}}");

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    cr_expect(json_bool_at(r->json, "paused"));
    cr_expect_eq(json_integer_at(r->json, "max_concurrency"), 5);
    cr_expect_float_eq(json_number_at(r->json, "max_per_second"), 0.5, 0);
    cr_expect_eq(json_integer_at(r->json, "timeout"), 60000);
    cr_expect_eq(json_integer_at(r->json, "retry.max_attempts"), 3);
    cr_expect_eq(json_integer_at(r->json, "retry.initial"), 2000);
    cr_expect_eq(json_object_size(json_at(r->json, "retry")), 2);
    r = call("PUT", "/queues/mail", "{\"max_per_second\":7}");
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_not(json_bool_at(r->json, "paused"));
    cr_expect(json_null_at(r->json, "max_concurrency"));
    cr_expect_eq(json_integer_at(r->json, "max_per_second"), 7);
    cr_expect(json_null_at(r->json, "timeout"));
    cr_expect(json_null_at(r->json, "retry"));
    cr_expect_eq(json_integer_at(crowd_queue(w->api, "mail"), "max_per_second"), 7);
}

Test(queues, put_of_a_queue_that_a_task_has_made_is_no_creation)
{
    crowd_post(w, "a", "mail", ",\"delay\":\"1h\"");
    cr_expect_eq(call("PUT", "/queues/mail", "{\"max_concurrency\":1}")->status, 200);
}

Test(queues, faults_of_put_are_named_all_at_once)
{
    const struct reply *r =
        call("PUT", "/queues/mail", "{\"paused\":1,\"max_concurrency\":0,\"retry\":{\"jitter\":2},\"name\":\"x\"}");

    reply_expect_problem(r, 400, "invalid_request");
    cr_assert_eq(json_array_size(json_at(r->json, "errors")), 4, "%s", r->body);
    cr_expect_str_eq(json_text_at(r->json, "errors.2.pointer"), "/retry/jitter");
    reply_expect_problem(call("PUT", "/queues/mail", "{"), 400, "invalid_json");
    reply_expect_problem(call("PUT", "/queues/mail", ""), 400, "invalid_json");
    reply_expect_problem(client_request(w->api, &(struct client_request){.method = "PUT",
                                                                         .path = "/queues/mail",
                                                                         .body = "{}",
                                                                         .content_type = "text/plain"}),
                         415, "unsupported_media_type");
    reply_expect_problem(client_get(w->api, "/queues/mail"), 404, "queue_not_found");
}

Test(queues, put_tells_which_names_are_good)
{
    const struct reply *r = call("PUT", "/queues/Mail", "{}");

    reply_expect_problem(r, 400, "invalid_request");
    cr_expect_str_eq(json_text_at(r->json, "errors.0.parameter"), "queue");
    reply_expect_problem(call("POST", "/queues/mail", "{}"), 405, "method_not_allowed");
    reply_expect_problem(call("GET", "/queues/mail/pause", NULL), 405, "method_not_allowed");
    reply_expect_problem(call("GET", "/queues/mail?x=1", NULL), 400, "invalid_query");
}

Test(queues, the_list_is_by_name_and_stats_show_the_limits)
{
    crowd_put(w->api, "b", "{'max_concurrency':3}");
    crowd_post(w, "x", "c", ",\"delay\":\"1h\"");
    crowd_put(w->api, "a", "{'paused':true,'max_per_second':2.5}");
    json_t *list = client_get(w->api, "/queues")->json;

    cr_assert_eq(json_array_size(json_at(list, "queues")), 3);
    cr_expect_str_eq(json_text_at(list, "queues.0.name"), "a");
    cr_expect_str_eq(json_text_at(list, "queues.1.name"), "b");
    cr_expect_str_eq(json_text_at(list, "queues.2.name"), "c");
    cr_expect_eq(json_integer_at(list, "queues.1.max_concurrency"), 3);
    cr_expect_eq(json_integer_at(list, "queues.2.scheduled"), 1);
    json_t *stats = client_get(w->api, "/stats")->json;
    cr_expect(json_bool_at(stats, "queues.a.paused"));
    cr_expect_float_eq(json_number_at(stats, "queues.a.max_per_second"), 2.5, 0);
    cr_expect(json_null_at(stats, "queues.a.max_concurrency"));
    cr_expect_eq(json_integer_at(stats, "queues.b.max_concurrency"), 3);
    cr_expect_not(json_bool_at(stats, "queues.c.paused"));
    cr_expect_eq(json_integer_at(stats, "queues.c.scheduled"), 1);
}

/* ----------------------------------------------------------- pause, resume */

Test(queues, pause_and_resume_can_be_repeated)
{
    crowd_post(w, "a", "mail", ",\"delay\":300");
    for (int i = 0; i < 3; i++)
        cr_expect(json_bool_at(crowd_do(w->api, "mail", "pause"), "paused"));
    WAIT_UNTIL(json_time_at(client_get_task(w->api, "a")->json, "run_at") + 200 < wait_wall_ms(), ARRIVE_MS);
    cr_expect_eq(sink_count(w->sink, "/a"), 0);
    cr_expect_eq(number("mail", "overdue"), 0, "it is held");
    for (int i = 0; i < 3; i++)
        cr_expect_not(json_bool_at(crowd_do(w->api, "mail", "resume"), "paused"));
    sink_wait(w->sink, "/a", 1, ARRIVE_MS);
}

Test(queues, a_paused_queue_lets_its_attempts_end)
{
    crowd_post_held(w, "a", "mail");
    crowd_post(w, "b", "mail", ",\"delay\":\"1h\"");
    json_t *q = crowd_do(w->api, "mail", "pause");

    cr_expect_eq(json_integer_at(q, "delivering"), 1);
    sink_release(w->sink);
    task_reaches(w->api, "a", "delivered", ARRIVE_MS);
}

Test(queues, cancel_works_in_a_paused_queue)
{
    crowd_put(w->api, "mail", "{'paused':true}");
    crowd_post(w, "a", "mail", "");
    cr_expect_eq(client_delete_task(w->api, "a")->status, 204);
    crowd_do(w->api, "mail", "resume");
    crowd_post(w, "b", "mail", "");
    sink_wait(w->sink, "/b", 1, ARRIVE_MS);
    cr_expect_eq(sink_count(w->sink, "/a"), 0);
}

Test(queues, settings_outlive_a_restart_of_the_gateway)
{
    crowd_put(w->api, "mail", "{'paused':true,'timeout':'3s','retry':{'max_attempts':4}}");
    gateway_stop(w->gateway);
    gateway_destroy(&w->gateway);
    w->gateway = gateway_run(redis_fixture_url(w->redis), NULL);
    w->api = w->gateway->api;
    cr_expect(json_bool_at(crowd_queue(w->api, "mail"), "paused"));
    crowd_post(w, "a", "mail", "");
    cr_expect_eq(json_integer_at(client_get_task(w->api, "a")->json, "max_attempts"), 4);
    cr_expect_eq(sink_count(w->sink, "/a"), 0);
    crowd_do(w->api, "mail", "resume");
    sink_wait(w->sink, "/a", 1, ARRIVE_MS);
}

/* ------------------------------------------------------------------ delete */

Test(queues, a_queue_with_pending_tasks_cannot_be_deleted)
{
    crowd_put(w->api, "mail", "{'max_concurrency':5}");
    crowd_post(w, "later", "mail", ",\"delay\":\"1h\"");
    reply_expect_problem(call("DELETE", "/queues/mail", NULL), 409, "queue_not_empty");
    cr_assert_eq(client_delete_task(w->api, "later")->status, 204);
    crowd_post_held(w, "held", "mail");
    reply_expect_problem(call("DELETE", "/queues/mail", NULL), 409, "queue_not_empty");
    cr_expect_eq(number("mail", "max_concurrency"), 5);
    sink_release(w->sink);
    task_reaches(w->api, "held", "delivered", ARRIVE_MS);
    cr_expect_eq(call("DELETE", "/queues/mail", NULL)->status, 204);
    cr_expect(json_null_at(crowd_queue(w->api, "mail"), "max_concurrency"), "its records keep it in the list");
    cr_expect_eq(call("DELETE", "/queues/mail", NULL)->status, 204);
}

Test(queues, a_deleted_queue_is_gone_and_can_be_made_again)
{
    crowd_put(w->api, "mail", "{'paused':true,'retry':{'max_attempts':2}}");
    cr_expect_eq(call("DELETE", "/queues/mail", NULL)->status, 204);
    reply_expect_problem(call("DELETE", "/queues/mail", NULL), 404, "queue_not_found");
    reply_expect_problem(client_get(w->api, "/queues/mail"), 404, "queue_not_found");
    crowd_post(w, "a", "mail", "");
    sink_wait(w->sink, "/a", 1, ARRIVE_MS);
    cr_expect_eq(json_integer_at(client_get_task(w->api, "a")->json, "max_attempts"), 10);
    cr_expect_eq(call("PUT", "/queues/mail", "{}")->status, 200);
}

/* --------------------------------------------------------------- no Redis */

Test(queues, without_redis_each_call_is_a_503)
{
    static const char *const calls[][2] = {
        {"GET", "/queues"}, {"GET", "/queues/mail"}, {"POST", "/queues/mail/purge"}, {"POST", "/queues/mail/pause"}};

    crowd_put(w->api, "mail", "{}");
    redis_fixture_kill(w->redis);
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        const struct reply *r = call(calls[i][0], calls[i][1], NULL);
        cr_expect_eq(r->status, 503, "%s %s: %d %s", calls[i][0], calls[i][1], r->status, r->body);
        cr_expect_str_eq(json_text_at(r->json, "code"), "store_unavailable");
    }
    redis_fixture_start(w->redis);
    WAIT_UNTIL(client_get(w->api, "/readyz")->status == 200, ARRIVE_MS);
    crowd_put(w->api, "mail", "{'max_concurrency':5}");
}
