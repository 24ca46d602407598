/* Settings: where they come from, how faults in them are told, and what each start refuses. Programs that must end by
 * themselves are run to their end; only the exit code and the text count. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_BAD_SETTING 78
#define ARRIVE_MS 10000

static char *dir;
static struct redis_fixture *redis;
static struct gateway *gateway;
static struct proc *proc;

static void setup(void)
{
    dir = tmpdir_create();
}

static void teardown(void)
{
    proc_destroy(&proc);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
    tmpdir_destroy(&dir);
}

TestSuite(settings, .init = setup, .fini = teardown, .timeout = 300);

/* Run `duepost serve` (never ready: it has a fault) and expect the exit code; its stderr. */
static const char *refused(int expected, const char *const *args, const char *const *env)
{
    const char *all[16] = {"serve"};
    size_t n = 1;

    while (args && args[n - 1]) {
        cr_assert_lt(n, 15);
        all[n] = args[n - 1];
        n++;
    }
    proc_destroy(&proc);
    int code = gateway_exit_code(all, env, &proc);
    const char *text = proc_stderr(proc);
    cr_assert_eq(code, expected, "exit code %d, not %d, for %s %s: %s", code, expected, n > 1 ? all[1] : "",
                 n > 2 ? all[2] : "", text);
    return text;
}

static void expect_text(const char *text, const char *part)
{
    cr_expect_not_null(strstr(text, part), "'%s' is not in: %s", part, text);
}

static const struct {
    const char *flag, *value;
} bad_values[] = {
    {"--threads", "abc"},
    {"--threads", "0"},
    {"--threads", "-1"},
    {"--threads", "80 "},
    {"--threads", "1e3"},
    {"--concurrency", "0"},
    {"--concurrency", "30s"},
    {"--concurrency", "99999999999999999999"},
    {"--max-body", "-1"},
    {"--max-body", "1x"},
    {"--claim-idle", "999ms"},
    {"--claim-idle", "soon"},
    {"--drain-timeout", "-5s"},
    {"--drain-timeout", "1.5s"},
    {"--listen", "127.0.0.1:70000"},
    {"--listen", "127.0.0.1:abc"},
    {"--listen", "127.0.0.1"},
    {"--allow-net", "127.0.0.0/33"},
    {"--allow-net", "abc"},
    {"--log-level", "loud"},
    {"--log-format", "xml"},
    {"--partitions", "0"},
};

Test(settings, a_bad_value_is_named_with_its_setting)
{
    for (size_t i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++) {
        const char *const args[] = {bad_values[i].flag, bad_values[i].value, NULL};
        const char *text = refused(EXIT_BAD_SETTING, args, NULL);
        expect_text(text, bad_values[i].flag + 2);
        expect_text(text, bad_values[i].value);
    }
}

/* A Redis URL may hold a password: its setting is named, the value is not shown. */
Test(settings, a_bad_redis_url_is_named_without_being_shown)
{
    static const char *const urls[] = {"http://127.0.0.1:6379", "redis://me:hunter2@127.0.0.1:99999",
                                       "redis://:hunter2@127.0.0.1:6379/x", "unix://", "redis"};

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        const char *const args[] = {"--redis", urls[i], NULL};
        const char *text = refused(EXIT_BAD_SETTING, args, NULL);
        expect_text(text, "redis");
        cr_expect_null(strstr(text, "hunter2"), "shown: %s", text);
        cr_expect_null(strstr(text, "gateway.stopped"), "half started: %s", text);
    }
}

Test(settings, all_faults_are_told_in_one_go)
{
    char *file = tmpdir_write(dir, "config.json", "{\"max-body\": \"big\", \"colour\": \"red\"}");
    const char *const args[] = {"--config", file, "--threads", "abc", "--no-such-flag", NULL};
    const char *const env[] = {"DUEPOST_CONCURRENCY=many", "DUEPOST_NO_SUCH=1", NULL};
    const char *text = refused(EXIT_BAD_SETTING, args, env);

    expect_text(text, "abc");
    expect_text(text, "many");
    expect_text(text, "max-body: the value must be an integer, not \"big\"");
    expect_text(text, "colour");
    expect_text(text, "no-such-flag");
    expect_text(text, "DUEPOST_NO_SUCH");
    free(file);
}

