/* TLS on the listener: the calls work as without it, nothing old is spoken, and wrong files end the start. */
#include "../support/certificate.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include "../support/wire.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define MANY 130 /* libmicrohttpd's own epoll thread would stall at 128 */

static char *dir;
static struct certificate own;
static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;
static struct client *api;
static struct proc *proc;

static void setup(void)
{
    dir = tmpdir_create();
    own = certificate_create(dir, "localhost");
}

static void start(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), "--tls-cert", own.cert, "--tls-key", own.key, NULL);
    api = gateway->api;
    client_set_ca(api, own.cert);
}

static void teardown(void)
{
    proc_destroy(&proc);
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
    certificate_deinit(&own);
    tmpdir_destroy(&dir);
}

TestSuite(tls, .init = setup, .fini = teardown, .timeout = 300);

static const char *address(void)
{
    return gateway->url + strlen("https://");
}

static int port(void)
{
    return (int)strtol(strrchr(gateway->url, ':') + 1, NULL, 10);
}

Test(tls, a_task_is_taken_and_delivered)
{
    start();
    cr_assert_eq(strncmp(gateway->url, "https://127.0.0.1:", 18), 0, "%s", gateway->url);
    const struct reply *r =
        client_post_task(api, "{\"id\":\"a\",\"url\":\"%s\",\"payload\":{\"n\":1.50}}", sink_url(sink, "/hook"));
    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    task_reaches(api, "a", "delivered", ARRIVE_MS);
    cr_expect_str_eq(sink_wait(sink, "/hook", 1, ARRIVE_MS)->body, "{\"n\":1.50}");
    cr_expect_eq(client_request(api, &(struct client_request){.method = "HEAD", .path = "/tasks/a"})->status, 200);
}

Test(tls, a_client_that_knows_another_certificate_sends_nothing)
{
    struct certificate other = certificate_create(dir, "elsewhere.example");

    start();
    client_set_ca(api, other.cert);
    cr_expect_eq(client_post(api, "/tasks", "{\"url\":\"http://127.0.0.1:9/\"}")->status, 0);
    client_set_ca(api, own.cert);
    cr_expect_eq(json_integer_at(client_get(api, "/stats")->json, "totals.created"), 0);
    certificate_deinit(&other);
}

Test(tls, large_bodies_pass_and_too_large_ones_are_told_so)
{
    size_t limit = 1048576;
    char *body = malloc(3 * limit);

    start();
    size_t head = (size_t)snprintf(body, limit, "{\"url\":\"%s\",\"body\":\"", sink_url(sink, "/large"));
    memset(body + head, 'x', limit - head - 2);
    memcpy(body + limit - 2, "\"}", 3);
    cr_expect_eq(client_post(api, "/tasks", body)->status, 201);
    cr_expect_eq(sink_wait(sink, "/large", 1, ARRIVE_MS)->body_bytes, limit - head - 2);
    memset(body, ' ', 3 * limit - 1);
    body[3 * limit - 1] = '\0';
    const struct reply *r = client_post(api, "/tasks", body);
    cr_assert_eq(r->status, 413, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(r->json, "code"), "body_too_large");
    cr_expect_eq(client_get(api, "/readyz")->status, 200);
    free(body);
}

Test(tls, many_connections_are_all_answered)
{
    static struct client *clients[MANY];

    start();
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            if (round == 0) {
                clients[i] = client_create(gateway->url);
                client_set_ca(clients[i], own.cert);
            }
            const struct reply *r =
                client_post(clients[i], "/tasks", "{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}");
            cr_assert_eq(r->status, 201, "client %zu: %d %s", i, r->status, r->body);
        }
    }
    for (size_t i = 0; i < MANY; i++)
        client_destroy(&clients[i]);
    cr_expect_eq(json_integer_at(client_get(api, "/stats")->json, "totals.created"), 3 * MANY);
}

static const char *handshake(const char *version)
{
    const char *const argv[] = {"openssl", "s_client", "-connect",        address(),
                                version,   "-cipher",  "ALL:@SECLEVEL=0", NULL};

    proc_destroy(&proc);
    proc = proc_start(argv, NULL, dir);
    WAIT_UNTIL(strstr(proc_stdout(proc), "Cipher is ") != NULL, ARRIVE_MS);
    return proc_stdout(proc);
}

