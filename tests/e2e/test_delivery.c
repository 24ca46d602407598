/* What the receiver sees and what its answer means: the request on the wire, signatures, failures, retries, and that
 * no attempt ever comes early. Lateness has only loose bounds here; `make bench` measures it. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

TestSuite(delivery, .init = setup, .fini = teardown, .timeout = 300);

/* Post a task `id` to `path` with `more` members (beginning with a comma, or empty). */
static json_t *post(const char *id, const char *path, const char *more)
{
    const struct reply *r =
        client_post_task(w->api, "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, sink_url(w->sink, path), more);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    return r->json;
}

Test(delivery, the_request_carries_the_contracts_headers)
{
    json_t *task = post("wire:1", "/hook?a=1&b=%20#part", ",\"queue\":\"mail\",\"payload\":{\"a\":1}");
    const struct sink_request *r = sink_wait(w->sink, "/hook?a=1&b=%20", 1, ARRIVE_MS);
    char host[32];

    (void)snprintf(host, sizeof(host), "127.0.0.1:%d", sink_port(w->sink));
    cr_expect_str_eq(r->method, "POST");
    cr_expect_str_eq(sink_header(r, "host"), host);
    cr_expect_str_eq(sink_header(r, "webhook-id"), "wire:1");
    cr_expect_str_eq(sink_header(r, "duepost-attempt"), "1");
    cr_expect_str_eq(sink_header(r, "duepost-queue"), "mail");
    cr_expect_str_eq(sink_header(r, "duepost-due"), json_text_at(task, "run_at"));
    cr_expect_str_eq(sink_header(r, "content-type"), "application/json");
    cr_expect_str_eq(sink_header(r, "content-length"), "7");
    cr_expect_eq(strncmp(sink_header(r, "user-agent"), "duepost/", 8), 0);
    cr_expect_null(sink_header(r, "webhook-signature"), "there is no secret to sign with");
    cr_expect_null(sink_header(r, "transfer-encoding"));
    cr_expect_null(sink_header(r, "expect"));
    cr_expect_null(sink_header(r, "accept-encoding"));
    cr_expect_str_eq(r->body, "{\"a\":1}");
}

Test(delivery, no_header_is_sent_twice)
{
    post("once", "/once",
         ",\"payload\":1,\"headers\":{\"content-type\":\"text/x\",\"user-agent\":\"me\",\"ACCEPT\":\"a/b\"}");
    const struct sink_request *r = sink_wait(w->sink, "/once", 1, ARRIVE_MS);

    cr_expect_eq(json_array_size(r->raw_names), json_object_size(r->headers), "%s", r->head);
    cr_expect_str_eq(sink_header(r, "content-type"), "text/x");
    cr_expect_str_eq(sink_header(r, "user-agent"), "me");
    cr_expect_str_eq(sink_header(r, "accept"), "a/b");
}

Test(delivery, the_tasks_own_headers_are_sent_as_given)
{
    post("own", "/own", ",\"headers\":{\"X-Shop\":\"17 a;b\",\"Authorization\":\"Bearer t\",\"X-Empty\":\"\"}");
    const struct sink_request *r = sink_wait(w->sink, "/own", 1, ARRIVE_MS);

    cr_expect_str_eq(sink_header(r, "x-shop"), "17 a;b");
    cr_expect_str_eq(sink_header(r, "authorization"), "Bearer t");
    cr_assert_not_null(sink_header(r, "x-empty"), "an empty value is a value");
    cr_expect_str_eq(sink_header(r, "x-empty"), "");
}

Test(delivery, every_method_is_sent)
{
    static const struct {
        const char *name;
        const char *length; /* of an empty body */
    } methods[] = {{"GET", NULL}, {"POST", "0"}, {"PUT", "0"}, {"PATCH", "0"}, {"DELETE", NULL}};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char path[32], more[64];
        (void)snprintf(path, sizeof(path), "/method/%s", methods[i].name);
        (void)snprintf(more, sizeof(more), ",\"method\":\"%s\"", methods[i].name);
        post(methods[i].name, path, more);
        const struct sink_request *r = sink_wait(w->sink, path, 1, ARRIVE_MS);
        cr_expect_str_eq(r->method, methods[i].name);
        cr_expect_null(sink_header(r, "content-type"), "%s without a body", methods[i].name);
        if (methods[i].length)
            cr_expect_str_eq(sink_header(r, "content-length"), methods[i].length, "%s", methods[i].name);
        task_reaches(w->api, methods[i].name, "delivered", ARRIVE_MS);
    }
}

