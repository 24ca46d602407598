/* TLS: which certificates are accepted, and that nothing is sent otherwise. The receiver is `openssl s_server`. */
#include "../support/certificate.h"
#include "../support/pool_fixture.h"
#include "../support/proc.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dir;
static struct certificate certificate;
static struct proc *server;
static int port;

static void make_certificate(const char *name)
{
    certificate = certificate_create(dir, name);
}

/* It writes out what it has to say of connections when it ends, after so many of them. */
static void start_server_for(const char *connections)
{
    const char *const argv[] = {"openssl",        "s_server", "-accept",       "127.0.0.1:0", "-cert",
                                certificate.cert, "-key",     certificate.key, "-www",        "-naccept",
                                connections,      "-alpn",    "http/1.1",      NULL};
    const char *line = NULL;

    server = proc_start(argv, NULL, dir);
    WAIT_UNTIL((line = strstr(proc_stdout(server), "ACCEPT 127.0.0.1:")) != NULL && strchr(line, '\n') != NULL, 10000);
    port = (int)strtol(line + strlen("ACCEPT 127.0.0.1:"), NULL, 10);
}

static void start_server(void)
{
    start_server_for("9");
}

static void setup(void)
{
    dir = tmpdir_create();
}

static void teardown(void)
{
    proc_destroy(&server);
    certificate_deinit(&certificate);
    tmpdir_destroy(&dir);
}

TestSuite(pool_tls, .init = setup, .fini = teardown, .timeout = 120);

/* One GET to the server under the name "localhost", with this CA file. */
static struct webhook_result get_with(const char *ca_file)
{
    struct pool_fixture *f = pool_fixture_create(&(struct pool_fixture_opts){.ca_file = ca_file});
    struct webhook_result result;
    struct task *t = NULL;
    char url[64];

    (void)snprintf(url, sizeof(url), "https://localhost:%d/", port);
    t = pool_fixture_task(f, url);
    t->method = TASK_METHOD_GET;
    result = *pool_fixture_send(f, t);
    task_destroy(&t);
    pool_fixture_destroy(&f);
    return result;
}

static void expect_refused(const struct webhook_result *r)
{
    cr_expect_eq(r->status, 0);
    cr_expect_eq(strncmp(r->error, "TLS: certificate refused: ", 26), 0, "%s", r->error);
    cr_expect_eq(r->error_kind, TASK_ERROR_TLS);
    cr_expect_geq(r->phases.dns_us, 0);
    cr_expect_eq(r->phases.tls_us, TASK_TIME_NONE, "it was not completed");
    cr_expect_eq(r->sent_mono_us, 0);
    cr_expect(!r->is_local_failure);
}

Test(pool_tls, a_certificate_of_the_private_ca_is_accepted)
{
    make_certificate("localhost");
    start_server();
    struct webhook_result r = get_with(certificate.cert);
    cr_expect_eq(r.status, 200, "%s", r.error);
    cr_expect_geq(r.phases.dns_us, 0);
    cr_expect_gt(r.phases.connect_us, 0);
    cr_expect_gt(r.phases.tls_us, r.phases.connect_us, "on loopback");
    cr_expect_gt(r.phases.first_byte_us, 0);
    cr_expect_leq(r.phases.dns_us + r.phases.connect_us + r.phases.tls_us + r.phases.first_byte_us, r.duration_us);
}

/* The server tells what it is offered, and has HTTP/1.1 alone. */
Test(pool_tls, http2_is_offered_from_libcurl_8_14_1_on_and_http_1_1_always)
{
    bool offers_http2 = curl_version_info(CURLVERSION_NOW)->version_num >= 0x080e01;
    const char *offer = offers_http2 ? "by the client: h2, http/1.1\n" : "by the client: http/1.1\n";

    make_certificate("localhost");
    start_server_for("1");
    struct webhook_result r = get_with(certificate.cert);
    cr_expect_eq(r.status, 200, "%s", r.error);
    WAIT_UNTIL(strstr(proc_stdout(server), offer) != NULL, 10000);
}

Test(pool_tls, a_certificate_of_an_unknown_ca_is_refused)
{
    make_certificate("localhost");
    start_server();
    struct webhook_result r = get_with(NULL);
    expect_refused(&r);
}

Test(pool_tls, a_certificate_for_another_name_is_refused)
{
    make_certificate("elsewhere.example");
    start_server();
    struct webhook_result r = get_with(certificate.cert);
    expect_refused(&r);
}

Test(pool_tls, a_ca_file_that_is_none_fails_the_attempt)
{
    char *broken = tmpdir_write(dir, "broken.pem", "no certificate\n");

    make_certificate("localhost");
    start_server();
    struct webhook_result r = get_with(broken);
    cr_expect_eq(r.status, 0);
    cr_expect_eq(strncmp(r.error, "TLS: ", 5), 0, "%s", r.error);
    free(broken);
}
