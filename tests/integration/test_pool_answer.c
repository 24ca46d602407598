/* What an answer means for an attempt, however it comes: whole, cut, endless, slow, broken. */
#include "../support/pool_fixture.h"
#include "../support/wait.h"
#include "base/parse.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE (-1)
#define OK_HEAD "HTTP/1.1 200 OK\r\n"

static struct pool_fixture *f;

static void setup(void)
{
    f = pool_fixture_create(NULL);
}

static void teardown(void)
{
    pool_fixture_destroy(&f);
}

TestSuite(pool_answer, .init = setup, .fini = teardown, .timeout = 120);

/* --- answers that are bytes and an end --- */

struct bytes_case {
    char bytes[160];
    enum receiver_action then;
    int status;
    char error[64]; /* the whole text */
    int64_t retry_after_ms;
};

ParameterizedTestParameters(pool_answer, status_and_error_of)
{
    static struct bytes_case cases[] = {
        /* A complete 2xx head is a success, whatever follows. */
        {OK_HEAD "Content-Length: 2\r\n\r\nok", RECEIVER_END, 200, "", NONE},
        {OK_HEAD "\r\n", RECEIVER_CLOSE, 200, "", NONE},
        {OK_HEAD "\r\nno length", RECEIVER_CLOSE, 200, "", NONE},
        {OK_HEAD "Content-Length: 100\r\n\r\nabc", RECEIVER_CLOSE, 200, "", NONE},
        {OK_HEAD "Content-Length: 100\r\n\r\nabc", RECEIVER_RESET, 200, "", NONE},
        {OK_HEAD "Content-Length: 100\r\n\r\nabc", RECEIVER_HANG, 200, "", NONE},
        {OK_HEAD "Content-Length: 100\r\n\r\nabc", RECEIVER_HALF_CLOSE, 200, "", NONE},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\nbroken", RECEIVER_CLOSE, 200, "", NONE},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", RECEIVER_HANG, 200, "", NONE},
        {OK_HEAD "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope", RECEIVER_END, 200, "", NONE},
        {"HTTP/1.1 204 No Content\r\n\r\n", RECEIVER_END, 204, "", NONE},
        {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", RECEIVER_HANG, 204, "", NONE},
        {"HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 299, "", NONE},
        {"HTTP/1.0 200 OK\r\n\r\nold", RECEIVER_CLOSE, 200, "", NONE},
        {"HTTP/1.1 202\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 202, "", NONE},
        {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", RECEIVER_END, 200, "", NONE},
        /* Provisional heads are passed over. */
        {"HTTP/1.1 100 Continue\r\n\r\n" OK_HEAD "Content-Length: 0\r\n\r\n", RECEIVER_END, 200, "", NONE},
        {"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
         RECEIVER_END, 503, "503 Busy", NONE},
        {"HTTP/1.1 100 Continue\r\n\r\n", RECEIVER_CLOSE, 0, "connection closed before an answer", NONE},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", RECEIVER_CLOSE, 101, "101 Switching Protocols",
         NONE},
        /* Other statuses tell their reason and the beginning of the body. */
        {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\ntry later", RECEIVER_END, 503,
         "503 Service Unavailable: try later", NONE},
        {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 410, "410 Gone", NONE},
        {"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 500, "500", NONE},
        {"HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", RECEIVER_END, 500, "500: x", NONE},
        {"HTTP/1.1 500 Oops\r\n\r\n  <p>\r\n\tbad  \x1b[31m\r\n", RECEIVER_CLOSE, 500, "500 Oops: <p> bad [31m", NONE},
        {"HTTP/1.1 500 Oops\r\n\r\n\r\n \r\n", RECEIVER_CLOSE, 500, "500 Oops", NONE},
        {"HTTP/1.1 500 Oops\r\n\r\na\xff\xc3\x28z\xe2\x82\xac", RECEIVER_CLOSE, 500, "500 Oops: a?\?(z\xe2\x82\xac",
         NONE},
        {"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf", RECEIVER_CLOSE, 500, "500 Oops: half", NONE},
        {"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf", RECEIVER_RESET, 500, "", NONE},
        {"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 401, "401 No",
         NONE},
        /* A status is three digits, and stands in the first line of a head alone. */
        {"HTTP/1.1 5001 Long\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/1.1 2000\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/1.1 20\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/1.1 099 Low\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/\x11HTTP/1.1 5001 Odd\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/\x11 2000\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/x 200 OK\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/1.1 500 No\r\nHTTP/1.1 200: OK\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 500, "500 No", NONE},
        {"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 417, "417 Expectation Failed",
         NONE},
        /* Without a complete head there is no status. */
        {"", RECEIVER_CLOSE, 0, "connection closed before an answer", NONE},
        {"", RECEIVER_RESET, 0, "connection reset", NONE},
        {OK_HEAD, RECEIVER_RESET, 0, "connection reset", NONE},
        {OK_HEAD "Content-Length: 5\r\n", RECEIVER_CLOSE, 0, "connection closed before an answer", NONE},
        {"hello, this is no HTTP\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        {"HTTP/1.1 2000 Odd\r\n\r\n", RECEIVER_CLOSE, 0, "the answer is not valid HTTP", NONE},
        /* Retry-After */
        {"HTTP/1.1 429 Slow\r\nRetry-After: 007\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429, "429 Slow", 7000},
        {"HTTP/1.1 429 Slow\r\nretry-after:  4 \r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429, "429 Slow", 4000},
        {"HTTP/1.1 429 Slow\r\nRetry-After: 9999999999\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429, "429 Slow",
         86400000},
        {"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429,
         "429 Slow", NONE},
        {"HTTP/1.1 429 Slow\r\nRetry-After: -5\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429, "429 Slow", NONE},
        {"HTTP/1.1 429 Slow\r\nRetry-After: 4.5\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429, "429 Slow", NONE},
        {"HTTP/1.1 429 Slow\r\nRetry-After:\r\nContent-Length: 0\r\n\r\n", RECEIVER_END, 429, "429 Slow", NONE},
    };

    return cr_make_param_array(struct bytes_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct bytes_case *c, pool_answer, status_and_error_of)
{
    const struct webhook_result *r =
        pool_fixture_answered(f, &(struct receiver_answer){.steps = {RECEIVER_SAY(c->bytes), {.action = c->then}}});

    cr_expect_eq(r->status, c->status, "%d '%s' for\n%s", r->status, r->error, c->bytes);
    /* A reset may take what came before it along, so only the status is certain then. */
    if (c->then != RECEIVER_RESET || c->status == 0 || c->status == 200)
        cr_expect_str_eq(r->error, c->error, "for\n%s", c->bytes);
    cr_expect_eq(r->retry_after_ms, c->retry_after_ms, "%ld for\n%s", (long)r->retry_after_ms, c->bytes);
    cr_expect(!r->is_local_failure);
    cr_expect_lt(r->duration_us / 1000, wait_scaled_ms(1000), "%ld ms for\n%s", (long)r->duration_us / 1000, c->bytes);
    cr_expect_neq(r->sent_mono_us, 0);
    cr_expect_eq(receiver_count(f->receiver), 1);
}

/* --- when it does not end --- */

Test(pool_answer, an_endless_body_at_full_speed_is_a_quick_success)
{
    char *block = malloc(65537);

    memset(block, 'x', 65536);
    block[65536] = '\0';
    const struct webhook_result *r = pool_fixture_answered(
        f, &(struct receiver_answer){.steps = {RECEIVER_SAY(OK_HEAD "\r\n"), {RECEIVER_FLOOD, block, 0}}});
    cr_expect_eq(r->status, 200);
    cr_expect_lt(r->duration_us / 1000, wait_scaled_ms(500));
    receiver_destroy(&f->receiver);
    free(block);
}

Test(pool_answer, an_endless_body_of_an_error_is_cut_and_its_status_kept)
{
    char *block = malloc(65537);

    memset(block, 'x', 65536);
    block[65536] = '\0';
    const struct webhook_result *r = pool_fixture_answered(
        f, &(struct receiver_answer){.steps = {RECEIVER_SAY("HTTP/1.1 500 No\r\n\r\n"), {RECEIVER_FLOOD, block, 0}}});
    cr_expect_eq(r->status, 500);
    cr_expect_eq(strncmp(r->error, "500 No: xxxx", 12), 0, "%s", r->error);
    cr_expect_lt(strlen(r->error), 150);
    cr_expect_lt(r->duration_us / 1000, wait_scaled_ms(1000));
    receiver_destroy(&f->receiver);
    free(block);
}

Test(pool_answer, an_excerpt_is_never_cut_inside_a_character)
{
    char answer[1024] = "HTTP/1.1 500 No\r\n\r\n";

    for (int i = 0; i < 300; i++)
        memcpy(answer + strlen(answer), "\xe2\x82\xac", 4);
    const struct webhook_result *r = pool_fixture_answered(
        f, &(struct receiver_answer){.steps = {RECEIVER_SAY(answer), {.action = RECEIVER_CLOSE}}});
    cr_expect(parse_is_utf8(r->error, strlen(r->error)), "%s", r->error);
    cr_expect_eq(strlen(r->error), strlen("500 No: ") + 120);
}

/* A head of this many lines; free(). */
static char *head_of(const char *first, const char *line, int lines)
{
    size_t n = strlen(line);
    char *head = malloc(strlen(first) + (size_t)lines * n + 3);
    size_t at = strlen(first);

    memcpy(head, first, at);
    for (int i = 0; i < lines; i++, at += n)
        memcpy(head + at, line, n);
    memcpy(head + at, "\r\n", 3);
    return head;
}

static void expect_head_refused(char *head)
{
    const struct webhook_result *r =
        pool_fixture_answered(f, &(struct receiver_answer){.steps = {RECEIVER_SAY(head), {.action = RECEIVER_HANG}}});

    cr_expect_eq(r->status, 0);
    cr_expect_str_eq(r->error, "the answer's head is over 64 KiB");
    cr_expect(!r->is_local_failure);
    cr_expect_lt(r->duration_us / 1000, wait_scaled_ms(2000));
    receiver_destroy(&f->receiver);
    free(head);
}

Test(pool_answer, a_head_of_5000_cookies_is_refused)
{
    expect_head_refused(head_of(OK_HEAD, "Set-Cookie: name=value\r\n", 5000));
}

Test(pool_answer, a_single_header_of_200_KB_is_refused)
{
    char *line = malloc(200001);

    memset(line, 'v', 200000);
    memcpy(line, "X: ", 3);
    line[200000] = '\0';
    char *head = head_of(OK_HEAD, line, 1);
    free(line);
    expect_head_refused(head);
}

Test(pool_answer, provisional_heads_without_end_are_refused)
{
    expect_head_refused(head_of("", "HTTP/1.1 102 Processing\r\n\r\n", 5000));
}

/* libcurl before 8.1 appends such a line to a header of the answer before, which it has freed; or it gives up, when
 * there was none. */
Test(pool_answer, a_folded_line_belongs_to_no_earlier_answer)
{
    static const char *const answers[] = {OK_HEAD "X-Before: 1\r\nContent-Length: 0\r\n\r\n",
                                          "HTTP/1.1 500 No\r\n folded: into what\r\nContent-Length: 0\r\n\r\n"};

    for (int i = 0; i < 20; i++) {
        const struct webhook_result *r =
            pool_fixture_answered(f, &(struct receiver_answer){.steps = {RECEIVER_SAY(answers[i % 2])}});
        if (i % 2 == 0)
            cr_assert_eq(r->status, 200, "%s", r->error);
        else
            cr_assert(r->status == 500 || strcmp(r->error, "the answer is not valid HTTP") == 0, "%s", r->error);
    }
}

struct timeout_case {
    char bytes[64];
    enum receiver_when when;
    int status;
    char error[64];
};

ParameterizedTestParameters(pool_answer, silence_ends_at_the_tasks_timeout)
{
    static struct timeout_case cases[] = {
        {"", RECEIVER_AFTER_REQUEST, 0, "timeout after 300 ms"},
        {"", RECEIVER_AT_ACCEPT, 0, "timeout after 300 ms"},
        {"HTTP/1.1 200 OK\r\nX: 1\r\n", RECEIVER_AFTER_REQUEST, 0, "timeout after 300 ms"},
        {"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nwait", RECEIVER_AFTER_REQUEST, 500, "500 No: wait"},
    };

    return cr_make_param_array(struct timeout_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct timeout_case *c, pool_answer, silence_ends_at_the_tasks_timeout)
{
    struct task *t = pool_fixture_task(f, NULL);

    t->timeout_ms = 300;
    receiver_script(f->receiver, &(struct receiver_answer){
                                     .when = c->when, .steps = {RECEIVER_SAY(c->bytes), {.action = RECEIVER_HANG}}});
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, c->status);
    cr_expect_str_eq(r->error, c->error);
    cr_expect_geq(r->duration_us / 1000, 300);
    cr_expect_lt(r->duration_us / 1000, 300 + wait_scaled_ms(300));
    task_destroy(&t);
}

/* --- a success is reported before its answer ends --- */

Test(pool_answer, the_rest_of_a_slow_success_is_read_and_its_connection_used_again)
{
    static const struct receiver_answer slow = {.steps = {RECEIVER_SAY(OK_HEAD "Content-Length: 4\r\n\r\nab"),
                                                          {RECEIVER_PAUSE, NULL, 200},
                                                          RECEIVER_SAY("cd")}};
    struct task *t = pool_fixture_task(f, NULL);

    cr_expect_eq(pool_fixture_answered(f, &slow)->status, 200);
    cr_expect_lt(f->results[0].duration_us / 1000, wait_scaled_ms(150));
    cr_expect_eq(pool_in_flight(f->pool), 0);
    for (int64_t end_ms = wait_mono_ms() + 400; wait_mono_ms() < end_ms;)
        pool_fixture_turn(f);
    cr_expect_eq(pool_fixture_send(f, t)->status, 200);
    cr_expect_eq(receiver_connection_count(f->receiver), 1);
    cr_expect_eq(f->done, 2);
    task_destroy(&t);
}

Test(pool_answer, many_successes_that_never_end_do_not_take_up_the_pool)
{
    for (int i = 0; i < 200; i++)
        cr_assert_eq(pool_fixture_answered(f, &(struct receiver_answer){.steps = {RECEIVER_SAY(OK_HEAD "\r\n"),
                                                                                  {.action = RECEIVER_HANG}}})
                         ->status,
                     200);
    cr_expect_eq(pool_in_flight(f->pool), 0);
    WAIT_UNTIL(receiver_open_count(f->receiver) <= 64, 5000); /* the oldest give way */
}

Test(pool_answer, a_success_before_the_body_was_read_is_one)
{
    size_t n = (size_t)8 * 1024 * 1024;
    char *body = calloc(1, n);
    struct task *t = pool_fixture_task(f, NULL);

    pool_fixture_set_body(t, TASK_BODY_BYTES, "", 0);
    free(t->body);
    t->body = body;
    t->body_bytes = n;
    receiver_script(f->receiver,
                    &(struct receiver_answer){.when = RECEIVER_AFTER_HEAD,
                                              .steps = {RECEIVER_SAY(OK_HEAD "Content-Length: 2\r\n\r\nok"),
                                                        {RECEIVER_PAUSE, NULL, 300},
                                                        {.action = RECEIVER_CLOSE}}});
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 200, "%s", r->error);
    cr_expect_eq(pool_in_flight(f->pool), 0);
    task_destroy(&t); /* nothing may read the body any more: the address sanitizer watches */
    for (int i = 0; i < 10; i++)
        pool_fixture_turn(f);
}

Test(pool_answer, an_error_before_the_body_was_read_keeps_its_status)
{
    size_t n = (size_t)8 * 1024 * 1024;
    struct task *t = pool_fixture_task(f, NULL);

    pool_fixture_set_body(t, TASK_BODY_BYTES, "", 0);
    free(t->body);
    t->body = calloc(1, n);
    t->body_bytes = n;
    receiver_script(f->receiver, &(struct receiver_answer){
                                     .when = RECEIVER_AFTER_HEAD,
                                     .steps = {RECEIVER_SAY("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
                                               {.action = RECEIVER_HANG}}});
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 413, "%s", r->error);
    task_destroy(&t);
}

/* --- redirects --- */

struct redirect_case {
    int status;
};

ParameterizedTestParameters(pool_answer, redirects_are_not_followed)
{
    static struct redirect_case cases[] = {{300}, {301}, {302}, {303}, {304}, {307}, {308}};

    return cr_make_param_array(struct redirect_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct redirect_case *c, pool_answer, redirects_are_not_followed)
{
    struct receiver *other = receiver_create();
    char answer[256];

    (void)snprintf(answer, sizeof(answer), "HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
                   c->status, receiver_url(other));
    const struct webhook_result *r =
        pool_fixture_answered(f, &(struct receiver_answer){.steps = {RECEIVER_SAY(answer)}});
    cr_expect_eq(r->status, c->status);
    cr_expect_eq(receiver_connection_count(other), 0);
    cr_expect_eq(receiver_count(f->receiver), 1);
    receiver_destroy(&other);
}