Test(delivery, a_body_goes_with_every_method)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char path[32], more[64];
        (void)snprintf(path, sizeof(path), "/body/%s", methods[i]);
        (void)snprintf(more, sizeof(more), ",\"method\":\"%s\",\"payload\":[1]", methods[i]);
        post(methods[i], path, more);
        const struct sink_request *r = sink_wait(w->sink, path, 1, ARRIVE_MS);
        cr_expect_str_eq(r->method, methods[i]);
        cr_expect_str_eq(r->body, "[1]", "%s", methods[i]);
    }
}

Test(delivery, text_and_bytes_are_sent_as_they_are)
{
    post("text", "/text", ",\"body\":\"h\\u00e9\\u0000\\n\"");
    post("bytes", "/bytes", ",\"body_base64\":\"AP8Q\"");
    post("typed", "/typed", ",\"body\":\"<a/>\",\"headers\":{\"Content-Type\":\"text/xml\"}");
    const struct sink_request *text = sink_wait(w->sink, "/text", 1, ARRIVE_MS);
    const struct sink_request *bytes = sink_wait(w->sink, "/bytes", 1, ARRIVE_MS);
    const struct sink_request *typed = sink_wait(w->sink, "/typed", 1, ARRIVE_MS);

    cr_expect_str_eq(sink_header(text, "content-type"), "text/plain; charset=utf-8");
    cr_expect_eq(text->body_bytes, 5);
    cr_expect_arr_eq(text->body, "h\xc3\xa9\0\n", 5);
    cr_expect_str_eq(sink_header(bytes, "content-type"), "application/octet-stream");
    cr_expect_eq(bytes->body_bytes, 3);
    cr_expect_arr_eq(bytes->body, "\0\xff\x10", 3);
    cr_expect_str_eq(sink_header(typed, "content-type"), "text/xml");
}

Test(delivery, a_large_payload_arrives_whole)
{
    enum { BYTES = 900000 };
    char *more = calloc(1, BYTES + 64);

    memcpy(more, ",\"payload\":\"", 12);
    memset(more + 12, 'y', BYTES);
    more[12 + BYTES] = '"';
    post("large", "/large", more);
    const struct sink_request *r = sink_wait(w->sink, "/large", 1, ARRIVE_MS);
    cr_assert_eq(r->body_bytes, BYTES + 2);
    cr_expect_eq(memcmp(r->body, more + 11, BYTES + 2), 0);
    free(more);
}

/* The secrets below are base64 of these bytes. */
static const char old_key[] = "0123456789abcdefghijklmn";
static const char new_key[] = "NEWNEWNEWNEWNEWNEWNEWNEWNEWNEWNE";

static void sign(char out[64], const char *key, const struct sink_request *r)
{
    unsigned char mac[32];
    unsigned int mac_bytes = sizeof(mac);
    char *text = NULL;
    int n = asprintf(&text, "%s.%s.%s", sink_header(r, "webhook-id"), sink_header(r, "webhook-timestamp"), r->body);

    cr_assert_gt(n, 0);
    HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text, (size_t)n, mac, &mac_bytes);
    memcpy(out, "v1,", 4);
    EVP_EncodeBlock((unsigned char *)out + 3, mac, (int)mac_bytes);
    free(text);
}

