#include "base/buf.h"
#include "../support/config_fixture.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(config_secrets, .init = config_fixture_set_up, .fini = config_fixture_tear_down);

Test(config_secrets, tokens_are_separated_by_commas_or_blanks)
{
    config_fixture_expect_ok(NO_WORDS, WORDS("DUEPOST_TOKEN= one,two three\t,four"));
    cr_expect_str_eq(config_fixture.tokens[0], "one");
    cr_expect_str_eq(config_fixture.tokens[1], "two");
    cr_expect_str_eq(config_fixture.tokens[2], "three");
    cr_expect_str_eq(config_fixture.tokens[3], "four");
    cr_expect_null(config_fixture.tokens[4]);
}

Test(config_secrets, tokens_that_only_read_are_a_list_of_their_own)
{
    config_fixture_expect_ok(NO_WORDS, WORDS("DUEPOST_TOKEN=one", "DUEPOST_READ_TOKEN=two, three"));
    cr_expect_str_eq(config_fixture.read_tokens[0], "two");
    cr_expect_str_eq(config_fixture.read_tokens[1], "three");
    cr_expect_null(config_fixture.read_tokens[2]);
    config_fixture_expect_ok(WORDS("--read-token-file", config_fixture_file_with("two\n")), WORDS("DUEPOST_TOKEN=one"));
    cr_expect_str_eq(config_fixture.read_tokens[0], "two");
}

Test(config_secrets, tokens_that_only_read_need_another_kind_beside_them)
{
    config_fixture_expect_faults(
        NO_WORDS, WORDS("DUEPOST_READ_TOKEN=two"),
        "read-token: limits nothing while no token is set: set DUEPOST_TOKEN or token-file too\n");
    config_fixture_expect_faults(NO_WORDS, WORDS("DUEPOST_READ_TOKEN=one two", "DUEPOST_TOKEN=two three"),
                                 "read-token: holds a token that token holds too\n");
}

Test(config_secrets, a_secret_may_come_from_a_file_without_its_last_line_end)
{
    config_fixture_expect_ok(WORDS("--token-file", config_fixture_file_with("one\ntwo\r\n"), "--signing-secret-file",
                                   config_fixture_file_with("whsec_a\nwhsec_b\n"), "--redis-file",
                                   config_fixture_file_with("redis://:secret@h:1\n")),
                             NO_WORDS);
    cr_expect_str_eq(config_fixture.tokens[0], "one");
    cr_expect_str_eq(config_fixture.tokens[1], "two");
    cr_expect_null(config_fixture.tokens[2]);
    cr_expect_str_eq(config_fixture.signing_secret, "whsec_a\nwhsec_b");
    cr_expect_str_eq(config_fixture.redis, "redis://:secret@h:1");
}

Test(config_secrets, a_file_without_a_secret_is_a_fault)
{
    const char *empty = config_fixture_file_with("\n");
    const char *blank = config_fixture_file_with(" , ");
    char lines[512];

    (void)snprintf(lines, sizeof(lines),
                   "token-file: the file \"%s\" is empty\n"
                   "signing-secret-file: the text in \"%s\" is blank\n"
                   "redis-file: the file \"/nonexistent/x\" does not exist\n",
                   empty, blank);
    config_fixture_expect_faults(
        WORDS("--token-file", empty, "--signing-secret-file", blank, "--redis-file", "/nonexistent/x"), NO_WORDS,
        lines);
    (void)snprintf(lines, sizeof(lines), "token-file: the file \"%s\" is a folder\n", config_fixture_folder);
    config_fixture_expect_faults(WORDS("--token-file", config_fixture_folder), NO_WORDS, lines);
}

Test(config_secrets, a_secret_and_its_file_exclude_each_other)
{
    config_fixture_expect_faults(
        WORDS("--token-file", "/a", "--signing-secret-file", "/b", "--redis-file", "/c", "--redis", "embedded"),
        WORDS("DUEPOST_TOKEN=t", "DUEPOST_SIGNING_SECRET=s"),
        "token-file: cannot be used together with token: set one of them\n"
        "signing-secret-file: cannot be used together with signing-secret: set one of them\n"
        "redis-file: cannot be used together with redis: set one of them\n");
}

Test(config_secrets, secrets_have_no_flag_and_are_not_repeated_when_one_is_tried)
{
    config_fixture_expect_faults(
        WORDS("--token", "hunter2", "--signing-secret=hunter2", "--tokn", "hunter2"), NO_WORDS,
        "--token: a secret is not taken from the command line: use DUEPOST_TOKEN or --token-file\n"
        "--signing-secret: a secret is not taken from the command line: use DUEPOST_SIGNING_SECRET or "
        "--signing-secret-file\n"
        "--tokn: there is no such flag\n");
}

