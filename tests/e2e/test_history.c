/* The attempts of a task: why each failed, and where its time went. */
#include "../support/certificate.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/receiver.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 20000
#define SLOW_MS 150

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(history, .init = setup, .fini = teardown, .timeout = 120);

static void post(const char *id, const char *url, const char *more)
{
    const struct reply *r = client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, url, more);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static double number_or_zero(json_t *attempt, const char *member)
{
    return json_null_at(attempt, member) ? 0 : json_number_at(attempt, member);
}

static void expect_sum_within_total(json_t *attempt)
{
    double sum = number_or_zero(attempt, "dns_ms") + number_or_zero(attempt, "connect_ms") +
                 number_or_zero(attempt, "tls_ms") + number_or_zero(attempt, "first_byte_ms");
    char *text = json_dumps(attempt, 0);

    cr_expect_leq(sum, json_number_at(attempt, "duration_ms") + 1e-6, "%s", text);
    free(text);
}

/* The only attempt of a task that is dead after it. */
static json_t *only_attempt(const char *id)
{
    json_t *task = task_reaches(gateway->api, id, "dead", ARRIVE_MS);

    cr_assert_eq(json_array_size(json_at(task, "history")), 1, "%s", id);
    cr_expect_str_eq(json_text_at(task, "last_attempt.error_kind"), json_text_at(task, "history.0.error_kind"));
    cr_expect_eq(json_integer_at(task, "last_attempt.duration_ms"),
                 (json_int_t)json_number_at(task, "history.0.duration_ms"));
    return json_at(task, "history.0");
}

static void expect_kind(const char *url, const char *more, const char *kind)
{
    char with_retry[128];

    (void)snprintf(with_retry, sizeof(with_retry), ",\"retry\":{\"max_attempts\":1}%s", more);
    post(kind, url, with_retry);
    json_t *attempt = only_attempt(kind);
    cr_expect_str_eq(json_text_at(attempt, "error_kind"), kind, "for %s: %s", url, json_text_at(attempt, "error"));
    cr_expect_gt(strlen(json_text_at(attempt, "error")), 0);
    expect_sum_within_total(attempt);
}

Test(history, each_kind_of_failure_is_told_apart)
{
    struct sink *deaf = sink_create_deaf();
    struct receiver *babbler = receiver_create();
    const char *own = strrchr(gateway->url, ':');
    char own_url[64];

    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    SINK_SCRIPT(sink, "/reset", {.status = 0});
    SINK_SCRIPT(sink, "/status", {.status = 500});
    receiver_script_bytes(babbler, "SSH-2.0-OpenSSH_9.2\r\n\r\n");
    (void)snprintf(own_url, sizeof(own_url), "http://127.0.0.1%s/", own);
    /* A label as long as this is refused by every resolver, without asking anyone. */
    expect_kind("http://a-label-of-more-than-sixty-three-characters-is-not-a-name-anywhere-at-all.invalid/", "", "dns");
    expect_kind(sink_url(deaf, "/"), "", "connect");
    expect_kind(sink_url(sink, "/held"), ",\"timeout\":\"200ms\"", "timeout");
    expect_kind(sink_url(sink, "/reset"), "", "reset");
    expect_kind(sink_url(sink, "/status"), "", "status");
    expect_kind(own_url, "", "blocked");
    expect_kind(receiver_url(babbler), "", "protocol");
    receiver_destroy(&babbler);
    sink_destroy(&deaf);
}

/* --- TLS --- */

static struct proc *tls_server;
static char *folder;

/* `openssl s_server` with a certificate for "localhost"; its URL. */
static const char *start_tls_server(const char *cert, const char *key)
{
    static char url[64];
    const char *const argv[] = {"openssl", "s_server", "-accept", "127.0.0.1:0", "-cert",
                                cert,      "-key",     key,       "-www",        NULL};
    const char *line = NULL;

    tls_server = proc_start(argv, NULL, folder);
    WAIT_UNTIL((line = strstr(proc_stdout(tls_server), "ACCEPT 127.0.0.1:")) && strchr(line, '\n'), 10000);
    (void)snprintf(url, sizeof(url), "https://localhost:%ld/", strtol(line + strlen("ACCEPT 127.0.0.1:"), NULL, 10));
    return url;
}

Test(history, a_certificate_that_nobody_vouches_for_is_a_tls_failure)
{
    folder = tmpdir_create();
    struct certificate certificate = certificate_create(folder, "localhost");
    const char *url = start_tls_server(certificate.cert, certificate.key);

    expect_kind(url, "", "tls");
    proc_destroy(&tls_server);
    certificate_deinit(&certificate);
    tmpdir_destroy(&folder);
}