Test(settings, unknown_names_are_faults)
{
    static const char *const flag[] = {"--lisen", "127.0.0.1:0", NULL};
    static const char *const env[] = {"DUEPOST_LISEN=127.0.0.1:0", NULL};

    expect_text(refused(EXIT_BAD_SETTING, flag, NULL), "lisen");
    expect_text(refused(EXIT_BAD_SETTING, NULL, env), "DUEPOST_LISEN");
}

Test(settings, a_flag_needs_its_value)
{
    static const char *const args[] = {"--threads", NULL};

    expect_text(refused(EXIT_BAD_SETTING, args, NULL), "threads");
}

Test(settings, secrets_have_no_flag)
{
    static const char *const token[] = {"--token", "s3cr3t-t0ken", NULL};
    static const char *const secret[] = {"--signing-secret", "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u", NULL};

    expect_text(refused(EXIT_BAD_SETTING, token, NULL), "token");
    expect_text(refused(EXIT_BAD_SETTING, secret, NULL), "signing-secret");
}

Test(settings, a_wrong_signing_secret_is_refused_without_being_shown)
{
    static const char *const secrets[] = {
        "whsec_c2hvcnRrZXk=",                        /* 8 bytes */
        "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u",          /* no prefix */
        "v1,whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u", /* "v1" is taken for one of two secrets */
        "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWpr_-1u",    /* URL-safe alphabet */
        "whsec_",
    };

    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        char env_line[128];
        (void)snprintf(env_line, sizeof(env_line), "DUEPOST_SIGNING_SECRET=%s", secrets[i]);
        const char *const env[] = {env_line, NULL};
        const char *text = refused(EXIT_BAD_SETTING, NULL, env);
        cr_expect(strstr(text, "signing-secret") || strstr(text, "SIGNING_SECRET"), "not named: %s", text);
        cr_expect_null(strstr(text, "MDEyMzQ1"), "shown: %s", text);
        cr_expect_null(strstr(text, "c2hvcnRr"), "shown: %s", text);
    }
}

Test(settings, a_file_that_is_missing_or_no_json_is_refused)
{
    char *broken = tmpdir_write(dir, "broken.json", "{\"threads\": ");
    char *missing = tmpdir_path(dir, "missing.json");
    const char *const broken_args[] = {"--config", broken, NULL};
    const char *const missing_args[] = {"--config", missing, NULL};
    const char *const token_args[] = {"--token-file", missing, NULL};

    expect_text(refused(EXIT_BAD_SETTING, broken_args, NULL), broken);
    expect_text(refused(EXIT_BAD_SETTING, missing_args, NULL), missing);
    expect_text(refused(EXIT_BAD_SETTING, token_args, NULL), missing);
    free(broken);
    free(missing);
}

/* Run to a good end and give its stdout. */
static const char *printed(const char *const *args, const char *const *env)
{
    proc_destroy(&proc);
    int code = gateway_exit_code(args, env, &proc);
    cr_assert_eq(code, 0, "exit code %d: %s", code, proc_stderr(proc));
    return proc_stdout(proc);
}

Test(settings, a_flag_beats_the_environment_beats_the_file_beats_the_default)
{
    char *file = tmpdir_write(dir, "config.json", "{\"concurrency\": 5101, \"threads\": 51, \"max-body\": 5100007}");
    const char *const args[] = {"--print-config", "--config", file, "--concurrency", "5103", NULL};
    const char *const env[] = {"DUEPOST_CONCURRENCY=5102", "DUEPOST_THREADS=52", NULL};
    const char *text = printed(args, env);

    expect_text(text, "5103");
    expect_text(text, "52");
    expect_text(text, "5100007");
    cr_expect_null(strstr(text, "5101"));
    cr_expect_null(strstr(text, "5102"));
    free(file);
}

