#include "base/log.h"
#include "base/parse.h"
#include "../support/config_fixture.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(config, .init = config_fixture_set_up, .fini = config_fixture_tear_down);

Test(config, defaults_are_those_of_the_contract)
{
    config_fixture_expect_ok(NO_WORDS, NO_WORDS);
    cr_expect_str_eq(config_fixture.listen, "127.0.0.1:8080");
    cr_expect_str_eq(config_fixture.host, "127.0.0.1");
    cr_expect_eq(config_fixture.port, 8080);
    cr_expect_str_eq(config_fixture.redis, "embedded");
    cr_expect_str_eq(config_fixture.data_dir, "./duepost-data");
    cr_expect_null(config_fixture.tokens);
    cr_expect_null(config_fixture.signing_secret);
    cr_expect_eq(config_fixture.allow_net.count, 0);
    cr_expect_geq(config_fixture.threads, 1);
    cr_expect_eq(config_fixture.concurrency, 256);
    cr_expect_eq(config_fixture.max_body_bytes, 1048576);
    cr_expect_eq(config_fixture.max_pending, 0);
    cr_expect_eq(config_fixture.max_finished, 1000000);
    cr_expect_str_eq(config_fixture.prefix, "duepost");
    cr_expect_null(config_fixture.ca_file);
    cr_expect_eq(config_fixture.partitions, 1);
    cr_expect_eq(config_fixture.claim_idle_ms, 15000);
    cr_expect_eq(config_fixture.retention_delivered_ms, 3600000);
    cr_expect_eq(config_fixture.retention_cancelled_ms, 3600000);
    cr_expect_eq(config_fixture.retention_expired_ms, 3600000);
    cr_expect_eq(config_fixture.retention_dead_ms, 604800000);
    cr_expect_eq(config_fixture.drain_timeout_ms, 30000);
    cr_expect_eq(config_fixture.log_level, LOG_LEVEL_INFO);
    cr_expect_eq(config_fixture.log_format, LOG_FORMAT_TEXT);
    cr_expect_not(config_fixture.no_auth);
}

Test(config, a_flag_goes_before_a_variable_and_a_variable_before_the_file)
{
    const char *file =
        config_fixture_file_with("{\"concurrency\": 1, \"threads\": 1, \"prefix\": \"file\", \"max-pending\": 9}");

    config_fixture_expect_ok(WORDS("--config", file, "--concurrency", "3"),
                             WORDS("DUEPOST_CONCURRENCY=2", "DUEPOST_THREADS=2", "DUEPOST_MAX_BODY=77"));
    cr_expect_eq(config_fixture.concurrency, 3, "flag");
    cr_expect_eq(config_fixture.threads, 2, "variable");
    cr_expect_str_eq(config_fixture.prefix, "file");
    cr_expect_eq(config_fixture.max_pending, 9, "file");
    cr_expect_eq(config_fixture.max_body_bytes, 77);
    cr_expect_eq(config_fixture.max_finished, 1000000, "default");
}

Test(config, both_forms_of_a_flag_are_read_and_the_last_one_counts)
{
    config_fixture_expect_ok(WORDS("--prefix", "a", "--threads=2", "--prefix=b"), NO_WORDS);
    cr_expect_str_eq(config_fixture.prefix, "b");
    cr_expect_eq(config_fixture.threads, 2);
}

Test(config, no_auth_is_a_flag_without_value_and_a_boolean_elsewhere)
{
    config_fixture_expect_ok(WORDS("--no-auth", "--threads", "1"), NO_WORDS);
    cr_expect(config_fixture.no_auth);
    config_fixture_expect_ok(WORDS("--no-auth=false"), WORDS("DUEPOST_NO_AUTH=true"));
    cr_expect_not(config_fixture.no_auth);
    config_fixture_expect_ok(NO_WORDS, WORDS("DUEPOST_NO_AUTH=1"));
    cr_expect(config_fixture.no_auth);
    config_fixture_expect_ok(WORDS("--config", config_fixture_file_with("{\"no-auth\": true}")), NO_WORDS);
    cr_expect(config_fixture.no_auth);
    config_fixture_expect_faults(NO_WORDS, WORDS("DUEPOST_NO_AUTH=yes"),
                                 "DUEPOST_NO_AUTH: \"yes\" is neither true nor false\n");
}

Test(config, the_file_may_be_named_by_a_variable_and_the_flag_goes_before_it)
{
    char variable[128];

    (void)snprintf(variable, sizeof(variable), "DUEPOST_CONFIG=%s",
                   config_fixture_file_with("{\"prefix\": \"variable\"}"));
    config_fixture_expect_ok(NO_WORDS, WORDS(variable));
    cr_expect_str_eq(config_fixture.prefix, "variable");
    config_fixture_expect_ok(WORDS("--config", config_fixture_file_with("{\"prefix\": \"flag\"}")), WORDS(variable));
    cr_expect_str_eq(config_fixture.prefix, "flag");
}

Test(config, an_empty_variable_counts_as_unset)
{
    config_fixture_expect_ok(NO_WORDS,
                             WORDS("DUEPOST_LISTEN=", "DUEPOST_TOKEN=", "DUEPOST_CONFIG=", "DUEPOST_UNHEARD_OF="));
    cr_expect_str_eq(config_fixture.listen, "127.0.0.1:8080");
    cr_expect_null(config_fixture.tokens);
}

Test(config, variables_of_others_and_of_kubernetes_are_passed_over)
{
    config_fixture_expect_ok(NO_WORDS,
                             WORDS("PATH=/bin", "DUEPOSTER=1", "duepost_listen=x", "DUEPOST_PORT=tcp://10.0.0.1:80",
                                   "DUEPOST_PORT_8080_TCP=tcp://10.0.0.1:8080", "DUEPOST_SERVICE_HOST=10.0.0.1"));
    cr_expect_eq(config_fixture.port, 8080);
}

