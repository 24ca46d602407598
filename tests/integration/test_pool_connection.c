/* Which connections an attempt may use, and what it makes of those that fail. */
#include "../support/pool_fixture.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static struct pool_fixture *f;
static struct task *t;

static void setup(void)
{
    f = pool_fixture_create(NULL);
    t = pool_fixture_task(f, NULL);
}

static void teardown(void)
{
    task_destroy(&t);
    pool_fixture_destroy(&f);
}

TestSuite(pool_connection, .init = setup, .fini = teardown, .timeout = 120);

static void set_url(const char *scheme_and_host, int port, const char *path)
{
    char url[256];

    (void)snprintf(url, sizeof(url), "%s:%d%s", scheme_and_host, port, path);
    free(t->url);
    t->url = strdup(url);
}

/* --- reuse --- */

Test(pool_connection, attempts_in_turn_share_a_connection)
{
    for (int i = 0; i < 20; i++)
        cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    cr_expect_eq(receiver_connection_count(f->receiver), 1);
}

Test(pool_connection, the_last_attempt_never_uses_an_old_connection)
{
    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    cr_assert_eq(pool_fixture_send_last(f, t)->status, 200);
    cr_expect_eq(receiver_connection_count(f->receiver), 2);
}

Test(pool_connection, one_that_was_idle_for_two_seconds_is_not_used_again)
{
    int64_t end_ms = 0;

    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    for (end_ms = wait_mono_ms() + 2100; wait_mono_ms() < end_ms;)
        pool_fixture_turn(f);
    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    cr_expect_eq(receiver_connection_count(f->receiver), 2);
}

Test(pool_connection, one_that_the_receiver_closed_is_not_used_again)
{
    receiver_script(f->receiver,
                    &(struct receiver_answer){.steps = {RECEIVER_SAY(OK_ANSWER), {.action = RECEIVER_CLOSE}}});
    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    for (int i = 0; i < 5; i++)
        pool_fixture_turn(f);
    cr_expect_eq(pool_fixture_send(f, t)->status, 200);
    cr_expect_eq(receiver_connection_count(f->receiver), 2);
}

/* libcurl would send the request once more on a new connection, and nobody would count it. */
ParameterizedTestParameters(pool_connection,
                            a_connection_lost_after_the_request_is_a_failed_attempt_and_no_hidden_resend)
{
    static enum receiver_action ends[] = {RECEIVER_RESET, RECEIVER_CLOSE, RECEIVER_HALF_CLOSE};

    return cr_make_param_array(enum receiver_action, ends, sizeof(ends) / sizeof(ends[0]));
}

ParameterizedTest(enum receiver_action *end, pool_connection,
                  a_connection_lost_after_the_request_is_a_failed_attempt_and_no_hidden_resend)
{
    receiver_script_bytes(f->receiver, OK_ANSWER);
    receiver_script(f->receiver, &(struct receiver_answer){.steps = {{.action = *end}}});
    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 0);
    cr_expect_eq(strncmp(r->error, "connection ", 11), 0, "%s", r->error);
    cr_expect_eq(r->error_kind, TASK_ERROR_RESET);
    cr_expect(!r->is_local_failure);
    cr_expect_neq(r->sent_mono_us, 0);
    cr_expect_eq(receiver_count(f->receiver), 2);
    cr_expect_eq(pool_fixture_send(f, t)->status, 200, "the next attempt uses a new connection");
    cr_expect_eq(receiver_count(f->receiver), 3);
}

Test(pool_connection, many_at_once_each_get_their_own_answer)
{
    enum { MANY = 200 };

    for (int i = 0; i < MANY; i++)
        pool_fixture_start(f, t, false);
    cr_expect_eq(pool_in_flight(f->pool), MANY);
    pool_fixture_wait(f, MANY);
    cr_expect_eq(receiver_count(f->receiver), MANY);
    for (int i = 0; i < MANY; i++)
        cr_expect_eq(f->results[i].status, 200, "%s", f->results[i].error);
    cr_expect_eq(pool_in_flight(f->pool), 0);
}

/* --- failures on the way --- */

/* A port of 127.0.0.1 where nobody listens. */
static int dead_port(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&sa, &size), 0);
    cr_assert_eq(close(fd), 0);
    return ntohs(sa.sin_port);
}

