#include "task/task.h"
#include "base/log.h"
#include "../support/config_fixture.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(config_values, .init = config_fixture_set_up, .fini = config_fixture_tear_down);

Test(config_values, listen_is_split_into_host_and_port)
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
        config_fixture_expect_ok(WORDS("--listen", rows[i].text), NO_WORDS);
        cr_expect_str_eq(config_fixture.host, rows[i].host);
        cr_expect_eq(config_fixture.port, rows[i].port);
    }
}

Test(config_values, other_forms_of_listen_are_refused)
{
    static const char *const no_port[] = {"localhost", "", "8080"};
    static const char *const bad_port[] = {"h:",    "h:x",   "h:-0",  "h:-1",   "h:65536",
                                           "h:80 ", "h: 80", "h:+80", "h:0x50", "h:99999999999999999999"};
    static const char *const bad_host[] = {"::1:80",         "[::1:80",        "::1]:80", "[]:80",
                                           "[127.0.0.1]:80", "[localhost]:80", "a b:80",  "http://h:80",
                                           "256.0.0.1:80",   "127.1:80",       "1:80",    "[fe80::1%lo]:80"};

    for (size_t i = 0; i < sizeof(no_port) / sizeof(no_port[0]); i++)
        config_fixture_expect_refused("--listen", no_port[i], "has no port: write HOST:PORT");
    for (size_t i = 0; i < sizeof(bad_port) / sizeof(bad_port[0]); i++)
        config_fixture_expect_refused("--listen", bad_port[i], "does not end in a port from 0 to 65535");
    for (size_t i = 0; i < sizeof(bad_host) / sizeof(bad_host[0]); i++)
        config_fixture_expect_refused(
            "--listen", bad_host[i], "does not begin with a host name, an IPv4 address or an IPv6 address in brackets");
    config_fixture_expect_refused("--listen", ":8080", "has no host: write 0.0.0.0 or [::] in front for all addresses");
}

Test(config_values, without_a_token_only_loopback_is_listened_on)
{
    static const char *const rows[] = {"0.0.0.0:80",           "[::]:80",    "10.0.0.1:80",
                                       "localhost.example:80", "gateway:80", "[::2]:80"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[256];

        (void)snprintf(line, sizeof(line),
                       "listen: \"%s\" is not a loopback address and no token is set: set DUEPOST_TOKEN or token-file, "
                       "or give --no-auth to let everyone in\n",
                       rows[i]);
        config_fixture_expect_faults(WORDS("--listen", rows[i]), NO_WORDS, line);
        config_fixture_expect_ok(WORDS("--listen", rows[i]), WORDS("DUEPOST_TOKEN=t"));
        config_fixture_expect_ok(WORDS("--listen", rows[i], "--token-file", config_fixture_file_with("t\n")), NO_WORDS);
        config_fixture_expect_ok(WORDS("--listen", rows[i], "--no-auth"), NO_WORDS);
    }
}

Test(config_values, redis_takes_three_forms)
{
    static const char *const rows[] = {"embedded", "redis://h", "redis://u:p@h:6379/3", "unix:///run/redis.sock"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        config_fixture_expect_ok(WORDS("--redis", rows[i]), NO_WORDS);
        cr_expect_str_eq(config_fixture.redis, rows[i]);
    }
}

Test(config_values, other_forms_of_redis_are_refused_and_the_coming_ones_say_so)
{
    static const char *const rows[] = {
        "", "redis://", "unix://run/redis.sock", "unix:///", "http://h", "h:6379", "Embedded", "REDIS://h"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        config_fixture_expect_refused("--redis", rows[i],
                                      "is neither redis://[user:pass@]host:port[/db] nor unix:///path nor embedded");
    config_fixture_expect_refused("--redis", "rediss://h:1",
                                  "asks for TLS to Redis, which is not supported by this version");
    config_fixture_expect_refused("--redis", "sentinel://a:1,b:2/m",
                                  "asks for Redis Sentinel, which is not supported by this version");
    config_fixture_expect_refused("--redis", "cluster://a:1,b:2",
                                  "asks for Redis Cluster, which is not supported by this version");
}

Test(config_values, numbers_are_plain_integers_within_their_bounds)
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
        config_fixture_expect_refused(rows[i].flag, rows[i].value, reason);
    }
    config_fixture_expect_ok(WORDS("--max-finished", "0", "--max-pending", "1", "--threads", "256"), NO_WORDS);
    cr_expect_eq(config_fixture.max_finished, 0);
    cr_expect_eq(config_fixture.max_pending, 1);
    cr_expect_eq(config_fixture.threads, 256);
}