Test(delivery, every_attempt_is_signed_by_every_secret)
{
    static const char *const env[] = {"DUEPOST_SIGNING_SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u,"
                                      "whsec_TkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkU=",
                                      NULL};
    struct gateway *g = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(w->redis), .env = env});

    gateway_stop(w->gateway); /* only the one with secrets is left */
    SINK_SCRIPT(w->sink, "/signed", {.status = 500}, {.status = 200});
    const struct reply *reply = client_post_task(
        g->api, "{\"id\":\"s\",\"url\":\"%s\",\"payload\":{\"n\":1.0},\"retry\":{\"schedule\":[\"1100ms\"]}}",
        sink_url(w->sink, "/signed"));
    cr_assert_eq(reply->status, 201);
    for (size_t n = 1; n <= 2; n++) {
        const struct sink_request *r = sink_wait(w->sink, "/signed", n, ARRIVE_MS);
        char by_old[64], by_new[64], both[160];
        sign(by_old, old_key, r);
        sign(by_new, new_key, r);
        (void)snprintf(both, sizeof(both), "%s %s", by_old, by_new);
        cr_expect_str_eq(sink_header(r, "webhook-signature"), both);
        long long age_s = r->arrived_us / 1000000 - strtoll(sink_header(r, "webhook-timestamp"), NULL, 10);
        cr_expect(age_s >= 0 && age_s <= 5, "the timestamp of attempt %zu is %lld s old", n, age_s);
    }
    gateway_destroy(&g);
}

Test(delivery, a_failed_attempt_is_repeated_on_schedule_with_the_same_id)
{
    SINK_SCRIPT(w->sink, "/flaky", {.status = 500}, {.status = 404}, {.status = 0}, {.status = 202});
    post("flaky", "/flaky", ",\"retry\":{\"schedule\":[\"100ms\",\"200ms\"],\"max_attempts\":5}");
    json_t *task = task_reaches(w->api, "flaky", "delivered", ARRIVE_MS);
    static const int64_t gaps_ms[] = {0, 100, 200, 200};

    cr_expect_eq(json_integer_at(task, "attempts"), 4);
    cr_expect_eq(json_integer_at(task, "last_attempt.status"), 202);
    cr_assert_eq(sink_count(w->sink, "/flaky"), 4, "each request is one attempt");
    for (size_t n = 1; n <= 4; n++) {
        const struct sink_request *r = sink_wait(w->sink, "/flaky", n, 1);
        char attempt[24];
        (void)snprintf(attempt, sizeof(attempt), "%zu", n);
        cr_expect_str_eq(sink_header(r, "webhook-id"), "flaky");
        cr_expect_str_eq(sink_header(r, "duepost-attempt"), attempt);
        if (n > 1) {
            int64_t gap_us = r->arrived_us - sink_wait(w->sink, "/flaky", n - 1, 1)->arrived_us;
            cr_expect_geq(gap_us, gaps_ms[n - 1] * 1000, "attempt %zu came after %lld us", n, (long long)gap_us);
        }
    }
}

Test(delivery, backoff_grows_and_attempts_end_in_dead)
{
    SINK_SCRIPT(w->sink, "/down", {.status = 503});
    post("down", "/down",
         ",\"retry\":{\"max_attempts\":4,\"initial\":50,\"multiplier\":2,\"max\":\"120ms\",\"jitter\":0.5}");
    json_t *task = task_reaches(w->api, "down", "dead", ARRIVE_MS);
    static const int64_t gaps_ms[] = {50, 100, 120};

    cr_expect_eq(json_integer_at(task, "attempts"), 4);
    cr_expect_eq(json_integer_at(task, "max_attempts"), 4);
    cr_assert_eq(sink_count(w->sink, "/down"), 4);
    for (size_t n = 2; n <= 4; n++) {
        int64_t gap_us =
            sink_wait(w->sink, "/down", n, 1)->arrived_us - sink_wait(w->sink, "/down", n - 1, 1)->arrived_us;
        cr_expect_geq(gap_us, gaps_ms[n - 2] * 1000, "attempt %zu came after %lld us", n, (long long)gap_us);
    }
}