Test(config, unknown_names_are_faults_in_every_source)
{
    const char *file = config_fixture_file_with("{\"liste\": \"x\", \"config\": \"y\", \"LISTEN\": \"z\"}");
    char lines[512];

    (void)snprintf(lines, sizeof(lines),
                   "--lsten: there is no such flag\n"
                   "DUEPOST_SERVICE: there is no such setting\n"
                   "%s: liste: there is no such setting\n"
                   "%s: config: cannot stand in the file itself\n"
                   "%s: LISTEN: there is no such setting\n",
                   file, file, file);
    config_fixture_expect_faults(WORDS("--lsten", "value", "--config", file), WORDS("DUEPOST_SERVICE=1"), lines);
}

Test(config, arguments_that_are_no_flags_are_faults)
{
    config_fixture_expect_faults(WORDS("extra", "-p", "--", "--prefix", "x", "y"), NO_WORDS,
                                 "\"extra\": is neither a flag nor the value of one\n"
                                 "\"-p\": is neither a flag nor the value of one\n"
                                 "\"--\": is neither a flag nor the value of one\n"
                                 "\"y\": is neither a flag nor the value of one\n");
}

Test(config, a_flag_without_its_value_is_a_fault)
{
    config_fixture_expect_faults(WORDS("--prefix", "--threads"), NO_WORDS,
                                 "--prefix: needs a value\n--threads: needs a value\n");
}

Test(config, every_fault_of_every_source_is_told_in_one_go)
{
    const char *file = config_fixture_file_with("{\"threads\": 0, \"claim-idle\": \"1ms\"}");
    char lines[1024];

    (void)snprintf(lines, sizeof(lines),
                   "--bogus: there is no such flag\n"
                   "%s: threads: \"0\" is not an integer from 1 to 256\n"
                   "%s: claim-idle: \"1ms\" is not a duration (like 15s, 1h30m or milliseconds) from 1s to 1d\n"
                   "DUEPOST_LOG_LEVEL: \"loud\" is none of: debug info warn error\n"
                   "--log-level: \"louder\" is none of: debug info warn error\n"
                   "ca-file: the file \"/nonexistent/ca.pem\" does not exist or may not be read\n",
                   file, file);
    config_fixture_expect_faults(
        WORDS("--config", file, "--bogus", "--log-level", "louder", "--ca-file", "/nonexistent/ca.pem"),
        WORDS("DUEPOST_LOG_LEVEL=loud"), lines);
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
        const char *file = config_fixture_file_with(rows[i].text);

        (void)snprintf(line, sizeof(line), "%s: %s\n", file, rows[i].reason);
        config_fixture_expect_faults(WORDS("--config", file), NO_WORDS, line);
    }
    config_fixture_expect_faults(WORDS("--config", "/nonexistent/x"), NO_WORDS,
                                 "config: the file \"/nonexistent/x\" does not exist\n");
}

Test(config, members_of_the_wrong_type_are_faults)
{
    static const struct {
        const char *member;
        const char *reason;
    } rows[] = {
        {"\"threads\": \"4\"", "threads: the value must be an integer, not \"4\""},
        {"\"threads\": 4.0", "threads: the value must be an integer, not 4.0"},
        {"\"threads\": null", "threads: the value must be an integer, not null"},
        {"\"listen\": 8080", "listen: the value must be a string, not 8080"},
        {"\"allow-net\": [\"::1\"]", "allow-net: the value must be a string, not [\"::1\"]"},
        {"\"no-auth\": \"true\"", "no-auth: the value must be true or false, not \"true\""},
        {"\"claim-idle\": 1.5",
         "claim-idle: the value must be a string with units or an integer of milliseconds, not 1.5"},
        {"\"log-level\": true", "log-level: the value must be a string, not true"},
        {"\"threads\": \"000000000000000000000000000000000000000000000000000000000000000\"",
         "threads: the value must be an integer, not \"00000000000000000000000000000000000000000000000000000000000..."},
        {"\"redis\": [\"redis://me:hunter2@h\"]", "redis: the value must be a string"}, /* may hold secrets */
        {"\"token\": 1234567890123456", "token: the value must be a string"},
        {"\"signing-secret\": [\"whsec_x\"]", "signing-secret: the value must be a string"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[128];
        char line[256];
        const char *file = NULL;

        (void)snprintf(text, sizeof(text), "{%s}", rows[i].member);
        file = config_fixture_file_with(text);
        (void)snprintf(line, sizeof(line), "%s: %s\n", file, rows[i].reason);
        config_fixture_expect_faults(WORDS("--config", file), NO_WORDS, line);
    }
}

Test(config, a_fault_is_one_line_of_utf8_whatever_was_given)
{
    char network[600];

    memset(network, 'h', sizeof(network));
    network[sizeof(network) - 1] = '\0';
    for (size_t cut = 40; cut < 80; cut++) {
        memcpy(network + cut, "\xd4\x8e", 2);
        cr_expect_neq(config_fixture_load(WORDS("--allow-net", network), NO_WORDS), ERR_OK);
        cr_expect(parse_is_utf8(config_fixture_faults.data, config_fixture_faults.len), "cut at %zu", cut);
        memset(network, 'h', cut + 2);
    }
    config_fixture_expect_faults(WORDS("--a\nb", "1"), WORDS("DUEPOST_\xff\x1b=x"),
                                 "--a?b: there is no such flag\nDUEPOST_?\?: there is no such setting\n");
}
