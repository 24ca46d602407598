/* Idempotency-Key on POST /tasks: what a repeated request is answered, and what a failed one leaves behind. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include "../support/wire.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define TASK "{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}"
#define LATER_TASK "{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"2h\"}"

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(idempotency, .init = setup, .fini = teardown, .timeout = 300);

static const struct reply *post_with(const char *key, const char *body)
{
    char header[400];
    const char *const headers[] = {header, NULL};

    (void)snprintf(header, sizeof(header), "Idempotency-Key: %s", key);
    return client_request(
        w->api, &(struct client_request){.method = "POST", .path = "/tasks", .body = body, .headers = headers});
}

static void expect_conflict(const struct reply *r, const char *code, const char *state)
{
    cr_assert_eq(r->status, 409, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(r->json, "code"), code);
    cr_expect_str_eq(json_text_at(r->json, "state"), state);
}

static json_int_t total(const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "totals.%s", name);
    return json_integer_at(client_get(w->api, "/stats")->json, path);
}

Test(idempotency, the_same_request_again_answers_with_the_task_as_it_is_now)
{
    const struct reply *first = post_with("a", TASK);

    cr_assert_eq(first->status, 201, "%d %s", first->status, first->body);
    const char *id = json_text_at(first->json, "id");
    cr_assert_eq(client_delete_task(w->api, id)->status, 204);
    const struct reply *again = post_with("a", TASK);
    cr_assert_eq(again->status, 200, "%d %s", again->status, again->body);
    cr_expect_str_eq(json_text_at(again->json, "id"), id);
    cr_expect_str_eq(json_text_at(again->json, "state"), "cancelled");
    cr_expect_str_eq(reply_header(again, "location"), reply_header(first, "location"));
    cr_expect_eq(total("created"), 1);
    cr_expect_eq(total("duplicates"), 1);
}

Test(idempotency, another_request_under_the_key_is_a_conflict_that_says_the_state)
{
    cr_assert_eq(post_with("a", TASK)->status, 201);
    expect_conflict(post_with("a", LATER_TASK), "idempotency_key_conflict", "scheduled");
    cr_expect_eq(total("created"), 1);
}

Test(idempotency, keys_differ_by_every_character)
{
    static const char *const keys[] = {"a", "A", "aa", "a b", "a  b", "\"a\"", "duepost{0}", "~!@#$%^&*()"};
    size_t count = sizeof(keys) / sizeof(keys[0]);

    for (size_t i = 0; i < count; i++)
        cr_expect_eq(post_with(keys[i], TASK)->status, 201, "%s", keys[i]);
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(post_with(keys[i], TASK)->status, 200, "%s", keys[i]);
    cr_expect_eq(total("created"), (json_int_t)count);
}

Test(idempotency, the_key_outlives_the_tasks_record)
{
    const struct reply *first = post_with("a", TASK);
    const char *id = json_text_at(first->json, "id");

    redis_fixture_run(w->redis, "DEL duepost{0}%s", id);
    const struct reply *again = post_with("a", TASK);
    cr_assert_eq(again->status, 200, "%d %s", again->status, again->body);
    cr_expect_eq(json_object_size(again->json), 2);
    cr_expect_str_eq(json_text_at(again->json, "id"), id);
    cr_expect_str_eq(json_text_at(again->json, "state"), "gone");
    cr_expect_null(reply_header(again, "location"));
    expect_conflict(post_with("a", LATER_TASK), "idempotency_key_conflict", "gone");
}

Test(idempotency, a_key_is_kept_for_a_day)
{
    cr_assert_eq(post_with("a", TASK)->status, 201);
    redisReply *keys = redis_fixture_command(w->redis, "KEYS duepost{0}:k:*");
    cr_assert_eq(keys->elements, 1);
    long long left_ms = redis_fixture_integer(w->redis, "PTTL %s", keys->element[0]->str);
    cr_expect(left_ms > 86390000 && left_ms <= 86400000, "%lld ms", left_ms);
    redis_fixture_run(w->redis, "DEL %s", keys->element[0]->str); /* as when it has expired */
    freeReplyObject(keys);
    cr_expect_eq(post_with("a", LATER_TASK)->status, 201);
}

Test(idempotency, a_repeated_request_is_delivered_once)
{
    char body[256];

    (void)snprintf(body, sizeof(body), "{\"url\":\"%s\"}", sink_url(w->sink, "/once"));
    const char *id = json_text_at(post_with("a", body)->json, "id");
    for (int i = 0; i < 20; i++)
        cr_expect_eq(post_with("a", body)->status, 200);
    task_reaches(w->api, id, "delivered", ARRIVE_MS);
    cr_expect_eq(post_with("a", body)->status, 200);
    cr_expect_eq(sink_count(w->sink, "/once"), 1);
}