Test(history, a_task_by_tls_shows_what_the_session_took)
{
    folder = tmpdir_create();
    struct certificate certificate = certificate_create(folder, "localhost");
    const char *url = start_tls_server(certificate.cert, certificate.key);

    gateway_destroy(&gateway);
    gateway =
        gateway_run(redis_fixture_url(redis), "--ca-file", certificate.cert, "--allow-net", "127.0.0.0/8,::1", NULL);
    post("secure", url, ",\"method\":\"GET\"");
    json_t *attempt = json_at(task_reaches(gateway->api, "secure", "delivered", ARRIVE_MS), "history.0");
    cr_expect_gt(json_number_at(attempt, "tls_ms"), 0);
    cr_expect_gt(json_number_at(attempt, "connect_ms"), 0);
    cr_expect_gt(json_number_at(attempt, "first_byte_ms"), 0);
    expect_sum_within_total(attempt);
    proc_destroy(&tls_server);
    certificate_deinit(&certificate);
    tmpdir_destroy(&folder);
}

/* --- times --- */

Test(history, a_delivered_task_shows_where_its_time_went)
{
    SINK_SCRIPT(sink, "/slow", {.status = 200, .delay_ms = SLOW_MS});
    post("slow", sink_url(sink, "/slow"), ",\"delay\":\"100ms\"");
    json_t *task = task_reaches(gateway->api, "slow", "delivered", ARRIVE_MS);
    json_t *attempt = json_at(task, "history.0");

    cr_assert_eq(json_array_size(json_at(task, "history")), 1);
    cr_expect_eq(json_integer_at(attempt, "status"), 200);
    cr_expect(json_null_at(attempt, "error"));
    cr_expect(json_null_at(attempt, "error_kind"));
    cr_expect(json_null_at(attempt, "tls_ms"));
    cr_expect_geq(json_number_at(attempt, "dns_ms"), 0);
    cr_expect_gt(json_number_at(attempt, "connect_ms"), 0);
    cr_expect_geq(json_number_at(attempt, "first_byte_ms"), SLOW_MS);
    cr_expect_geq(json_number_at(attempt, "duration_ms"), SLOW_MS);
    cr_expect_geq(json_number_at(attempt, "lateness_ms"), 0);
    cr_expect_leq(json_number_at(attempt, "lateness_ms"), (double)wait_scaled_ms(1000));
    cr_expect(json_null_at(task, "last_attempt.error_kind"));
    expect_sum_within_total(attempt);
}

Test(history, the_last_ten_attempts_are_shown_oldest_first)
{
    enum { ATTEMPTS = 13, SHOWN = 10 };
    int64_t before_ms = 0;

    SINK_SCRIPT(sink, "/bad",
                {.status = 500,
                 .body = "a long story about what went wrong, and why, and when, and "
                         "who was there, and what they said to each other, and so on"});
    post("bad", sink_url(sink, "/bad"), ",\"retry\":{\"max_attempts\":13,\"schedule\":[\"20ms\"]}");
    json_t *task = task_reaches(gateway->api, "bad", "dead", ARRIVE_MS);
    json_t *history = json_at(task, "history");

    cr_assert_eq(json_array_size(history), SHOWN);
    cr_expect_eq(json_integer_at(task, "attempts"), ATTEMPTS);
    for (size_t i = 0; i < SHOWN; i++) {
        json_t *attempt = json_array_get(history, i);
        int64_t at_ms = json_time_at(attempt, "at");
        cr_expect(i == 0 || at_ms >= before_ms + 20, "attempt %zu comes %lld ms after the last", i,
                  (long long)(at_ms - before_ms));
        before_ms = at_ms;
        cr_expect_str_eq(json_text_at(attempt, "error_kind"), "status");
        cr_expect_geq(json_number_at(attempt, "lateness_ms"), 0);
        cr_expect_leq(json_number_at(attempt, "lateness_ms"), (double)wait_scaled_ms(1000),
                      "of the attempt, not of the task");
        cr_expect(i + 1 == SHOWN || strlen(json_text_at(attempt, "error")) <= 120);
        expect_sum_within_total(attempt);
    }
    cr_expect_str_eq(json_text_at(task, "last_attempt.error"), json_text_at(history, "9.error"));
    cr_expect_gt(strlen(json_text_at(task, "last_attempt.error")), 120);
}

Test(history, a_task_without_an_attempt_has_an_empty_history)
{
    post("later", sink_url(sink, "/"), ",\"delay\":\"1h\"");
    const struct reply *r = client_get_task(gateway->api, "later");

    cr_expect_eq(json_array_size(json_at(r->json, "history")), 0);
    cr_expect(json_null_at(r->json, "last_attempt"));
}