Test(pool_connection, a_port_without_a_listener_is_a_refused_connection)
{
    set_url("http://127.0.0.1", dead_port(), "/?token=secret");
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 0);
    cr_expect_str_eq(r->error, "connection refused");
    cr_expect_eq(r->error_kind, TASK_ERROR_CONNECT);
    cr_expect_eq(r->sent_mono_us, 0);
    cr_expect(!r->is_local_failure);
}

Test(pool_connection, a_name_that_cannot_be_is_a_failed_lookup)
{
    set_url("http://a-label-of-more-than-sixty-three-characters-is-not-a-name-anywhere-at-all.invalid", 80, "/");
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 0);
    cr_expect_str_eq(r->error, "name lookup failed");
    cr_expect_eq(r->error_kind, TASK_ERROR_DNS);
    cr_expect(!r->is_local_failure);
}

Test(pool_connection, all_who_wait_for_one_lookup_share_its_failure)
{
    enum { MANY = 100 };

    set_url("http://a-label-of-more-than-sixty-three-characters-is-not-a-name-anywhere-at-all.invalid", 80, "/");
    for (int i = 0; i < MANY; i++)
        pool_fixture_start(f, t, false);
    pool_fixture_wait(f, MANY);
    for (int i = 0; i < MANY; i++)
        cr_expect_str_eq(f->results[i].error, "name lookup failed");
}

Test(pool_connection, a_reset_before_the_request_is_read_is_a_failure)
{
    receiver_script(f->receiver,
                    &(struct receiver_answer){.when = RECEIVER_AT_ACCEPT, .steps = {{.action = RECEIVER_RESET}}});
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 0);
    cr_expect_eq(strncmp(r->error, "connection ", 11), 0, "%s", r->error);
    cr_expect_eq(r->error_kind, TASK_ERROR_RESET);
    cr_expect_eq(receiver_count(f->receiver), 0);
}

Test(pool_connection, tls_with_a_receiver_that_has_none_says_so)
{
    set_url("https://127.0.0.1", receiver_port(f->receiver), "/");
    receiver_script(f->receiver, &(struct receiver_answer){
                                     .when = RECEIVER_AT_ACCEPT,
                                     .steps = {RECEIVER_SAY("HTTP/1.1 400 Plain\r\n\r\n"), {.action = RECEIVER_HANG}}});
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 0);
    cr_expect_eq(strncmp(r->error, "TLS: ", 5), 0, "%s", r->error);
    cr_expect_eq(r->error_kind, TASK_ERROR_TLS);
    cr_expect_eq(r->sent_mono_us, 0);
}

Test(pool_connection, a_tls_handshake_that_stalls_ends_at_the_timeout)
{
    set_url("https://127.0.0.1", receiver_port(f->receiver), "/");
    t->timeout_ms = 300;
    receiver_script(f->receiver,
                    &(struct receiver_answer){.when = RECEIVER_AT_ACCEPT, .steps = {{.action = RECEIVER_HANG}}});
    cr_expect_str_eq(pool_fixture_send(f, t)->error, "timeout after 300 ms while connecting");
}

/* --- addresses --- */

Test(pool_connection, a_blocked_address_is_never_dialled)
{
    f->allow_net.count = 0;
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(r->status, 0);
    cr_expect_str_eq(r->error, "blocked: 127.0.0.1 is not a public address (allow-net)");
    cr_expect_eq(r->error_kind, TASK_ERROR_BLOCKED);
    cr_expect_eq(r->sent_mono_us, 0);
    cr_expect(!r->is_local_failure);
    cr_expect_eq(receiver_connection_count(f->receiver), 0);
}

Test(pool_connection, a_reused_connection_is_checked_again)
{
    size_t allowed = f->allow_net.count;

    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    f->allow_net.count = 0;
    const struct webhook_result *r = pool_fixture_send(f, t);
    f->allow_net.count = allowed;
    cr_expect_str_eq(r->error, "blocked: 127.0.0.1 is not a public address (allow-net)");
    cr_expect_eq(r->error_kind, TASK_ERROR_BLOCKED);
    cr_expect_eq(r->sent_mono_us, 0);
    cr_expect_eq(receiver_count(f->receiver), 1);
}

/* Where the receiver listens is said to be the gateway's own. */
static struct endpoint own_endpoint(const char *address)
{
    struct endpoint own = {.port = receiver_port(f->receiver), .what = "this gateway itself"};

