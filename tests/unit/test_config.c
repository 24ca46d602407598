#include "base/log.h"
#include "conf/config.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEMS_MAX 16
#define FOLDER_TEMPLATE "/tmp/duepost-test-XXXXXX"

static struct config c;
static struct buf faults;
static char folder[sizeof(FOLDER_TEMPLATE)];
static char paths[ITEMS_MAX][64];
static int path_count;

static void set_up(void)
{
    buf_init(&faults, 1 << 20);
    buf_puts(&faults, "");
    memcpy(folder, FOLDER_TEMPLATE, sizeof(folder));
    cr_assert_not_null(mkdtemp(folder));
}

static void tear_down(void)
{
    config_deinit(&c);
    buf_deinit(&faults);
    while (path_count > 0)
        (void)unlink(paths[--path_count]);
    (void)rmdir(folder);
}

TestSuite(config, .init = set_up, .fini = tear_down);

/* A file in this test's folder; its path is good until the end of the test. */
static const char *file_with(const char *text)
{
    char *path = paths[path_count];
    FILE *f = NULL;

    cr_assert_lt(path_count, ITEMS_MAX);
    (void)snprintf(path, sizeof(paths[0]), "%s/%d", folder, path_count++);
    f = fopen(path, "w");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(text, 1, strlen(text), f), strlen(text));
    cr_assert_eq(fclose(f), 0);
    return path;
}

/* Lists of words, NULL-terminated. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS ((const char *const[]){NULL})

static enum err load(const char *const *args, const char *const *env)
{
    char *argv[ITEMS_MAX] = {NULL};
    char *environment[ITEMS_MAX] = {NULL};
    int argc = 0;
    enum err err = ERR_OK;

    for (; args[argc]; argc++)
        argv[argc] = strdup(args[argc]);
    for (int i = 0; env[i]; i++)
        environment[i] = strdup(env[i]);
    config_deinit(&c);
    buf_clear(&faults);
    err = config_load(argc, argv, environment, &c, &faults);
    for (int i = 0; i < ITEMS_MAX; i++) { /* nothing may be borrowed from them after loading */
        free(argv[i]);
        free(environment[i]);
    }
    return err;
}

static void expect_ok(const char *const *args, const char *const *env)
{
    cr_assert_eq(load(args, env), ERR_OK, "%s", faults.data);
    cr_expect_eq(faults.len, 0);
}

static void expect_faults(const char *const *args, const char *const *env, const char *lines)
{
    cr_expect_eq(load(args, env), ERR_INVALID, "accepted, wanted: %s", lines);
    cr_expect_str_eq(faults.data, lines);
    cr_expect_null(c.listen, "on an error the struct is empty");
}

/* One flag with a value, wrong for this reason. */
static void expect_refused(const char *flag, const char *value, const char *reason)
{
    char *line = NULL;

    cr_assert_gt(asprintf(&line, "%s: \"%s\" %s\n", flag, value, reason), 0);
    expect_faults(WORDS(flag, value), NO_WORDS, line);
    free(line);
}

Test(config, defaults_are_those_of_the_contract)
{
    expect_ok(NO_WORDS, NO_WORDS);
    cr_expect_str_eq(c.listen, "127.0.0.1:8080");
    cr_expect_str_eq(c.host, "127.0.0.1");
    cr_expect_eq(c.port, 8080);
    cr_expect_str_eq(c.redis, "embedded");
    cr_expect_str_eq(c.data_dir, "./duepost-data");
    cr_expect_null(c.tokens);
    cr_expect_null(c.signing_secret);
    cr_expect_eq(c.allow_net.count, 0);
    cr_expect_geq(c.threads, 1);
    cr_expect_eq(c.concurrency, 256);
    cr_expect_eq(c.max_body_bytes, 1048576);
    cr_expect_eq(c.max_pending, 0);
    cr_expect_eq(c.max_finished, 1000000);
    cr_expect_str_eq(c.prefix, "duepost");
    cr_expect_null(c.ca_file);
    cr_expect_eq(c.partitions, 1);
    cr_expect_eq(c.claim_idle_ms, 15000);
    cr_expect_eq(c.retention_delivered_ms, 3600000);
    cr_expect_eq(c.retention_cancelled_ms, 3600000);
    cr_expect_eq(c.retention_expired_ms, 3600000);
    cr_expect_eq(c.retention_dead_ms, 604800000);
    cr_expect_eq(c.drain_timeout_ms, 30000);
    cr_expect_eq(c.log_level, LOG_LEVEL_INFO);
    cr_expect_eq(c.log_format, LOG_FORMAT_TEXT);
    cr_expect_not(c.no_auth);
}