Test(idempotency, a_refused_request_claims_nothing)
{
    cr_assert_eq(post_with("a", "{\"url\":7}")->status, 400);
    cr_assert_eq(post_with("a", "{")->status, 400);
    cr_expect_eq(post_with("a", TASK)->status, 201);
}

Test(idempotency, a_request_that_failed_without_redis_claims_nothing)
{
    redis_fixture_kill(w->redis);
    cr_assert_eq(post_with("a", TASK)->status, 503);
    redis_fixture_start(w->redis);
    WAIT_UNTIL(client_get(w->api, "/readyz")->status == 200, ARRIVE_MS);
    cr_expect_eq(post_with("a", LATER_TASK)->status, 201);
}

/* One id, and keys besides: the key is looked at first. */
Test(idempotency, an_id_conflict_leaves_the_key_free)
{
    static const char one[] = "{\"id\":\"x\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}";
    static const char other[] = "{\"id\":\"x\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"2h\"}";

    cr_assert_eq(post_with("first", one)->status, 201);
    expect_conflict(post_with("second", other), "id_conflict", "scheduled");
    cr_expect_eq(post_with("second", TASK)->status, 201, "the key was not claimed by the conflict");
    expect_conflict(post_with("first", other), "idempotency_key_conflict", "scheduled");
}

Test(idempotency, a_request_that_is_known_by_its_id_claims_its_key_too)
{
    static const char one[] = "{\"id\":\"x\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}";

    cr_assert_eq(client_post(w->api, "/tasks", one)->status, 201);
    cr_assert_eq(post_with("a", one)->status, 200);
    expect_conflict(post_with("a", TASK), "idempotency_key_conflict", "scheduled");
    redis_fixture_run(w->redis, "DEL duepost{0}x");
    cr_expect_str_eq(json_text_at(post_with("a", one)->json, "state"), "gone");
    cr_expect_eq(client_post(w->api, "/tasks", one)->status, 201, "without the key the id is free again");
}

Test(idempotency, blanks_around_a_key_do_not_count)
{
    static const char *const ways[] = {"k", " k", "k ", "\t k \t"};
    int port = (int)strtol(strrchr(w->gateway->url, ':') + 1, NULL, 10);

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        char request[1024];
        struct wire *wire = NULL;

        (void)snprintf(request, sizeof(request),
                       "POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                       "Idempotency-Key:%s\r\n\r\n%s",
                       strlen(TASK), ways[i], TASK);
        cr_expect_eq(wire_ask(port, request, &wire)->status, i == 0 ? 201 : 200, "'%s'", ways[i]);
        wire_hang_up(&wire);
    }
    cr_expect_eq(total("created"), 1);
}

static void expect_wrong_key(const char *headers)
{
    char request[1024];
    struct wire *wire = NULL;
    int port = (int)strtol(strrchr(w->gateway->url, ':') + 1, NULL, 10);

    (void)snprintf(
        request, sizeof(request),
        "POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
        strlen(TASK), headers, TASK);
    const struct wire_answer *a = wire_ask(port, request, &wire);
    cr_expect_eq(a->status, 400, "%.60s: %d %s", headers, a->status, a->body);
    cr_expect_str_eq(json_text_at(a->json, "code"), "invalid_header");
    cr_expect_str_eq(json_text_at(a->json, "errors.0.header"), "Idempotency-Key");
    wire_hang_up(&wire);
}

Test(idempotency, a_wrong_key_is_refused_and_stores_nothing)
{
    char longest[256], too_long[400];

    memset(longest, 'k', 255);
    longest[255] = '\0';
    cr_expect_eq(post_with(longest, TASK)->status, 201);
    (void)snprintf(too_long, sizeof(too_long), "Idempotency-Key: k%s\r\n", longest);
    expect_wrong_key(too_long);
    expect_wrong_key("Idempotency-Key:\r\n");
    expect_wrong_key("Idempotency-Key:   \r\n");
    expect_wrong_key("Idempotency-Key: a\tb\r\n");
    expect_wrong_key("Idempotency-Key: caf\xc3\xa9\r\n");
    expect_wrong_key("Idempotency-Key: a\r\nidempotency-key: a\r\n");
    cr_expect_eq(total("created"), 1);
}