Test(config_values, more_than_one_partition_is_not_in_this_version)
{
    config_fixture_expect_ok(WORDS("--partitions", "1"), NO_WORDS);
    config_fixture_expect_refused("--partitions", "4", "is not 1, the only value that this version supports");
}

Test(config_values, durations_are_texts_with_units_or_milliseconds)
{
    const char *file =
        config_fixture_file_with("{\"claim-idle\": 2500, \"drain-timeout\": \"1m30s\", \"retention-dead\": \"100\"}");

    config_fixture_expect_ok(WORDS("--config", file, "--retention-expired", "250ms"),
                             WORDS("DUEPOST_RETENTION_CANCELLED=86400000"));
    cr_expect_eq(config_fixture.claim_idle_ms, 2500);
    cr_expect_eq(config_fixture.drain_timeout_ms, 90000);
    cr_expect_eq(config_fixture.retention_dead_ms, 100);
    cr_expect_eq(config_fixture.retention_expired_ms, 250);
    cr_expect_eq(config_fixture.retention_cancelled_ms, 86400000);
    config_fixture_expect_refused("--claim-idle", "999",
                                  "is not a duration (like 15s, 1h30m or milliseconds) from 1s to 1d");
    config_fixture_expect_refused("--claim-idle", "15 s",
                                  "is not a duration (like 15s, 1h30m or milliseconds) from 1s to 1d");
    config_fixture_expect_refused("--drain-timeout", "-1",
                                  "is not a duration (like 15s, 1h30m or milliseconds) from 0s to 1d");
    config_fixture_expect_refused("--retention-dead", "3654d",
                                  "is not a duration (like 15s, 1h30m or milliseconds) from 1ms to 3653d");
}

Test(config_values, networks_are_read_and_the_wrong_one_is_named)
{
    config_fixture_expect_ok(WORDS("--allow-net", "127.0.0.0/8, ::1"), NO_WORDS);
    cr_expect_eq(config_fixture.allow_net.count, 2);
    config_fixture_expect_ok(WORDS("--allow-net="), WORDS("DUEPOST_ALLOW_NET=127.0.0.0/8"));
    cr_expect_eq(config_fixture.allow_net.count, 0, "a flag may take back what the environment allows");
    config_fixture_expect_refused(
        "--allow-net", "127.0.0.0/8,10.0.0.1/8",
        "is not a list of networks: \"10.0.0.1/8\" is no address, or has bits set after its /n");
}

Test(config_values, a_prefix_is_made_of_plain_characters)
{
    char long_prefix[66];

    memset(long_prefix, 'p', 65);
    long_prefix[65] = '\0';
    config_fixture_expect_refused("--prefix", "a{b}", "is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -");
    config_fixture_expect_refused("--prefix", "", "is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -");
    config_fixture_expect_refused("--prefix", long_prefix, "is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -");
    config_fixture_expect_ok(WORDS("--prefix", "my.App_1:x-y"), NO_WORDS);
}

Test(config_values, choices_are_log_enums)
{
    config_fixture_expect_ok(WORDS("--log-level", "warn", "--log-format", "json"), NO_WORDS);
    cr_expect_eq(config_fixture.log_level, LOG_LEVEL_WARN);
    cr_expect_eq(config_fixture.log_format, LOG_FORMAT_JSON);
    config_fixture_expect_ok(WORDS("--durability", "replica"), NO_WORDS);
    cr_expect_eq(config_fixture.durability, TASK_DURABILITY_REPLICA);
    config_fixture_expect_refused("--durability", "disk", "is none of: memory fsync replica");
    config_fixture_expect_refused("--log-level", "warning", "is none of: debug info warn error");
    config_fixture_expect_refused("--log-format", "JSON", "is none of: text json");
}