Test(config, a_flag_goes_before_a_variable_and_a_variable_before_the_file)
{
    const char *file = file_with("{\"concurrency\": 1, \"threads\": 1, \"prefix\": \"file\", \"max-pending\": 9}");

    expect_ok(WORDS("--config", file, "--concurrency", "3"),
              WORDS("DUEPOST_CONCURRENCY=2", "DUEPOST_THREADS=2", "DUEPOST_MAX_BODY=77"));
    cr_expect_eq(c.concurrency, 3, "flag");
    cr_expect_eq(c.threads, 2, "variable");
    cr_expect_str_eq(c.prefix, "file");
    cr_expect_eq(c.max_pending, 9, "file");
    cr_expect_eq(c.max_body_bytes, 77);
    cr_expect_eq(c.max_finished, 1000000, "default");
}

Test(config, both_forms_of_a_flag_are_read_and_the_last_one_counts)
{
    expect_ok(WORDS("--prefix", "a", "--threads=2", "--prefix=b"), NO_WORDS);
    cr_expect_str_eq(c.prefix, "b");
    cr_expect_eq(c.threads, 2);
}

Test(config, no_auth_is_a_flag_without_value_and_a_boolean_elsewhere)
{
    expect_ok(WORDS("--no-auth", "--threads", "1"), NO_WORDS);
    cr_expect(c.no_auth);
    expect_ok(WORDS("--no-auth=false"), WORDS("DUEPOST_NO_AUTH=true"));
    cr_expect_not(c.no_auth);
    expect_ok(NO_WORDS, WORDS("DUEPOST_NO_AUTH=1"));
    cr_expect(c.no_auth);
    expect_ok(WORDS("--config", file_with("{\"no-auth\": true}")), NO_WORDS);
    cr_expect(c.no_auth);
    expect_faults(NO_WORDS, WORDS("DUEPOST_NO_AUTH=yes"), "DUEPOST_NO_AUTH: \"yes\" is neither true nor false\n");
}

Test(config, the_file_may_be_named_by_a_variable_and_the_flag_goes_before_it)
{
    char variable[128];

    (void)snprintf(variable, sizeof(variable), "DUEPOST_CONFIG=%s", file_with("{\"prefix\": \"variable\"}"));
    expect_ok(NO_WORDS, WORDS(variable));
    cr_expect_str_eq(c.prefix, "variable");
    expect_ok(WORDS("--config", file_with("{\"prefix\": \"flag\"}")), WORDS(variable));
    cr_expect_str_eq(c.prefix, "flag");
}

Test(config, an_empty_variable_counts_as_unset)
{
    expect_ok(NO_WORDS, WORDS("DUEPOST_LISTEN=", "DUEPOST_TOKEN=", "DUEPOST_CONFIG=", "DUEPOST_UNHEARD_OF="));
    cr_expect_str_eq(c.listen, "127.0.0.1:8080");
    cr_expect_null(c.tokens);
}

Test(config, variables_of_others_and_of_kubernetes_are_passed_over)
{
    expect_ok(NO_WORDS, WORDS("PATH=/bin", "DUEPOSTER=1", "duepost_listen=x", "DUEPOST_PORT=tcp://10.0.0.1:80",
                              "DUEPOST_PORT_8080_TCP=tcp://10.0.0.1:8080", "DUEPOST_SERVICE_HOST=10.0.0.1"));
    cr_expect_eq(c.port, 8080);
}

Test(config, unknown_names_are_faults_in_every_source)
{
    const char *file = file_with("{\"liste\": \"x\", \"config\": \"y\", \"LISTEN\": \"z\"}");
    char lines[512];

    (void)snprintf(lines, sizeof(lines),
                   "--lsten: there is no such flag\n"
                   "DUEPOST_SERVICE: there is no such setting\n"
                   "%s: liste: there is no such setting\n"
                   "%s: config: cannot stand in the file itself\n"
                   "%s: LISTEN: there is no such setting\n",
                   file, file, file);
    expect_faults(WORDS("--lsten", "value", "--config", file), WORDS("DUEPOST_SERVICE=1"), lines);
}

