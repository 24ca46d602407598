/* `duepost receive`, the small receiver of the quick start: it shows each webhook and judges its signature. */
#include "../support/gateway.h"
#include "../support/procfs.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define RIGHT_SECRET "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"
#define WRONG_SECRET "whsec_TkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkU="

static struct redis_fixture *redis;
static struct gateway *gateway;
static struct proc *receiver;

static void setup(void)
{
    static const char *const env[] = {"DUEPOST_SIGNING_SECRET=" RIGHT_SECRET, NULL};

    redis = redis_fixture_create(false);
    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .env = env});
}

static void teardown(void)
{
    proc_destroy(&receiver);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(receive, .init = setup, .fini = teardown, .timeout = 300);

/* Start a receiver with this secret; its port. */
static int start_receiver(const char *secret)
{
    char *binary = gateway_binary();
    char env_line[128];
    const char *const argv[] = {binary, "receive", "--listen", "127.0.0.1:0", NULL};
    const char *const env[] = {env_line, NULL};
    int port = 0;

    (void)snprintf(env_line, sizeof(env_line), "DUEPOST_SIGNING_SECRET=%s", secret);
    receiver = proc_start(argv, env, NULL);
    WAIT_UNTIL((port = procfs_listening_port(proc_pid(receiver))) != 0, ARRIVE_MS);
    free(binary);
    return port;
}

/* Deliver one task to it and give the line that shows it. */
static char *line_about(const char *id, int port)
{
    const struct reply *r = client_post_task(
        gateway->api, "{\"id\":\"%s\",\"url\":\"http://127.0.0.1:%d/hook\",\"payload\":{\"hello\":1}}", id, port);
    const char *at = NULL;

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    WAIT_UNTIL((at = strstr(proc_stdout(receiver), id)) != NULL && strchr(at, '\n') != NULL, ARRIVE_MS);
    return strndup(at, strcspn(at, "\n"));
}

Test(receive, a_webhook_is_shown_with_its_id_and_body_and_judged)
{
    int port = start_receiver(RIGHT_SECRET);
    char *right = line_about("shown-1", port);
    cr_expect_not_null(strstr(proc_stdout(receiver), "{\"hello\":1}"), "no body: %s", right);

    proc_destroy(&receiver);
    port = start_receiver(WRONG_SECRET);
    char *wrong = line_about("shown-2", port);
    cr_expect_not_null(strstr(right, "signature"), "no judgement: %s", right);
    cr_expect_not_null(strstr(wrong, "signature"), "no judgement: %s", wrong);
    cr_expect_neq(strstr(right, "wrong") != NULL, strstr(wrong, "wrong") != NULL, "'%s' and '%s'", right, wrong);
    free(right);
    free(wrong);
}

Test(receive, it_stops_on_sigterm)
{
    start_receiver(RIGHT_SECRET);
    proc_signal(receiver, SIGTERM);
    cr_assert_eq(proc_wait(receiver, ARRIVE_MS), 0);
}