Test(settings, printed_settings_hide_every_secret)
{
    char *file = tmpdir_write(dir, "token", "from-the-file-1\n");
    const char *const args[] = {"--print-config", NULL};
    const char *const env[] = {"DUEPOST_TOKEN=s3cr3t-t0ken", "DUEPOST_REDIS=redis://me:hunter2@127.0.0.1:6379/1",
                               "DUEPOST_SIGNING_SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u", NULL};
    const char *const file_args[] = {"--print-config", "--token-file", file, NULL};
    const char *text = printed(args, env);

    expect_text(text, "***");
    cr_expect_null(strstr(text, "s3cr3t"));
    cr_expect_null(strstr(text, "hunter2"));
    cr_expect_null(strstr(text, "MDEyMzQ1"));
    cr_expect_null(strstr(printed(file_args, NULL), "from-the-file"));
    free(file);
}

Test(settings, variables_that_kubernetes_sets_and_empty_ones_are_passed_over)
{
    static const char *const args[] = {"--print-config", NULL};
    static const char *const env[] = {"DUEPOST_PORT=tcp://10.0.0.1:8080",
                                      "DUEPOST_PORT_8080_TCP=tcp://10.0.0.1:8080",
                                      "DUEPOST_SERVICE_HOST=10.0.0.1",
                                      "DUEPOST_THREADS=",
                                      "DUEPOST_TOKEN=",
                                      NULL};

    expect_text(printed(args, env), "threads");
}

Test(settings, help_names_every_setting_and_version_the_version)
{
    static const char *const names[] = {
        "--listen",       "--redis",         "--redis-file",  "--data-dir",   "--token-file", "--signing-secret-file",
        "--allow-net",    "--threads",       "--concurrency", "--max-body",   "--prefix",     "--ca-file",
        "--claim-idle",   "--drain-timeout", "--log-level",   "--log-format", "--config",     "--no-auth",
        "--print-config", "--version",       "receive",       "healthcheck",  "DUEPOST_"};
    static const char *const help[] = {"--help", NULL}, *const version[] = {"--version", NULL};
    const char *text = printed(help, NULL);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_text(text, names[i]);
    cr_expect_eq(strncmp(printed(version, NULL), "duepost ", 8), 0);
}

Test(settings, an_unknown_command_is_refused)
{
    static const char *const args[] = {"server", NULL};
    int code = gateway_exit_code(args, NULL, &proc);

    cr_assert_eq(code, EXIT_BAD_SETTING, "exit code %d", code);
    expect_text(proc_stderr(proc), "server");
}

Test(settings, an_address_in_use_ends_with_one_clear_line)
{
    redis = redis_fixture_create(false);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    const char *address = gateway->url + strlen("http://");
    const char *const args[] = {"--listen", address, "--redis", redis_fixture_url(redis), NULL};
    const char *text = refused(1, args, NULL);

    expect_text(text, strrchr(address, ':') + 1);
    cr_expect_eq(strchr(text, '\n'), strrchr(text, '\n'), "more than one line, so parts of it were started: %s", text);
    cr_expect_eq(strlen(proc_stdout(proc)), 0);
    cr_assert_eq(client_get(gateway->api, "/readyz")->status, 200, "the first one was disturbed");
}

Test(settings, an_address_not_of_this_host_ends_with_exit_1)
{
    const char *const args[] = {"--listen", "192.0.2.1:0", "--no-auth", "--data-dir", dir, NULL};

    expect_text(refused(1, args, NULL), "192.0.2.1");
}

Test(settings, without_a_token_only_loopback_is_listened_on)
{
    static const char *const open_args[] = {"--listen", "0.0.0.0:0", NULL};
    static const char *const six_args[] = {"--listen", "[::]:0", NULL};
    static const char *const allowed[] = {"--print-config", "--listen", "0.0.0.0:0", "--no-auth", NULL};
    static const char *const token[] = {"DUEPOST_TOKEN=abcdefghijklmnop", NULL};
    static const char *const print[] = {"--print-config", "--listen", "0.0.0.0:0", NULL};

    expect_text(refused(EXIT_BAD_SETTING, open_args, NULL), "no-auth");
    expect_text(refused(EXIT_BAD_SETTING, six_args, NULL), "no-auth");
    expect_text(printed(allowed, NULL), "0.0.0.0:0");
    expect_text(printed(print, token), "0.0.0.0:0");
}