Test(config, arguments_that_are_no_flags_are_faults)
{
    expect_faults(WORDS("extra", "-p", "--", "--prefix", "x", "y"), NO_WORDS,
                  "\"extra\": is neither a flag nor the value of one\n"
                  "\"-p\": is neither a flag nor the value of one\n"
                  "\"--\": is neither a flag nor the value of one\n"
                  "\"y\": is neither a flag nor the value of one\n");
}

Test(config, a_flag_without_its_value_is_a_fault)
{
    expect_faults(WORDS("--prefix", "--threads"), NO_WORDS, "--prefix: needs a value\n--threads: needs a value\n");
}

Test(config, every_fault_of_every_source_is_told_in_one_go)
{
    const char *file = file_with("{\"threads\": 0, \"claim-idle\": \"1ms\"}");
    char lines[1024];

    (void)snprintf(lines, sizeof(lines),
                   "--bogus: there is no such flag\n"
                   "%s: threads: \"0\" is not an integer from 1 to 256\n"
                   "%s: claim-idle: \"1ms\" is not a duration (like 15s, 1h30m or milliseconds) from 1s to 1d\n"
                   "DUEPOST_LOG_LEVEL: \"loud\" is none of: debug info warn error\n"
                   "--log-level: \"louder\" is none of: debug info warn error\n"
                   "ca-file: the file \"/nonexistent/ca.pem\" does not exist or may not be read\n",
                   file, file);
    expect_faults(WORDS("--config", file, "--bogus", "--log-level", "louder", "--ca-file", "/nonexistent/ca.pem"),
                  WORDS("DUEPOST_LOG_LEVEL=loud"), lines);
}

Test(config, listen_is_split_into_host_and_port)
{
    static const struct {
        const char *text;
        const char *host;
        int port;
    } rows[] = {
        {"127.0.0.1:0", "127.0.0.1", 0},   {"localhost:65535", "localhost", 65535},
        {"LOCALHOST:1", "LOCALHOST", 1},   {"[::1]:8080", "::1", 8080},
        {"127.9.8.7:80", "127.9.8.7", 80}, {"[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1", 80},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_ok(WORDS("--listen", rows[i].text), NO_WORDS);
        cr_expect_str_eq(c.host, rows[i].host);
        cr_expect_eq(c.port, rows[i].port);
    }
}

Test(config, other_forms_of_listen_are_refused)
{
    static const char *const no_port[] = {"localhost", "", "8080"};
    static const char *const bad_port[] = {"h:",    "h:x",   "h:-0",  "h:-1",   "h:65536",
                                           "h:80 ", "h: 80", "h:+80", "h:0x50", "h:99999999999999999999"};
    static const char *const bad_host[] = {"::1:80",         "[::1:80",        "::1]:80", "[]:80",
                                           "[127.0.0.1]:80", "[localhost]:80", "a b:80",  "http://h:80",
                                           "256.0.0.1:80",   "127.1:80",       "1:80",    "[fe80::1%lo]:80"};

    for (size_t i = 0; i < sizeof(no_port) / sizeof(no_port[0]); i++)
        expect_refused("--listen", no_port[i], "has no port: write HOST:PORT");
    for (size_t i = 0; i < sizeof(bad_port) / sizeof(bad_port[0]); i++)
        expect_refused("--listen", bad_port[i], "does not end in a port from 0 to 65535");
    for (size_t i = 0; i < sizeof(bad_host) / sizeof(bad_host[0]); i++)
        expect_refused("--listen", bad_host[i],
                       "does not begin with a host name, an IPv4 address or an IPv6 address in brackets");
    expect_refused("--listen", ":8080", "has no host: write 0.0.0.0 or [::] in front for all addresses");
}