Test(tls, nothing_older_than_1_2_is_spoken)
{
    start();
    cr_expect_not_null(strstr(handshake("-tls1_1"), "Cipher is (NONE)"), "%s", proc_stdout(proc));
    cr_expect_not_null(strstr(handshake("-tls1"), "Cipher is (NONE)"), "%s", proc_stdout(proc));
    cr_expect_not_null(strstr(handshake("-tls1_2"), "TLSv1.2, Cipher is ECDHE"), "%s", proc_stdout(proc));
    cr_expect_not_null(strstr(handshake("-tls1_3"), "TLSv1.3, Cipher is TLS_"), "%s", proc_stdout(proc));
}

Test(tls, whoever_speaks_no_tls_harms_nobody)
{
    static const char *const garbage[] = {("POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                           "Content-Length: 29\r\n\r\n{\"url\":\"http://127.0.0.1:9/\"}"),
                                          "\x16\x03\x01\xff\xff\xff\xff", "\x80\x2e\x01\x03\x01"};

    start();
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        struct wire *w = wire_dial(port());
        wire_puts(w, garbage[i]);
        wire_hang_up(&w);
    }
    cr_expect_eq(json_integer_at(client_get(api, "/stats")->json, "totals.created"), 0);
}

Test(tls, healthcheck_speaks_it_too)
{
    start();
    char *where = strdup(address());
    const char *const args[] = {"healthcheck", "--listen", where, "--tls-cert", own.cert, "--tls-key", own.key, NULL};

    cr_expect_eq(gateway_exit_code(args, NULL, &proc), 0, "%s", proc_stderr(proc));
    proc_destroy(&proc);
    redis_fixture_kill(redis);
    WAIT_UNTIL(client_get(api, "/readyz")->status == 503, ARRIVE_MS);
    cr_expect_eq(gateway_exit_code(args, NULL, &proc), 1);
    cr_expect_not_null(strstr(proc_stderr(proc), "503"), "%s", proc_stderr(proc));
    proc_destroy(&proc);
    gateway_stop(gateway);
    cr_expect_eq(gateway_exit_code(args, NULL, &proc), 1);
    free(where);
}

static void expect_fault(const char *cert, const char *key, const char *fault)
{
    const char *const args[] = {"--listen",
                                "127.0.0.1:0",
                                "--redis",
                                "unix:///nowhere",
                                cert ? "--tls-cert" : "--tls-key",
                                cert ? cert : key,
                                cert && key ? "--tls-key" : NULL,
                                key,
                                NULL};

    proc_destroy(&proc);
    cr_expect_eq(gateway_exit_code(args, NULL, &proc), 78);
    cr_expect_not_null(strstr(proc_stderr(proc), fault), "%s is not in: %s", fault, proc_stderr(proc));
    cr_expect_str_eq(proc_stdout(proc), "");
}

Test(tls, wrong_files_end_the_start_with_one_clear_line)
{
    struct certificate other = certificate_create(dir, "elsewhere.example");
    char *text = tmpdir_write(dir, "text", "no certificate\n");
    char *empty = tmpdir_write(dir, "empty", "");

    expect_fault(own.cert, other.key, "tls-key: the key does not belong to the first certificate of tls-cert");
    expect_fault(text, own.key, "tls-cert: the file holds no certificate in PEM form");
    expect_fault(empty, own.key, "tls-cert: the file holds no certificate in PEM form");
    expect_fault(own.cert, text, "tls-key: the file holds no private key in PEM form");
    expect_fault(own.key, own.cert, "tls-cert: the file holds no certificate in PEM form");
    expect_fault("/nonexistent/x", own.key, "tls-cert: the file \"/nonexistent/x\" does not exist");
    expect_fault(own.cert, dir, "is a folder");
    expect_fault(own.cert, NULL, "tls-cert: needs tls-key beside it");
    expect_fault(NULL, own.key, "tls-key: needs tls-cert beside it");
    certificate_deinit(&other);
    free(text);
    free(empty);
}
