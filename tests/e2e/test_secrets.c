/* What must not get out: secrets in logs, stats and settings, and floods of log lines; and what must: signatures that
 * fit the secrets in force. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(secrets, .init = setup, .fini = teardown, .timeout = 300);

/* --- what is never shown ---------------------------------------------------------------------------------------- */

static const char *const hidden[] = {"HIDDEN1", "HIDDEN2", "HIDDEN3",  "HIDDEN4",         "hidden-token",
                                     "HIDDEN5", "HIDDEN6", "readable", "hidden-password", "SElEREVO"};

static void expect_hidden(const char *where, const char *text)
{
    for (size_t i = 0; i < COUNT(hidden); i++)
        cr_expect_null(strstr(text, hidden[i]), "%s shows %s: %s", where, hidden[i], text);
}

/* A task that holds a secret in every place that has room for one. */
static void post(const char *id, const char *base_url, const char *path)
{
    const struct reply *r = client_post_task(
        gateway->api,
        "{\"id\":\"%s\",\"url\":\"%s%s/HIDDEN1?token=HIDDEN2\",\"headers\":{\"Authorization\":\"Bearer HIDDEN3\","
        "\"X-Api-Key\":\"HIDDEN5\"},\"payload\":{\"password\":\"HIDDEN4\"},"
        "\"retry\":{\"max_attempts\":2,\"initial\":1,\"max\":1}}",
        id, base_url, path);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static void expect_logs_hide_secrets(const char *format)
{
    static const char *const env[] = {"DUEPOST_TOKEN=hidden-token", "DUEPOST_READ_TOKEN=readable",
                                      "DUEPOST_SIGNING_SECRET=whsec_SElEREVONkhJRERFTjZISURERU42SElEREVONg==", NULL};
    const char *const args[] = {"--log-level", "debug", "--log-format", format, NULL};

    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .env = env, .args = args});
    client_set_token(gateway->api, "hidden-token");
    SINK_SCRIPT(sink, "/broken/HIDDEN1?token=HIDDEN2", {.status = 500, .body = "HIDDEN6"});
    SINK_SCRIPT(sink, "/moved/HIDDEN1?token=HIDDEN2",
                {.status = 302, .headers = "Location: http://127.0.0.1/HIDDEN6\r\n"});
    SINK_SCRIPT(sink, "/cut/HIDDEN1?token=HIDDEN2", {.status = 0});
    char *base = strdup(sink_url(sink, ""));
    post("delivered", base, "/fine");
    post("broken", base, "/broken");
    post("moved", base, "/moved");
    post("cut", base, "/cut");
    post("refused", "http://127.0.0.1:1", "/refused");
    task_reaches(gateway->api, "delivered", "delivered", ARRIVE_MS);
    const char *const dead[] = {"broken", "moved", "cut", "refused"};
    for (size_t i = 0; i < COUNT(dead); i++)
        task_reaches(gateway->api, dead[i], "dead", ARRIVE_MS);
    free(base);

    /* Refused at the edge, each way with a secret in it. */
    cr_expect_eq(client_post(gateway->api, "/tasks", "{\"url\":\"http://u:HIDDEN1@127.0.0.1/\"}")->status, 400);
    cr_expect_eq(client_post(gateway->api, "/tasks", "{\"url\":\"http://10.0.0.1/HIDDEN1?t=HIDDEN2\"}")->status, 400);
    cr_expect_eq(client_post(gateway->api, "/tasks", "{\"payload\":\"HIDDEN4\"")->status, 400);
    cr_expect_eq(client_get(gateway->api, "/HIDDEN1?token=HIDDEN2")->status, 404);
    expect_hidden("GET /stats", client_get(gateway->api, "/stats")->body);
    client_set_token(gateway->api, "readable");
    cr_expect_eq(client_delete_task(gateway->api, "HIDDEN1")->status, 403);
    client_set_token(gateway->api, "hidden-token-2");
    const struct reply *r = client_get(gateway->api, "/stats");
    cr_expect_eq(r->status, 401);
    expect_hidden("401", r->body);
    cr_expect_not_null(strstr(proc_stderr(gateway->proc), "task.dead"), "the log is not what this test thinks");
    expect_hidden("the log", proc_stderr(gateway->proc));
    expect_hidden("stdout", proc_stdout(gateway->proc));
}

Test(secrets, logs_as_text_hold_none)
{
    expect_logs_hide_secrets("text");
}

Test(secrets, logs_as_json_hold_none)
{
    expect_logs_hide_secrets("json");
}