Test(delivery, max_age_ends_a_task_before_its_attempts_are_used_up)
{
    SINK_SCRIPT(w->sink, "/old", {.status = 500});
    post("old", "/old", ",\"retry\":{\"schedule\":[\"150ms\"],\"max_attempts\":1000,\"max_age\":\"500ms\"}");
    json_t *task = task_reaches(w->api, "old", "dead", ARRIVE_MS);

    cr_expect_leq(json_integer_at(task, "attempts"), 4);
    /* What counts is when an attempt should begin; when it does is another matter. */
    json_t *history = json_at(task, "history");
    cr_assert_eq((json_int_t)json_array_size(history), json_integer_at(task, "attempts"));
    for (size_t i = 0; i + 1 < json_array_size(history); i++) {
        int64_t at = json_time_at(json_array_get(history, i), "at");
        cr_expect_leq(at - json_time_at(task, "run_at"), 500 - 150, "attempt %zu was followed by another", i + 1);
    }
}

Test(delivery, retry_after_moves_the_next_attempt_later_but_never_earlier)
{
    SINK_SCRIPT(w->sink, "/later", {.status = 429, .headers = "Retry-After: 1\r\n"}, {.status = 200});
    SINK_SCRIPT(w->sink, "/sooner", {.status = 503, .headers = "Retry-After: 0\r\n"}, {.status = 200});
    SINK_SCRIPT(w->sink, "/day", {.status = 503, .headers = "Retry-After: 9999999999\r\n"}, {.status = 200});
    SINK_SCRIPT(w->sink, "/twice", {.status = 503, .headers = "Retry-After: 60\r\nRetry-After: 60\r\n"},
                {.status = 200});
    SINK_SCRIPT(w->sink, "/nonsense", {.status = 503, .headers = "Retry-After: 4.5\r\n"}, {.status = 200});
    post("later", "/later", ",\"retry\":{\"schedule\":[1]}");
    post("sooner", "/sooner", ",\"retry\":{\"schedule\":[\"300ms\"]}");
    post("day", "/day", ",\"retry\":{\"schedule\":[1]}");
    post("twice", "/twice", ",\"retry\":{\"schedule\":[1]}");
    post("nonsense", "/nonsense", ",\"retry\":{\"schedule\":[1]}");
    task_reaches(w->api, "later", "delivered", ARRIVE_MS);
    task_reaches(w->api, "sooner", "delivered", ARRIVE_MS);
    task_reaches(w->api, "twice", "delivered", ARRIVE_MS);
    task_reaches(w->api, "nonsense", "delivered", ARRIVE_MS);
    int64_t later_us = sink_wait(w->sink, "/later", 2, 1)->arrived_us - sink_wait(w->sink, "/later", 1, 1)->arrived_us;
    int64_t sooner_us =
        sink_wait(w->sink, "/sooner", 2, 1)->arrived_us - sink_wait(w->sink, "/sooner", 1, 1)->arrived_us;

    cr_expect_geq(later_us, 1000000, "%lld us", (long long)later_us);
    cr_expect_geq(sooner_us, 300000, "%lld us", (long long)sooner_us);
    json_t *day = client_get_task(w->api, "day")->json;
    int64_t wait_ms = json_time_at(day, "next_attempt_at") - json_time_at(day, "last_attempt.at");
    cr_expect(wait_ms >= 86400000 && wait_ms < 86460000, "the wait is %lld ms, not 24 h", (long long)wait_ms);
}

Test(delivery, gone_means_dead_at_once)
{
    SINK_SCRIPT(w->sink, "/gone", {.status = 410});
    post("gone", "/gone", ",\"retry\":{\"schedule\":[1]}");
    json_t *task = task_reaches(w->api, "gone", "dead", ARRIVE_MS);

    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    cr_expect_eq(json_integer_at(task, "last_attempt.status"), 410);
}