    cr_assert(netaddr_parse(address, strlen(address), &own.address), "%s", address);
    return own;
}

static void expect_own(const char *shown_address)
{
    char error[128];
    const struct webhook_result *r = pool_fixture_send(f, t);

    (void)snprintf(error, sizeof(error), "blocked: %s:%d is this gateway itself", shown_address,
                   receiver_port(f->receiver));
    cr_expect_eq(r->status, 0);
    cr_expect_str_eq(r->error, error);
    cr_expect_eq(r->sent_mono_us, 0);
    cr_expect(!r->is_local_failure);
}

Test(pool_connection, what_is_the_gateways_own_is_never_dialled_although_it_is_allowed)
{
    struct endpoint own[] = {own_endpoint("127.0.0.1"), own_endpoint("::1")};

    f->own = (struct endpoint_list){.items = own, .count = 2};
    expect_own("127.0.0.1");
    set_url("http://[::ffff:127.0.0.1]", receiver_port(f->receiver), "/");
    expect_own("[::ffff:127.0.0.1]");
    set_url("http://[::1]", receiver_port(f->receiver), "/");
    expect_own("[::1]");
    f->allow_net.count = 0;
    expect_own("[::1]");
    cr_expect_eq(receiver_connection_count(f->receiver), 0);
}

Test(pool_connection, all_addresses_of_this_machine_are_the_gateways_own_when_it_listens_on_all)
{
    struct endpoint own = own_endpoint("0.0.0.0");

    f->own = (struct endpoint_list){.items = &own, .count = 1};
    expect_own("127.0.0.1");
    set_url("http://127.9.9.9", receiver_port(f->receiver), "/");
    expect_own("127.9.9.9");
    cr_expect_eq(receiver_connection_count(f->receiver), 0);
}

Test(pool_connection, another_port_beside_the_gateways_own_is_dialled)
{
    struct endpoint own = own_endpoint("0.0.0.0");

    own.port++;
    f->own = (struct endpoint_list){.items = &own, .count = 1};
    cr_expect_eq(pool_fixture_send(f, t)->status, 200, "%s", f->results[0].error);
}

Test(pool_connection, a_reused_connection_to_what_became_the_gateways_own_is_not_used)
{
    struct endpoint own = own_endpoint("127.0.0.1");

    cr_assert_eq(pool_fixture_send(f, t)->status, 200);
    f->own = (struct endpoint_list){.items = &own, .count = 1};
    expect_own("127.0.0.1");
    cr_expect_eq(receiver_connection_count(f->receiver), 1, "the connection was open, and found");
    cr_expect_eq(receiver_count(f->receiver), 1);
}

struct address_case {
    char host[80];
    char address[48];
};