/* Who may read a task sees its URL and payload; what looks like a credential among its headers is masked. */
Test(secrets, a_task_shows_its_headers_masked)
{
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    post("a", "http://127.0.0.1:1", "/hook");
    const char *body = client_get_task(gateway->api, "a")->body;
    cr_expect_null(strstr(body, "HIDDEN3"), "%s", body);
    cr_expect_null(strstr(body, "HIDDEN5"), "%s", body);
    cr_expect_not_null(strstr(body, "HIDDEN4"), "%s", body);
}

Test(secrets, printed_settings_and_faults_hold_none)
{
    static const char *const env[] = {"DUEPOST_TOKEN=hidden-token", "DUEPOST_READ_TOKEN=readable",
                                      "DUEPOST_SIGNING_SECRET=whsec_SElEREVONkhJRERFTjZISURERU42SElEREVONg==",
                                      "DUEPOST_REDIS=redis://u:hidden-password@127.0.0.1:1/0", NULL};
    static const char *const same[] = {"DUEPOST_TOKEN=hidden-token", "DUEPOST_READ_TOKEN=hidden-token",
                                       "DUEPOST_REDIS=http://u:hidden-password@127.0.0.1:1/0", NULL};
    static const char *const args[] = {"--print-config", NULL};
    struct proc *p = NULL;

    cr_expect_eq(gateway_exit_code(args, env, &p), 0, "%s", proc_stderr(p));
    cr_expect_not_null(strstr(proc_stdout(p), "read-token"));
    expect_hidden("--print-config", proc_stdout(p));
    proc_destroy(&p);
    cr_expect_eq(gateway_exit_code(args, same, &p), 78);
    expect_hidden("the faults", proc_stderr(p));
    proc_destroy(&p);
}

/* --- floods ----------------------------------------------------------------------------------------------------- */

Test(secrets, thousands_of_failures_are_summed_up_in_the_log)
{
    enum { TASKS = 2000, LOG_BYTES_MAX = 64 * 1024 };

    gateway = gateway_run(redis_fixture_url(redis), NULL);
    for (int i = 0; i < TASKS; i++) {
        const struct reply *r = client_post_task(
            gateway->api, "{\"url\":\"http://127.0.0.1:1/\",\"retry\":{\"max_attempts\":2,\"initial\":1,\"max\":1}}");
        cr_assert_eq(r->status, 201);
    }
    WAIT_UNTIL(json_integer_at(client_get(gateway->api, "/stats")->json, "totals.dead") == TASKS, 3 * ARRIVE_MS);
    redis_fixture_kill(redis);
    for (int i = 0; i < 3; i++) /* each takes a while: the store is waited for */
        cr_assert_eq(client_get_task(gateway->api, "nobody")->status, 503);
    redis_fixture_start(redis);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, ARRIVE_MS);
    size_t bytes = strlen(proc_stderr(gateway->proc));
    cr_expect_lt(bytes, LOG_BYTES_MAX, "%zu bytes of log", bytes);
}

/* --- signatures ------------------------------------------------------------------------------------------------- */

/* What this start signs with: the header of one delivered task. */
static const char *signature_with(const char *secrets, const char *id)
{
    char line[256], path[32];
    const char *const env[] = {line, NULL};

    (void)snprintf(line, sizeof(line), "DUEPOST_SIGNING_SECRET=%s", secrets);
    (void)snprintf(path, sizeof(path), "/%s", id);
    gateway_destroy(&gateway);
    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .env = env});
    cr_assert_eq(client_post_task(gateway->api, "{\"url\":\"%s\"}", sink_url(sink, path))->status, 201);
    return sink_header(sink_wait(sink, path, 1, ARRIVE_MS), "webhook-signature");
}

static size_t entries(const char *signature)
{
    size_t count = 0;

    for (const char *at = signature; at; at = strchr(at, ' '), at = at ? at + 1 : NULL) {
        cr_expect_eq(strncmp(at, "v1,", 3), 0, "%s", signature);
        cr_expect_eq(strcspn(at + 3, " "), 44, "%s: not base64 of 32 bytes", signature);
        count++;
    }
    return count;
}

Test(secrets, each_secret_in_force_gives_one_signature)
{
    static const char old_one[] = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u";
    static const char new_one[] = "whsec_TkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkU"; /* padding may be missing */
    char both[200];

    (void)snprintf(both, sizeof(both), "%s %s", new_one, old_one);
    cr_expect_eq(entries(signature_with(old_one, "before")), 1);
    cr_expect_eq(entries(signature_with(both, "rotation")), 2);
    cr_expect_eq(entries(signature_with(new_one, "after")), 1);
}