Test(config, without_a_token_only_loopback_is_listened_on)
{
    static const char *const rows[] = {"0.0.0.0:80",           "[::]:80",    "10.0.0.1:80",
                                       "localhost.example:80", "gateway:80", "[::2]:80"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[256];

        (void)snprintf(line, sizeof(line),
                       "listen: \"%s\" is not a loopback address and no token is set: set DUEPOST_TOKEN or token-file, "
                       "or give --no-auth to let everyone in\n",
                       rows[i]);
        expect_faults(WORDS("--listen", rows[i]), NO_WORDS, line);
        expect_ok(WORDS("--listen", rows[i]), WORDS("DUEPOST_TOKEN=t"));
        expect_ok(WORDS("--listen", rows[i], "--token-file", file_with("t\n")), NO_WORDS);
        expect_ok(WORDS("--listen", rows[i], "--no-auth"), NO_WORDS);
    }
}

Test(config, redis_takes_three_forms)
{
    static const char *const rows[] = {"embedded", "redis://h", "redis://u:p@h:6379/3", "unix:///run/redis.sock"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_ok(WORDS("--redis", rows[i]), NO_WORDS);
        cr_expect_str_eq(c.redis, rows[i]);
    }
}

Test(config, other_forms_of_redis_are_refused_and_the_coming_ones_say_so)
{
    static const char *const rows[] = {
        "", "redis://", "unix://run/redis.sock", "unix:///", "http://h", "h:6379", "Embedded", "REDIS://h"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_refused("--redis", rows[i],
                       "is neither redis://[user:pass@]host:port[/db] nor unix:///path nor embedded");
    expect_refused("--redis", "rediss://h:1", "asks for TLS to Redis, which is not supported by this version");
    expect_refused("--redis", "sentinel://a:1,b:2/m",
                   "asks for Redis Sentinel, which is not supported by this version");
    expect_refused("--redis", "cluster://a:1,b:2", "asks for Redis Cluster, which is not supported by this version");
}

Test(config, numbers_are_plain_integers_within_their_bounds)
{
    static const struct {
        const char *flag;
        const char *value;
        const char *bounds;
    } rows[] = {
        {"--threads", "0", "1 to 256"},
        {"--threads", "257", "1 to 256"},
        {"--threads", "", "1 to 256"},
        {"--threads", "two", "1 to 256"},
        {"--concurrency", "1.0", "1 to 100000"},
        {"--concurrency", "1e2", "1 to 100000"},
        {"--concurrency", " 5", "1 to 100000"},
        {"--max-body", "-1", "1 to 67108864"},
        {"--max-body", "1MB", "1 to 67108864"},
        {"--max-pending", "0", "1 to 1000000000000"},
        {"--max-finished", "99999999999999999999", "0 to 1000000000000"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char reason[64];

        (void)snprintf(reason, sizeof(reason), "is not an integer from %s", rows[i].bounds);
        expect_refused(rows[i].flag, rows[i].value, reason);
    }
    expect_ok(WORDS("--max-finished", "0", "--max-pending", "1", "--threads", "256"), NO_WORDS);
    cr_expect_eq(c.max_finished, 0);
    cr_expect_eq(c.max_pending, 1);
    cr_expect_eq(c.threads, 256);
}

Test(config, more_than_one_partition_is_not_in_this_version)
{
    expect_ok(WORDS("--partitions", "1"), NO_WORDS);
    expect_refused("--partitions", "4", "is not 1, the only value that this version supports");
}

Test(config, durations_are_texts_with_units_or_milliseconds)
{
    const char *file = file_with("{\"claim-idle\": 2500, \"drain-timeout\": \"1m30s\", \"retention-dead\": \"100\"}");

    expect_ok(WORDS("--config", file, "--retention-expired", "250ms"), WORDS("DUEPOST_RETENTION_CANCELLED=86400000"));
    cr_expect_eq(c.claim_idle_ms, 2500);
    cr_expect_eq(c.drain_timeout_ms, 90000);
    cr_expect_eq(c.retention_dead_ms, 100);
    cr_expect_eq(c.retention_expired_ms, 250);
    cr_expect_eq(c.retention_cancelled_ms, 86400000);
    expect_refused("--claim-idle", "999", "is not a duration (like 15s, 1h30m or milliseconds) from 1s to 1d");
    expect_refused("--claim-idle", "15 s", "is not a duration (like 15s, 1h30m or milliseconds) from 1s to 1d");
    expect_refused("--drain-timeout", "-1", "is not a duration (like 15s, 1h30m or milliseconds) from 0s to 1d");
    expect_refused("--retention-dead", "3654d",
                   "is not a duration (like 15s, 1h30m or milliseconds) from 1ms to 3653d");
}

Test(config, networks_are_read_and_the_wrong_one_is_named)
{
    expect_ok(WORDS("--allow-net", "127.0.0.0/8, ::1"), NO_WORDS);
    cr_expect_eq(c.allow_net.count, 2);
    expect_ok(WORDS("--allow-net="), WORDS("DUEPOST_ALLOW_NET=127.0.0.0/8"));
    cr_expect_eq(c.allow_net.count, 0, "a flag may take back what the environment allows");
    expect_refused("--allow-net", "127.0.0.0/8,10.0.0.1/8",
                   "is not a list of networks: \"10.0.0.1/8\" is no address, or has bits set after its /n");
}

Test(config, a_prefix_is_made_of_plain_characters)
{
    char long_prefix[66];

    memset(long_prefix, 'p', 65);
    long_prefix[65] = '\0';
    expect_refused("--prefix", "a{b}", "is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -");
    expect_refused("--prefix", "", "is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -");
    expect_refused("--prefix", long_prefix, "is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -");
    expect_ok(WORDS("--prefix", "my.App_1:x-y"), NO_WORDS);
}

Test(config, choices_are_log_enums)
{
    expect_ok(WORDS("--log-level", "warn", "--log-format", "json"), NO_WORDS);
    cr_expect_eq(c.log_level, LOG_LEVEL_WARN);
    cr_expect_eq(c.log_format, LOG_FORMAT_JSON);
    expect_refused("--log-level", "warning", "is none of: debug info warn error");
    expect_refused("--log-format", "JSON", "is none of: text json");
}

Test(config, tokens_are_separated_by_commas_or_blanks)
{
    expect_ok(NO_WORDS, WORDS("DUEPOST_TOKEN= one,two three\t,four"));
    cr_expect_str_eq(c.tokens[0], "one");
    cr_expect_str_eq(c.tokens[1], "two");
    cr_expect_str_eq(c.tokens[2], "three");
    cr_expect_str_eq(c.tokens[3], "four");
    cr_expect_null(c.tokens[4]);
}

Test(config, a_secret_may_come_from_a_file_without_its_last_line_end)
{
    expect_ok(WORDS("--token-file", file_with("one\ntwo\r\n"), "--signing-secret-file", file_with("whsec_a\nwhsec_b\n"),
                    "--redis-file", file_with("redis://:secret@h:1\n")),
              NO_WORDS);
    cr_expect_str_eq(c.tokens[0], "one");
    cr_expect_str_eq(c.tokens[1], "two");
    cr_expect_null(c.tokens[2]);
    cr_expect_str_eq(c.signing_secret, "whsec_a\nwhsec_b");
    cr_expect_str_eq(c.redis, "redis://:secret@h:1");
}

Test(config, a_file_without_a_secret_is_a_fault)
{
    const char *empty = file_with("\n");
    const char *blank = file_with(" , ");
    char lines[512];

    (void)snprintf(lines, sizeof(lines),
                   "token-file: the file \"%s\" is empty\n"
                   "signing-secret-file: the text in \"%s\" is blank\n"
                   "redis-file: the file \"/nonexistent/x\" does not exist\n",
                   empty, blank);
    expect_faults(WORDS("--token-file", empty, "--signing-secret-file", blank, "--redis-file", "/nonexistent/x"),
                  NO_WORDS, lines);
    (void)snprintf(lines, sizeof(lines), "token-file: the file \"%s\" is a folder\n", folder);
    expect_faults(WORDS("--token-file", folder), NO_WORDS, lines);
}

Test(config, a_secret_and_its_file_exclude_each_other)
{
    expect_faults(
        WORDS("--token-file", "/a", "--signing-secret-file", "/b", "--redis-file", "/c", "--redis", "embedded"),
        WORDS("DUEPOST_TOKEN=t", "DUEPOST_SIGNING_SECRET=s"),
        "token-file: cannot be used together with token: set one of them\n"
        "signing-secret-file: cannot be used together with signing-secret: set one of them\n"
        "redis-file: cannot be used together with redis: set one of them\n");
}

Test(config, secrets_have_no_flag_and_are_not_repeated_when_one_is_tried)
{
    expect_faults(WORDS("--token", "hunter2", "--signing-secret=hunter2", "--tokn", "hunter2"), NO_WORDS,
                  "--token: a secret is not taken from the command line: use DUEPOST_TOKEN or --token-file\n"
                  "--signing-secret: a secret is not taken from the command line: use DUEPOST_SIGNING_SECRET or "
                  "--signing-secret-file\n"
                  "--tokn: there is no such flag\n");
}

Test(config, no_fault_shows_a_secret)
{
    const char *file =
        file_with("{\"token\": \"hunter2\x7f\", \"redis\": \"http://u:hunter2@h\", \"signing-secret\": 7}");
    const char *secret = file_with("redis+hunter2\n");
    const char *broken = file_with("{\"token\": \"hunter2\" \"hunter2\"}");

    cr_expect_eq(load(WORDS("--config", file, "--redis", "rediss://u:hunter2/@x@h", "--redis-file", secret),
                      WORDS("DUEPOST_TOKEN=hunter2\x01", "DUEPOST_REDIS=:hunter2@h", "DUEPOST_TOKNE=hunter2")),
                 ERR_INVALID);
    cr_expect_null(strstr(faults.data, "hunter2"), "%s", faults.data);
    cr_expect_not_null(strstr(faults.data, "\"http://u:***@h\""), "%s", faults.data);
    cr_expect_not_null(strstr(faults.data, "\"rediss://u:***@h\""), "%s", faults.data);
    cr_expect_not_null(strstr(faults.data, "DUEPOST_TOKEN: the value is not visible ASCII throughout (entry 1)"));
    cr_expect_eq(load(WORDS("--redis-file", secret), NO_WORDS), ERR_INVALID);
    cr_expect_null(strstr(faults.data, "hunter2"), "%s", faults.data);
    cr_expect_eq(load(WORDS("--config", broken), NO_WORDS), ERR_INVALID);
    cr_expect_null(strstr(faults.data, "hunter2"), "%s", faults.data);
}

Test(config, a_file_of_the_wrong_form_is_a_fault)
{
    static const struct {
        const char *text;
        const char *reason;
    } rows[] = {
        {"", "is not valid JSON at line 1, column 0"},
        {"{\n \"threads\": }", "is not valid JSON at line 2, column 13"},
        {"[]", "is not a JSON object"},
        {"{} {}", "is not valid JSON at line 1, column 4"},
        {"{\"threads\": 1,\n\"threads\": 2}", "has a member twice, at line 2, column 9"},
    };
    char line[256];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *file = file_with(rows[i].text);

        (void)snprintf(line, sizeof(line), "%s: %s\n", file, rows[i].reason);
        expect_faults(WORDS("--config", file), NO_WORDS, line);
    }
    expect_faults(WORDS("--config", "/nonexistent/x"), NO_WORDS,
                  "config: the file \"/nonexistent/x\" does not exist\n");
}

Test(config, members_of_the_wrong_type_are_faults)
{
    static const struct {
        const char *member;
        const char *reason;
    } rows[] = {
        {"\"threads\": \"4\"", "threads: the value must be an integer"},
        {"\"threads\": 4.0", "threads: the value must be an integer"},
        {"\"threads\": null", "threads: the value must be an integer"},
        {"\"listen\": 8080", "listen: the value must be a string"},
        {"\"allow-net\": [\"::1\"]", "allow-net: the value must be a string"},
        {"\"no-auth\": \"true\"", "no-auth: the value must be true or false"},
        {"\"claim-idle\": 1.5", "claim-idle: the value must be a string with units or an integer of milliseconds"},
        {"\"log-level\": true", "log-level: the value must be a string"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[128];
        char line[256];
        const char *file = NULL;

        (void)snprintf(text, sizeof(text), "{%s}", rows[i].member);
        file = file_with(text);
        (void)snprintf(line, sizeof(line), "%s: %s\n", file, rows[i].reason);
        expect_faults(WORDS("--config", file), NO_WORDS, line);
    }
}

Test(config, print_shows_all_effective_values_and_masks_secrets)
{
    struct buf out;
    json_t *object = NULL;

    buf_init(&out, 1 << 20);
    expect_ok(WORDS("--claim-idle", "90000", "--redis-file", file_with("redis://u:hunter2@h:1/2"), "--threads", "3"),
              WORDS("DUEPOST_TOKEN=hunter2", "DUEPOST_SIGNING_SECRET=hunter2"));
    config_print(&c, &out);
    cr_expect_null(strstr(out.data, "hunter2"));
    object = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(object, "%s", out.data);
    cr_expect_eq(json_object_size(object), 27);
    cr_expect_str_eq(json_string_value(json_object_get(object, "redis")), "redis://u:***@h:1/2");
    cr_expect_str_eq(json_string_value(json_object_get(object, "token")), "***");
    cr_expect_str_eq(json_string_value(json_object_get(object, "signing-secret")), "***");
    cr_expect_str_eq(json_string_value(json_object_get(object, "claim-idle")), "1m30s");
    cr_expect_str_eq(json_string_value(json_object_get(object, "log-level")), "info");
    cr_expect_eq(json_integer_value(json_object_get(object, "threads")), 3);
    cr_expect(json_is_null(json_object_get(object, "max-pending")));
    cr_expect(json_is_null(json_object_get(object, "ca-file")));
    cr_expect(json_is_false(json_object_get(object, "no-auth")));
    json_decref(object);
    buf_deinit(&out);
}

Test(config, a_redis_url_is_masked_up_to_its_last_at_sign)
{
    static const struct {
        const char *url;
        const char *shown;
    } rows[] = {
        {"redis://h:6379/1", "\"redis\": \"redis://h:6379/1\""},
        {"redis://:pw@h", "\"redis\": \"redis://:***@h\""},
        {"redis://pw@h", "\"redis\": \"redis://***@h\""},
        {"redis://u:p@w/x@h", "\"redis\": \"redis://u:***@h\""},
        {"redis://u:p:w@h", "\"redis\": \"redis://u:***@h\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out;

        buf_init(&out, 1 << 20);
        expect_ok(WORDS("--redis", rows[i].url), NO_WORDS);
        config_print(&c, &out);
        cr_expect_not_null(strstr(out.data, rows[i].shown), "%s", out.data);
        buf_deinit(&out);
    }
}

Test(config, what_is_printed_is_read_back_the_same)
{
    struct buf first;
    struct buf second;
    json_t *object = NULL;
    char *text = NULL;
    const char *key = NULL;
    json_t *value = NULL;
    void *next = NULL;

    buf_init(&first, 1 << 20);
    buf_init(&second, 1 << 20);
    expect_ok(WORDS("--threads", "2", "--retention-dead", "90061001", "--allow-net", "::1", "--log-format", "json"),
              NO_WORDS);
    config_print(&c, &first);
    object = json_loads(first.data, 0, NULL);
    json_object_foreach_safe(object, next, key, value) if (json_is_null(value)) /* not set */
        json_object_del(object, key);
    text = json_dumps(object, 0);
    expect_ok(WORDS("--config", file_with(text)), NO_WORDS);
    free(c.config_file);
    c.config_file = NULL;
    config_print(&c, &second);
    cr_expect_str_eq(first.data, second.data);
    free(text);
    json_decref(object);
    buf_deinit(&first);
    buf_deinit(&second);
}

Test(config, usage_and_table_name_every_setting)
{
    struct buf usage;
    struct buf table;
    struct buf print;
    json_t *object = NULL;
    const char *key = NULL;
    json_t *value = NULL;

    buf_init(&usage, 1 << 20);
    buf_init(&table, 1 << 20);
    buf_init(&print, 1 << 20);
    config_usage(&usage);
    config_markdown(&table);
    expect_ok(NO_WORDS, NO_WORDS);
    config_print(&c, &print);
    object = json_loads(print.data, 0, NULL);
    json_object_foreach(object, key, value)
    {
        bool is_secret = strcmp(key, "token") == 0 || strcmp(key, "signing-secret") == 0;
        char flag[64];
        char cell[64];

        (void)snprintf(flag, sizeof(flag), "  --%s", key);
        (void)snprintf(cell, sizeof(cell), is_secret ? "| `%s` (no flag) |" : "| `--%s` |", key);
        if (!is_secret)
            cr_expect_not_null(strstr(usage.data, flag), "%s", flag);
        cr_expect_not_null(strstr(table.data, cell), "%s", cell);
    }
    cr_expect_not_null(strstr(usage.data, "\n  DUEPOST_TOKEN "));
    cr_expect_null(strstr(usage.data, "--token "));
    json_decref(object);
    buf_deinit(&usage);
    buf_deinit(&table);
    buf_deinit(&print);
}