Test(config_secrets, no_fault_shows_a_secret)
{
    const char *file = config_fixture_file_with(
        "{\"token\": \"hunter2\x7f\", \"redis\": \"http://u:hunter2@h\", \"signing-secret\": 7}");
    const char *secret = config_fixture_file_with("redis+hunter2\n");
    const char *broken = config_fixture_file_with("{\"token\": \"hunter2\" \"hunter2\"}");

    cr_expect_eq(
        config_fixture_load(WORDS("--config", file, "--redis", "rediss://u:hunter2/@x@h", "--redis-file", secret),
                            WORDS("DUEPOST_TOKEN=hunter2\x01", "DUEPOST_REDIS=:hunter2@h", "DUEPOST_TOKNE=hunter2")),
        ERR_INVALID);
    cr_expect_null(strstr(config_fixture_faults.data, "hunter2"), "%s", config_fixture_faults.data);
    cr_expect_not_null(strstr(config_fixture_faults.data, "\"http://u:***@h\""), "%s", config_fixture_faults.data);
    cr_expect_not_null(strstr(config_fixture_faults.data, "\"rediss://u:***@h\""), "%s", config_fixture_faults.data);
    cr_expect_not_null(
        strstr(config_fixture_faults.data, "DUEPOST_TOKEN: the value is not visible ASCII throughout (entry 1)"));
    cr_expect_eq(config_fixture_load(WORDS("--redis-file", secret), NO_WORDS), ERR_INVALID);
    cr_expect_null(strstr(config_fixture_faults.data, "hunter2"), "%s", config_fixture_faults.data);
    cr_expect_eq(config_fixture_load(WORDS("--config", broken), NO_WORDS), ERR_INVALID);
    cr_expect_null(strstr(config_fixture_faults.data, "hunter2"), "%s", config_fixture_faults.data);
}

Test(config_secrets, print_shows_all_effective_values_and_masks_secrets)
{
    struct buf out;
    json_t *object = NULL;

    buf_init(&out, 1 << 20);
    config_fixture_expect_ok(
        WORDS("--claim-idle", "90000", "--redis-file", config_fixture_file_with("redis://u:hunter2@h:1/2"), "--threads",
              "3"),
        WORDS("DUEPOST_TOKEN=hunter2", "DUEPOST_READ_TOKEN=hunter2b", "DUEPOST_SIGNING_SECRET=hunter2"));
    config_print(&config_fixture, &out);
    cr_expect_null(strstr(out.data, "hunter2"));
    object = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(object, "%s", out.data);
    cr_expect_eq(json_object_size(object), 35);
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

Test(config_secrets, a_redis_url_is_masked_up_to_its_last_at_sign)
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
        config_fixture_expect_ok(WORDS("--redis", rows[i].url), NO_WORDS);
        config_print(&config_fixture, &out);
        cr_expect_not_null(strstr(out.data, rows[i].shown), "%s", out.data);
        buf_deinit(&out);
    }
}

Test(config_secrets, what_is_printed_is_read_back_the_same)
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
    config_fixture_expect_ok(
        WORDS("--threads", "2", "--retention-dead", "90061001", "--allow-net", "::1", "--log-format", "json"),
        NO_WORDS);
    config_print(&config_fixture, &first);
    object = json_loads(first.data, 0, NULL);
    json_object_foreach_safe(object, next, key, value) if (json_is_null(value)) /* not set */
        json_object_del(object, key);
    text = json_dumps(object, 0);
    config_fixture_expect_ok(WORDS("--config", config_fixture_file_with(text)), NO_WORDS);
    free(config_fixture.config_file);
    config_fixture.config_file = NULL;
    config_print(&config_fixture, &second);
    cr_expect_str_eq(first.data, second.data);
    free(text);
    json_decref(object);
    buf_deinit(&first);
    buf_deinit(&second);
}

Test(config_secrets, usage_and_table_name_every_setting)
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
    config_fixture_expect_ok(NO_WORDS, NO_WORDS);
    config_print(&config_fixture, &print);
    object = json_loads(print.data, 0, NULL);
    json_object_foreach(object, key, value)
    {
        bool is_secret =
            strcmp(key, "token") == 0 || strcmp(key, "read-token") == 0 || strcmp(key, "signing-secret") == 0;
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