Test(settings, a_config_file_alone_is_enough)
{
    char *text = NULL;

    redis = redis_fixture_create(false);
    cr_assert(asprintf(&text, "{\"redis\": \"%s\", \"threads\": 1, \"concurrency\": 32}", redis_fixture_url(redis)) >
              0);
    char *file = tmpdir_write(dir, "config.json", text);
    const char *const args[] = {"--config", file, NULL};
    gateway = gateway_start(&(struct gateway_opts){.args = args});
    json_t *stats = client_get(gateway->api, "/stats")->json;
    cr_expect_eq(json_integer_at(stats, "workers.capacity"), 32);
    cr_expect_eq(json_integer_at(stats, "workers.threads"), 1);
    free(file);
    free(text);
}

Test(settings, with_a_token_everything_else_comes_after_it)
{
    static const char *const env[] = {"DUEPOST_TOKEN=abcdefghijklmnop", NULL};
    static const char *const open_paths[] = {"/healthz", "/readyz", "/openapi.yaml"};

    redis = redis_fixture_create(false);
    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .env = env});
    struct client *api = gateway->api;
    for (size_t i = 0; i < sizeof(open_paths) / sizeof(open_paths[0]); i++)
        cr_expect_eq(client_get(api, open_paths[i])->status, 200, "%s", open_paths[i]);
    const struct reply *r = client_post(api, "/tasks", "{");
    cr_assert_eq(r->status, 401, "%d %s", r->status, r->body);
    cr_expect_str_eq(json_text_at(r->json, "code"), "unauthorized");
    cr_expect_not_null(reply_header(r, "www-authenticate"));
    cr_expect_eq(client_get(api, "/nowhere")->status, 401);
    cr_expect_eq(client_get(api, "/stats")->status, 401);
    cr_expect_eq(client_delete_task(api, "x")->status, 401);
    client_set_token(api, "abcdefghijklmno");
    cr_expect_eq(client_get(api, "/stats")->status, 401);
    client_set_token(api, "abcdefghijklmnop");
    cr_expect_eq(client_get(api, "/stats")->status, 200);
    cr_expect_eq(client_get_task(api, "x")->status, 404);
    cr_expect_eq(client_post(api, "/tasks", "{")->status, 400);
}

Test(settings, a_token_may_come_from_a_file)
{
    char *file = tmpdir_write(dir, "token", "abcdefghijklmnop\n");
    const char *const args[] = {"--token-file", file, NULL};

    redis = redis_fixture_create(false);
    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .args = args});
    cr_expect_eq(client_get(gateway->api, "/stats")->status, 401);
    client_set_token(gateway->api, "abcdefghijklmnop");
    cr_expect_eq(client_get(gateway->api, "/stats")->status, 200);
    free(file);
}

static int healthcheck(const char *address)
{
    const char *const args[] = {"healthcheck", "--listen", address, NULL};

    proc_destroy(&proc);
    return gateway_exit_code(args, NULL, &proc);
}

Test(settings, healthcheck_tells_ready_from_not_ready_and_from_nobody)
{
    redis = redis_fixture_create(false);
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    char *address = strdup(gateway->url + strlen("http://"));

    cr_expect_eq(healthcheck(address), 0, "%s", proc_stderr(proc));
    redis_fixture_kill(redis);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 503, ARRIVE_MS);
    cr_expect_eq(healthcheck(address), 1);
    cr_expect_not_null(strstr(proc_stderr(proc), "\"reasons\":["), "%s", proc_stderr(proc));
    cr_expect_not_null(strstr(proc_stderr(gateway->proc), redis_fixture_socket(redis)), "%s",
                       proc_stderr(gateway->proc));
    gateway_stop(gateway);
    cr_expect_eq(healthcheck(address), 1);
    cr_expect_not_null(strstr(proc_stderr(proc), address), "%s", proc_stderr(proc));
    free(address);
}