Test(delivery, a_redirect_is_a_failure_and_never_followed)
{
    static const int statuses[] = {300, 301, 302, 303, 304, 307, 308};
    char *location = NULL;

    cr_assert(asprintf(&location, "Location: %s\r\n", sink_url(w->sink, "/elsewhere")) > 0);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        char path[32], id[32];
        (void)snprintf(path, sizeof(path), "/%d", statuses[i]);
        (void)snprintf(id, sizeof(id), "r-%d", statuses[i]);
        SINK_SCRIPT(w->sink, path, {.status = statuses[i], .headers = location});
        post(id, path, ",\"payload\":1,\"retry\":{\"max_attempts\":1}");
        json_t *task = task_reaches(w->api, id, "dead", ARRIVE_MS);
        cr_expect_eq(json_integer_at(task, "last_attempt.status"), statuses[i]);
    }
    cr_expect_eq(sink_count(w->sink, "/elsewhere"), 0);
    free(location);
}

Test(delivery, every_2xx_is_delivered_whatever_follows_its_head)
{
    static const struct {
        int status;
        const char *path, *headers;
    } cases[] = {{200, "/ok", NULL},
                 {204, "/empty", NULL},
                 {299, "/odd", NULL},
                 {200, "/gzip", "Content-Encoding: gzip\r\n"},
                 {200, "/cookie", "Set-Cookie: a=b\r\nRetry-After: 60\r\n"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SINK_SCRIPT(w->sink, cases[i].path,
                    {.status = cases[i].status, .headers = cases[i].headers, .body = "not gzip"});
        post(cases[i].path + 1, cases[i].path, "");
        json_t *task = task_reaches(w->api, cases[i].path + 1, "delivered", ARRIVE_MS);
        cr_expect_eq(json_integer_at(task, "last_attempt.status"), cases[i].status);
    }
    post("after", "/after", "");
    cr_expect_null(sink_header(sink_wait(w->sink, "/after", 1, ARRIVE_MS), "cookie"), "a cookie was kept");
}

Test(delivery, an_attempt_that_takes_too_long_fails_without_a_status)
{
    SINK_SCRIPT(w->sink, "/slow", {.status = 200, .is_held = true});
    post("slow", "/slow", ",\"timeout\":\"200ms\",\"retry\":{\"max_attempts\":1}");
    json_t *task = task_reaches(w->api, "slow", "dead", ARRIVE_MS);

    cr_expect(json_null_at(task, "last_attempt.status"));
    cr_expect_gt(strlen(json_text_at(task, "last_attempt.error")), 0);
    cr_expect_geq(json_integer_at(task, "last_attempt.duration_ms"), 200);
    cr_expect_eq(sink_count(w->sink, "/slow"), 1, "nothing is sent again behind the task's back");
}

Test(delivery, a_connection_closed_without_an_answer_is_one_failed_attempt)
{
    SINK_SCRIPT(w->sink, "/closed", {.status = 0});
    post("closed", "/closed", ",\"payload\":1,\"retry\":{\"max_attempts\":2,\"schedule\":[1]}");
    json_t *task = task_reaches(w->api, "closed", "dead", ARRIVE_MS);

    cr_expect(json_null_at(task, "last_attempt.status"));
    cr_expect_eq(json_integer_at(task, "attempts"), 2);
    cr_expect_eq(sink_count(w->sink, "/closed"), 2);
}

/* A port of 127.0.0.1 that is bound but does not listen: connecting is refused while *fd is open. */
static int refusing_port(int *fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(*fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(getsockname(*fd, (struct sockaddr *)&address, &length), 0);
    return ntohs(address.sin_port);
}

Test(delivery, a_refused_connection_is_a_failed_attempt)
{
    int fd;
    int port = refusing_port(&fd);
    const struct reply *r = client_post_task(
        w->api, "{\"id\":\"refused\",\"url\":\"http://127.0.0.1:%d/\",\"retry\":{\"max_attempts\":2,\"schedule\":[1]}}",
        port);

    cr_assert_eq(r->status, 201);
    json_t *task = task_reaches(w->api, "refused", "dead", ARRIVE_MS);
    cr_expect(json_null_at(task, "last_attempt.status"));
    cr_expect_eq(json_integer_at(task, "attempts"), 2);
    cr_expect_gt(strlen(json_text_at(task, "last_attempt.error")), 0);
    close(fd);
}

Test(delivery, a_name_that_leads_to_an_address_not_allowed_is_never_dialled)
{
    struct gateway *strict =
        gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(w->redis), .allow_net = "10.99.0.0/16"});

    gateway_stop(w->gateway);
    const struct reply *r = client_post_task(
        strict->api, "{\"id\":\"blocked\",\"url\":\"http://localhost:%d/in\",\"retry\":{\"max_attempts\":1}}",
        sink_port(w->sink));
    if (r->status == 201) {
        json_t *task = task_reaches(strict->api, "blocked", "dead", ARRIVE_MS);
        cr_expect(json_null_at(task, "last_attempt.status"));
        cr_expect_not_null(strstr(json_text_at(task, "last_attempt.error"), "allow-net"), "%s",
                           json_text_at(task, "last_attempt.error"));
    } else {
        cr_expect_eq(r->status, 400, "%d %s", r->status, r->body);
    }
    cr_assert_eq(sink_count(w->sink, NULL), 0);
    gateway_destroy(&strict);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

Test(delivery, no_task_comes_early_and_all_come_once)
{
    enum { TASKS = 200 };
    int64_t late_us[TASKS];

    for (int i = 0; i < TASKS; i++) {
        char id[32], more[64];
        (void)snprintf(id, sizeof(id), "odd-%d", i);
        (void)snprintf(more, sizeof(more), ",\"delay\":%d", i * 7919 % 1499);
        post(id, "/odd", more);
    }
    sink_wait(w->sink, "/odd", TASKS, 2 * ARRIVE_MS);
    for (int i = 0; i < TASKS; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "odd-%d", i);
        task_reaches(w->api, id, "delivered", ARRIVE_MS);
        const struct sink_request *r = sink_wait(w->sink, "/odd", (size_t)i + 1, 1);
        late_us[i] = r->arrived_us - time_to_ms(sink_header(r, "duepost-due")) * 1000;
        cr_expect_geq(late_us[i], 0, "%s came %lld us early", sink_header(r, "webhook-id"), (long long)-late_us[i]);
    }
    cr_assert_eq(sink_count(w->sink, "/odd"), TASKS);
    qsort(late_us, TASKS, sizeof(late_us[0]), compare);
    cr_expect_lt(late_us[TASKS / 2], wait_scaled_ms(100) * 1000, "half of the tasks are over %lld us late",
                 (long long)late_us[TASKS / 2]);
}

Test(delivery, a_hanging_receiver_does_not_hold_up_another)
{
    enum { HANGING = 600 }; /* more than there are slots */
    struct sink *other = sink_create();

    SINK_SCRIPT(w->sink, "/hang", {.status = 200, .is_held = true});
    for (int i = 0; i < HANGING; i++) {
        const struct reply *r =
            client_post_task(w->api, "{\"url\":\"%s\",\"timeout\":\"1m\"}", sink_url(w->sink, "/hang"));
        cr_assert_eq(r->status, 201);
    }
    const struct reply *r = client_post_task(w->api, "{\"url\":\"%s\"}", sink_url(other, "/quick"));
    cr_assert_eq(r->status, 201);
    sink_wait(other, "/quick", 1, 2000);
    sink_release(w->sink);
    sink_wait(w->sink, "/hang", HANGING, 4 * ARRIVE_MS);
    sink_destroy(&other);
}