ParameterizedTestParameters(pool_connection, other_spellings_of_blocked_addresses_are_blocked)
{
    static struct address_case cases[] = {
        {"http://localhost", ""},
        {"http://sub.localhost", ""},
        {"http://2130706433", "127.0.0.1"},
        {"http://0x7f.1", "127.0.0.1"},
        {"http://[::1]", "::1"},
        {"http://[::ffff:127.0.0.1]", "::ffff:127.0.0.1"},
        {"http://0", "0.0.0.0"},
        {"http://[::]", "::"},
        {"http://10.0.0.1", "10.0.0.1"},
        {"http://169.254.169.254", "169.254.169.254"},
        {"http://[64:ff9b::7f00:1]", "64:ff9b::7f00:1"},
    };

    return cr_make_param_array(struct address_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct address_case *c, pool_connection, other_spellings_of_blocked_addresses_are_blocked)
{
    f->allow_net.count = 0;
    set_url(c->host, receiver_port(f->receiver), "/");
    const struct webhook_result *r = pool_fixture_send(f, t);
    cr_expect_eq(strncmp(r->error, "blocked: ", 9), 0, "%s: %s", t->url, r->error);
    cr_expect_not_null(strstr(r->error, c->address), "%s: %s", t->url, r->error);
    cr_expect_eq(receiver_connection_count(f->receiver), 0);
}

Test(pool_connection, a_name_with_an_allowed_address_is_dialled)
{
    set_url("http://localhost", receiver_port(f->receiver), "/hook");
    cr_expect_eq(pool_fixture_send(f, t)->status, 200, "%s", f->results[0].error);
}

/* --- our own shortages --- */

Test(pool_connection, without_descriptors_no_attempt_is_made_and_later_it_is)
{
    struct rlimit old, none;

    receiver_script_bytes(f->receiver, OK_ANSWER);
    cr_assert_eq(pool_fixture_send_last(f, t)->status, 200); /* everything but the socket is there */
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = old;
    none.rlim_cur = (rlim_t)open("/dev/null", O_RDONLY);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    const struct webhook_result *r = pool_fixture_send_last(f, t);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    cr_expect(r->is_local_failure, "%s", r->error);
    cr_expect_eq(r->status, 0);
    cr_expect_eq(r->sent_mono_us, 0);
    cr_expect_eq(pool_fixture_send_last(f, t)->status, 200);
}

/* --- the pool itself --- */

static void capacity_setup(void)
{
    f = pool_fixture_create(&(struct pool_fixture_opts){.capacity = 2});
    t = pool_fixture_task(f, NULL);
}

TestSuite(pool_capacity, .init = capacity_setup, .fini = teardown, .timeout = 120);

Test(pool_capacity, a_full_pool_refuses_and_goes_on)
{
    pool_fixture_start(f, t, false);
    pool_fixture_start(f, t, false);
    cr_expect_eq(pool_start(f->pool, t, 1, 0, false, t), ERR_TOO_BIG);
    pool_fixture_wait(f, 2);
    cr_expect_eq(pool_fixture_send(f, t)->status, 200);
    cr_expect_eq(f->done, 3);
}

static void start_another(struct pool_fixture *fixture)
{
    if (fixture->done < 50)
        pool_fixture_start(fixture, t, false);
}

Test(pool_capacity, attempts_may_begin_when_another_is_reported)
{
    f->then = start_another;
    pool_fixture_start(f, t, false);
    pool_fixture_wait(f, 50);
    cr_expect_eq(receiver_count(f->receiver), 50);
}

Test(pool_capacity, an_attempt_begun_after_pool_run_does_not_wait)
{
    int64_t begin_ms = 0;

    cr_assert_eq(pool_run(f->pool), -1);
    pool_fixture_start(f, t, false);
    begin_ms = wait_mono_ms();
    loop_turn(f->loop, 10 * 1000 * 1000);
    cr_expect_lt(wait_mono_ms() - begin_ms, 5000);
    pool_fixture_wait(f, 1);
    cr_expect_eq(f->results[0].status, 200);
}

Test(pool_connection, aborting_reports_each_attempt_and_gives_back_those_without_an_answer)
{
    static const struct receiver_answer silent = {.steps = {{.action = RECEIVER_HANG}}};
    static const struct receiver_answer half = {
        .steps = {RECEIVER_SAY("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf"), {.action = RECEIVER_HANG}}};
    int local = 0;

    receiver_script(f->receiver, &silent);
    receiver_script(f->receiver, &half);
    pool_fixture_start(f, t, false);
    pool_fixture_start(f, t, false);
    for (int i = 0; i < 1000 && receiver_count(f->receiver) < 2; i++)
        pool_fixture_turn(f);
    for (int i = 0; i < 5; i++)
        pool_fixture_turn(f);
    cr_assert_eq(f->done, 0);
    pool_abort_all(f->pool);
    pool_fixture_wait(f, 2);
    for (int i = 0; i < 2; i++) {
        local += f->results[i].is_local_failure;
        cr_expect_eq(f->results[i].is_local_failure, f->results[i].status == 0);
        cr_expect_eq(f->owners[i], t);
    }
    cr_expect_eq(local, 1);
    cr_expect_eq(pool_in_flight(f->pool), 0);
    cr_expect_eq(pool_fixture_send(f, t)->status, 200);
}

Test(pool_connection, destroying_the_pool_ends_what_is_under_way_without_a_report)
{
    receiver_script(f->receiver, &(struct receiver_answer){.steps = {{.action = RECEIVER_HANG}}});
    pool_fixture_start(f, t, false);
    pool_fixture_start(f, t, false);
    for (int i = 0; i < 1000 && receiver_count(f->receiver) < 1; i++)
        pool_fixture_turn(f);
    f->done = 0;
    pool_destroy(&f->pool);
    cr_expect_null(f->pool);
    cr_expect_eq(f->done, 0);
}
