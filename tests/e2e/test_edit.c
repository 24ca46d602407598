/* PATCH, run and redrive against the real binary, in every state a task can be in. The one worker has one slot: an
 * attempt that the receiver holds keeps it busy, and what is moved into the Stream meanwhile stays `ready`. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;
static struct client *api;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), "--threads", "1", "--concurrency", "1", "--max-body", "4096", NULL);
    api = gateway->api;
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(edit, .init = setup, .fini = teardown, .timeout = 300);

static const struct reply *ask(const char *method, const char *id, const char *action, const char *body)
{
    char path[200];

    (void)snprintf(path, sizeof(path), "/tasks/%s%s", id, action);
    return client_request(api, &(struct client_request){.method = method, .path = path, .body = body});
}

static const struct reply *patch(const char *id, const char *body)
{
    return ask("PATCH", id, "", body);
}

static json_t *patched(const char *id, const char *body)
{
    const struct reply *r = patch(id, body);

    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    return r->json;
}

/* More members begin with a comma. */
static void create(const char *id, const char *path, const char *more)
{
    const struct reply *r = client_post_task(api, "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, sink_url(sink, path), more);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

/* ---- every state ---- */

static const char *const states[] = {"scheduled", "ready",     "delivering", "delivered",
                                     "dead",      "cancelled", "expired",    "gone"};
#define STATE_COUNT (sizeof(states) / sizeof(states[0]))

static bool is_ready(const char *id)
{
    return strcmp(json_text_at(client_get_task(api, id)->json, "state"), "ready") == 0;
}

static bool is_somebody_reading(void)
{
    redisReply *r = redis_fixture_command(redis, "CLIENT LIST");
    bool is_blocked = strstr(r->str, " flags=b ") != NULL;

    freeReplyObject(r);
    return is_blocked;
}

/* Move what is due into the Stream, where the busy worker does not take it: a read that it began while it had a slot
 * gets a task that nobody needs. */
static void make_ready(const char *id)
{
    struct lua_fixture *lua = lua_fixture_attach(redis);

    create("decoy", "/decoy", "");
    WAIT_UNTIL((lua_move(lua, 100, 100), !is_somebody_reading()), ARRIVE_MS);
    client_delete_task(api, "decoy");
    create(id, "/ready", ",\"payload\":1");
    WAIT_UNTIL((lua_move(lua, 100, 100), is_ready(id)), ARRIVE_MS);
    lua_fixture_destroy(&lua);
}

/* One task for each state, of that name; all but "gone". */
static void make_all_states(void)
{
    SINK_SCRIPT(sink, "/bad", {.status = 500}, {.status = 200});
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    create("delivered", "/fine", ",\"payload\":1");
    task_reaches(api, "delivered", "delivered", ARRIVE_MS);
    create("dead", "/bad", ",\"payload\":1,\"retry\":{\"max_attempts\":1}");
    task_reaches(api, "dead", "dead", ARRIVE_MS);
    create("cancelled", "/fine", ",\"payload\":1,\"delay\":\"1h\"");
    cr_assert_eq(client_delete_task(api, "cancelled")->status, 204);
    create("expired", "/fine", ",\"payload\":1,\"delay\":\"1h\",\"expires_in\":1");
    task_reaches(api, "expired", "expired", ARRIVE_MS);
    create("scheduled", "/later", ",\"payload\":1,\"delay\":\"1h\"");
    create("delivering", "/held", ",\"payload\":1");
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    make_ready("ready");
}

/* `allowed` has a bit for each state in which the call answers 200. */
static void expect_in_every_state(const char *method, const char *action, const char *body, unsigned allowed)
{
    make_all_states();
    for (unsigned i = 0; i < STATE_COUNT; i++) {
        const struct reply *r = ask(method, states[i], action, body);

        if (strcmp(states[i], "gone") == 0) {
            cr_expect_eq(r->status, 404, "%d %s", r->status, r->body);
            cr_expect_str_eq(json_text_at(r->json, "code"), "task_not_found");
        } else if (allowed & 1U << i) {
            cr_expect_eq(r->status, 200, "%s: %d %s", states[i], r->status, r->body);
            cr_expect_str_eq(json_text_at(r->json, "id"), states[i]);
        } else {
            cr_expect_eq(r->status, 409, "%s: %d %s", states[i], r->status, r->body);
            cr_expect_str_eq(json_text_at(r->json, "code"), "state_conflict");
            cr_expect_str_eq(json_text_at(r->json, "state"), states[i]);
            const struct reply *got = client_get_task(api, states[i]);
            cr_expect_str_eq(json_text_at(got->json, "state"), states[i]);
        }
    }
}

enum { SCHEDULED = 1, READY = 2, DEAD = 16, CANCELLED = 32, EXPIRED = 64 };

Test(edit, patch_changes_what_is_scheduled_or_ready)
{
    expect_in_every_state("PATCH", "", "{\"payload\":2}", SCHEDULED | READY);
    cr_expect_eq(json_integer_at(client_get_task(api, "scheduled")->json, "payload"), 2);
    cr_expect_eq(json_integer_at(client_get_task(api, "dead")->json, "payload"), 1);
    sink_release(sink);
    cr_expect_str_eq(sink_wait(sink, "/ready", 1, ARRIVE_MS)->body, "2");
    cr_expect_str_eq(sink_wait(sink, "/held", 1, ARRIVE_MS)->body, "1");
}

Test(edit, patch_of_the_time_takes_a_ready_task_back)
{
    expect_in_every_state("PATCH", "", "{\"delay\":\"1h\"}", SCHEDULED | READY);
    cr_expect_str_eq(json_text_at(client_get_task(api, "ready")->json, "state"), "scheduled");
    sink_release(sink);
    task_reaches(api, "delivering", "delivered", ARRIVE_MS);
    create("after", "/after", "");
    sink_wait(sink, "/after", 1, ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/ready"), 0);
}

Test(edit, run_makes_due_what_is_scheduled_or_ready)
{
    expect_in_every_state("POST", "/run", NULL, SCHEDULED | READY);
    sink_release(sink);
    sink_wait(sink, "/later", 1, ARRIVE_MS);
    sink_wait(sink, "/ready", 1, ARRIVE_MS);
    task_reaches(api, "scheduled", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, "/fine"), 1);
}

Test(edit, redrive_revives_what_is_dead_expired_or_cancelled)
{
    expect_in_every_state("POST", "/redrive", NULL, DEAD | CANCELLED | EXPIRED);
    sink_release(sink);
    json_t *task = task_reaches(api, "dead", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    cr_expect_eq(json_array_size(json_at(task, "history")), 2, "it had an attempt in its first life");
    task_reaches(api, "cancelled", "delivered", ARRIVE_MS);
    task = task_reaches(api, "expired", "delivered", ARRIVE_MS);
    cr_expect(json_null_at(task, "expires_at"), "an expiry that has passed is dropped");
    cr_expect_eq(json_integer_at(client_get(api, "/stats")->json, "totals.redriven"), 3);
    cr_expect_eq(sink_count(sink, "/fine"), 3);
}

/* ---- what a patch changes ---- */

Test(edit, a_patch_may_change_everything_and_the_receiver_sees_it)
{
    create("a", "/old", ",\"delay\":\"1h\",\"payload\":{\"n\":1},\"headers\":{\"X-Old\":\"1\"}");
    char body[500];

    (void)snprintf(body, sizeof(body),
                   "{\"url\":\"%s\",\"method\":\"PUT\",\"headers\":{\"X-New\":\"2\"},\"body\":\"text\",\"delay\":0,"
                   "\"timeout\":\"7s\",\"retry\":{\"max_attempts\":3}}",
                   sink_url(sink, "/new"));
    json_t *task = patched("a", body);
    cr_expect_str_eq(json_text_at(task, "method"), "PUT");
    cr_expect_str_eq(json_text_at(task, "url"), sink_url(sink, "/new"));
    cr_expect_eq(json_integer_at(task, "max_attempts"), 3);
    const struct sink_request *r = sink_wait(sink, "/new", 1, ARRIVE_MS);
    cr_expect_str_eq(r->method, "PUT");
    cr_expect_str_eq(r->body, "text");
    cr_expect_str_eq(sink_header(r, "x-new"), "2");
    cr_expect_null(sink_header(r, "x-old"));
    cr_expect_str_eq(sink_header(r, "content-type"), "text/plain; charset=utf-8");
    cr_expect_eq(sink_count(sink, "/old"), 0);
}

Test(edit, an_empty_patch_changes_nothing)
{
    create("a", "/later", ",\"delay\":\"1h\",\"payload\":{\"n\": 1.50},\"headers\":{\"X\":\"1\"},\"timeout\":\"3s\"");
    json_t *before = json_deep_copy(client_get_task(api, "a")->json);

    patched("a", "{}");
    cr_expect(json_equal(before, client_get_task(api, "a")->json));
    json_decref(before);
}

Test(edit, a_patched_body_is_shown_under_its_new_member)
{
    create("a", "/later", ",\"delay\":\"1h\",\"payload\":{\"n\":1}");
    patched("a", "{\"body_base64\":\"AP8Q\"}");
    json_t *task = client_get_task(api, "a")->json;
    cr_expect_str_eq(json_text_at(task, "body_base64"), "AP8Q");
    cr_expect_null(json_at(task, "payload"));
    patched("a", "{\"payload\":[ 1.10 ]}");
    const struct reply *r = client_get_task(api, "a");
    cr_expect_not_null(strstr(r->body, "[ 1.10 ]"), "byte for byte: %s", r->body);
    cr_expect_null(json_at(r->json, "body_base64"));
}

Test(edit, a_patched_time_is_kept_to_the_millisecond)
{
    create("a", "/soon", ",\"delay\":\"1h\"");
    int64_t run_at_ms = wait_wall_ms() + 300;
    char body[100];

    (void)snprintf(body, sizeof(body), "{\"run_at\":%lld}", (long long)run_at_ms);
    cr_expect_eq(json_time_at(patched("a", body), "run_at"), run_at_ms);
    const struct sink_request *r = sink_wait(sink, "/soon", 1, ARRIVE_MS);
    cr_expect_geq(r->arrived_us, run_at_ms * 1000);
    cr_expect_eq(time_to_ms(sink_header(r, "duepost-due")), run_at_ms);
}

Test(edit, a_past_time_is_now)
{
    create("a", "/soon", ",\"delay\":\"1h\"");
    int64_t before_ms = wait_wall_ms();
    json_t *task = patched("a", "{\"run_at\":\"2001-01-01T00:00:00Z\"}");

    cr_expect_geq(json_time_at(task, "run_at"), before_ms);
    sink_wait(sink, "/soon", 1, ARRIVE_MS);
}

Test(edit, a_task_that_waits_for_its_next_attempt_goes_elsewhere)
{
    char body[200];

    SINK_SCRIPT(sink, "/bad", {.status = 500});
    create("a", "/bad", ",\"payload\":1,\"retry\":{\"schedule\":[\"1h\"]}");
    WAIT_UNTIL(json_integer_at(client_get_task(api, "a")->json, "attempts") == 1, ARRIVE_MS);
    int64_t next_ms = json_time_at(client_get_task(api, "a")->json, "next_attempt_at");
    (void)snprintf(body, sizeof(body), "{\"url\":\"%s\"}", sink_url(sink, "/good"));
    json_t *task = patched("a", body);
    cr_expect_eq(json_time_at(task, "next_attempt_at"), next_ms, "only its url changes");
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    patched("a", "{\"delay\":0}");
    const struct sink_request *r = sink_wait(sink, "/good", 1, ARRIVE_MS);
    cr_expect_str_eq(sink_header(r, "duepost-attempt"), "2");
    task = task_reaches(api, "a", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(task, "attempts"), 2);
}

Test(edit, a_patched_expiry_ends_the_task)
{
    create("a", "/later", ",\"delay\":\"1h\"");
    json_t *task = patched("a", "{\"expires_in\":\"2h\"}");

    cr_expect_gt(json_time_at(task, "expires_at"), wait_wall_ms() + 7000000);
    patched("a", "{\"expires_in\":50}");
    task_reaches(api, "a", "expired", ARRIVE_MS);
}

Test(edit, retry_that_is_patched_is_replaced_whole)
{
    create("a", "/later", ",\"delay\":\"1h\",\"retry\":{\"max_attempts\":3,\"initial\":\"2s\"}");
    cr_expect_eq(json_integer_at(patched("a", "{\"retry\":{\"jitter\":0}}"), "max_attempts"), 10);
}

Test(edit, a_repeat_of_its_creation_still_knows_a_patched_task)
{
    const char *body = "{\"id\":\"a\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}";

    cr_assert_eq(client_post(api, "/tasks", body)->status, 201);
    patched("a", "{\"payload\":5,\"delay\":\"2h\"}");
    const struct reply *r = client_post(api, "/tasks", body);
    cr_expect_eq(r->status, 200, "%d %s", r->status, r->body);
}

Test(edit, run_sends_at_once_and_says_when_it_was_due)
{
    create("a", "/now", ",\"delay\":\"1h\"");
    int64_t before_ms = wait_wall_ms();
    const struct reply *r = ask("POST", "a", "/run", "{}");

    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    int64_t run_at_ms = json_time_at(r->json, "run_at");
    cr_expect(run_at_ms >= before_ms && run_at_ms <= wait_wall_ms());
    const struct sink_request *got = sink_wait(sink, "/now", 1, ARRIVE_MS);
    cr_expect_eq(time_to_ms(sink_header(got, "duepost-due")), run_at_ms);
}

Test(edit, a_redriven_task_begins_again_at_its_first_attempt)
{
    SINK_SCRIPT(sink, "/bad", {.status = 500}, {.status = 500}, {.status = 200});
    create("a", "/bad", ",\"payload\":7,\"retry\":{\"max_attempts\":2,\"initial\":1,\"max\":1}");
    task_reaches(api, "a", "dead", ARRIVE_MS);
    const struct reply *r = ask("POST", "a", "/redrive", NULL);
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_eq(json_integer_at(r->json, "attempts"), 0);
    cr_expect(json_null_at(r->json, "finished_at"));
    cr_expect_eq(json_time_at(r->json, "next_attempt_at"), json_time_at(r->json, "run_at"));
    const struct sink_request *got = sink_wait(sink, "/bad", 3, ARRIVE_MS);
    cr_expect_str_eq(sink_header(got, "duepost-attempt"), "1");
    cr_expect_str_eq(sink_header(got, "webhook-id"), "a");
    cr_expect_str_eq(got->body, "7");
    task_reaches(api, "a", "delivered", ARRIVE_MS);
    json_t *stats = client_get(api, "/stats")->json;
    cr_expect_eq(json_integer_at(stats, "tasks.dead"), 0);
    cr_expect_eq(json_integer_at(stats, "totals.redriven"), 1);
}

/* ---- refused ---- */

Test(edit, a_wrong_patch_is_refused_with_every_pointer)
{
    static const struct {
        const char *body;
        const char *pointers;
    } rows[] = {
        {"{\"id\":\"b\",\"queue\":\"q\",\"durability\":\"memory\"}", "/id /queue /durability"},
        {"{\"url\":\"ftp://x\",\"delay\":-1,\"frob\":1}", "/url /delay /frob"},
        {"{\"url\":null}", "/url"},
        {"{\"delay\":1,\"run_at\":1}", "/delay /run_at"},
        {"{\"payload\":1,\"body\":\"\"}", "/payload /body"},
        {"{\"expires_in\":1,\"expires_at\":1}", "/expires_in /expires_at"},
        {"{\"timeout\":1,\"timeout\":\"5s\"}", "/timeout /timeout"},
        {"{\"headers\":{\"Host\":\"x\"}}", "/headers/Host"},
        {"{\"retry\":{\"max_attempts\":0}}", "/retry/max_attempts"},
        {"[]", ""},
    };

    create("a", "/later", ",\"delay\":\"1h\",\"payload\":1");
    json_t *before = json_deep_copy(client_get_task(api, "a")->json);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct reply *r = patch("a", rows[i].body);
        char pointers[200] = "";

        cr_assert_eq(r->status, 400, "%s: %d %s", rows[i].body, r->status, r->body);
        cr_expect_str_eq(json_text_at(r->json, "code"), "invalid_request");
        for (size_t k = 0; k < json_array_size(json_object_get(r->json, "errors")); k++) {
            json_t *fault = json_array_get(json_object_get(r->json, "errors"), k);
            size_t used = strlen(pointers);
            (void)snprintf(pointers + used, sizeof(pointers) - used, "%s%s", k > 0 ? " " : "",
                           json_text_at(fault, "pointer"));
        }
        cr_expect_str_eq(pointers, rows[i].pointers, "%s", rows[i].body);
    }
    cr_expect(json_equal(before, client_get_task(api, "a")->json), "a refused patch changes nothing");
    json_decref(before);
}

Test(edit, what_is_wrong_with_the_request_is_said_before_what_is_wrong_with_the_state)
{
    char large[5000];

    memset(large, ' ', sizeof(large));
    memcpy(large, "{}", 2);
    large[sizeof(large) - 1] = '\0';
    cr_expect_eq(patch("nobody", "{\"frob\":1}")->status, 400);
    cr_expect_eq(patch("nobody", "{")->status, 400);
    cr_expect_eq(patch("nobody", NULL)->status, 415, "a body is needed");
    cr_expect_eq(patch("nobody", large)->status, 413);
    cr_expect_eq(patch("-no-id", "{}")->status, 404);
    cr_expect_eq(ask("POST", "-no-id", "/run", NULL)->status, 404);
    cr_expect_eq(ask("POST", "-no-id", "/redrive", NULL)->status, 404);
    cr_expect_eq(ask("POST", "nobody", "/run", "{\"now\":true}")->status, 400);
    cr_expect_eq(ask("POST", "nobody", "/redrive", "{\"now\":true}")->status, 400);
    cr_expect_eq(ask("GET", "nobody", "/run", NULL)->status, 405);
    cr_expect_eq(ask("POST", "nobody", "/frob", NULL)->status, 404);
    cr_expect_eq(ask("PATCH", "nobody", "?x=1", "{}")->status, 400);
}

Test(edit, without_redis_each_is_503_in_bounded_time)
{
    static const struct {
        const char *method, *action, *body;
    } rows[] = {{"PATCH", "", "{\"payload\":1}"}, {"POST", "/run", NULL}, {"POST", "/redrive", NULL}};

    create("a", "/later", ",\"delay\":\"1h\"");
    redis_fixture_pause(redis);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct reply *r = ask(rows[i].method, "a", rows[i].action, rows[i].body);
        cr_expect_eq(r->status, 503, "%s %s: %d %s", rows[i].method, rows[i].action, r->status, r->body);
        cr_expect_str_eq(json_text_at(r->json, "code"), "store_unavailable");
        cr_expect_not_null(reply_header(r, "retry-after"));
        cr_expect_lt(r->duration_ms, wait_scaled_ms(2500));
    }
    redis_fixture_resume(redis);
    WAIT_UNTIL(patch("a", "{\"payload\":2}")->status == 200, ARRIVE_MS);
}
