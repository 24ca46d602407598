#include "../support/parsed.h"
#include "base/mem.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A task in answers. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define T1 INT64_C(1900000000123) /* 2030-03-17T17:46:40.123Z */
#define T2 INT64_C(1900000001000)
#define T3 INT64_C(1900000002000)
#define T1_TEXT "2030-03-17T17:46:40.123Z"
#define T2_TEXT "2030-03-17T17:46:41.000Z"
#define T3_TEXT "2030-03-17T17:46:42.000Z"

/* A task as the store would give it: its texts are static, so it is not destroyed. */
static struct task stored_task(void)
{
    static char id[] = "order-17";
    static char queue[] = "mail";
    static char url[] = "http://example.com/?q=\"x\"";

    return (struct task){.id = id,
                         .queue = queue,
                         .url = url,
                         .retry = {.max_attempts = 5},
                         .run_at_ms = T1,
                         .created_at_ms = T2,
                         .when_ms = T3};
}

static void expect_json(const struct task *t, enum task_json_form form, const char *json)
{
    struct buf out;

    buf_init(&out, SIZE_MAX);
    task_json_write(&out, t, form);
    cr_expect_eq(buf_status(&out), ERR_OK);
    cr_expect_str_eq(out.data, json);
    buf_deinit(&out);
}

/* The written task, parsed again. Gives. */
static json_t *written(const struct task *t, enum task_json_form form)
{
    struct buf out;

    buf_init(&out, SIZE_MAX);
    task_json_write(&out, t, form);
    json_t *tree =
        json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);

    cr_assert_not_null(tree, "%s", out.data);
    buf_deinit(&out);
    return tree;
}

/* The text of a member; "null" for null. Borrows from the tree. */
static const char *text_of(const json_t *tree, const char *member)
{
    const json_t *value = json_object_get(tree, member);

    cr_assert_not_null(value, "%s is missing", member);
    return json_is_null(value) ? "null" : json_string_value(value);
}

Test(task_json_write, a_new_task_has_every_member_in_the_documented_order)
{
    struct task t = stored_task();

    expect_json(&t, TASK_JSON_SUMMARY,
                "{\"id\":\"order-17\",\"queue\":\"mail\",\"state\":\"scheduled\","
                "\"url\":\"http://example.com/?q=\\\"x\\\"\",\"method\":\"POST\",\"run_at\":\"" T1_TEXT
                "\",\"created_at\":\"" T2_TEXT "\",\"attempts\":0,\"max_attempts\":5,\"next_attempt_at\":\"" T1_TEXT
                "\",\"expires_at\":null,\"finished_at\":null,\"cancel_requested\":false,\"last_attempt\":null}");
}

Test(task_json_write, a_finished_task_shows_its_last_attempt)
{
    struct task t = stored_task();
    struct task_attempt history[] = {{.at_ms = T1, .duration_us = 1000, .status = 0, .error = (char[]){"refused"}},
                                     {.at_ms = T2,
                                      .duration_us = 42999,
                                      .status = 500,
                                      .error_kind = TASK_ERROR_STATUS,
                                      .error = (char[]){"say \"no\"\n"}}};

    t.state = TASK_DEAD;
    t.method = TASK_METHOD_DELETE;
    t.attempts = 2;
    t.cancel_requested = true;
    t.history = history;
    t.history_count = COUNT(history);
    expect_json(&t, TASK_JSON_SUMMARY,
                "{\"id\":\"order-17\",\"queue\":\"mail\",\"state\":\"dead\","
                "\"url\":\"http://example.com/?q=\\\"x\\\"\",\"method\":\"DELETE\",\"run_at\":\"" T1_TEXT
                "\",\"created_at\":\"" T2_TEXT "\",\"attempts\":2,\"max_attempts\":5,\"next_attempt_at\":null,"
                "\"expires_at\":null,\"finished_at\":\"" T3_TEXT
                "\",\"cancel_requested\":true,\"last_attempt\":{\"at\":\"" T2_TEXT
                "\",\"status\":500,\"error\":\"say \\\"no\\\"\\n\",\"error_kind\":\"status\",\"duration_ms\":42}}");
}

Test(task_json_write, the_whole_task_shows_its_attempts_with_their_times)
{
    static const char want[] =
        "[{\"at\":\"" T1_TEXT "\",\"status\":null,\"error\":\"refused\",\"error_kind\":\"connect\","
        "\"duration_ms\":1.002,\"lateness_ms\":null,\"dns_ms\":0.000,\"connect_ms\":null,\"tls_ms\":null,"
        "\"first_byte_ms\":null},"
        "{\"at\":\"" T2_TEXT "\",\"status\":200,\"error\":null,\"error_kind\":null,\"duration_ms\":1234.567,"
        "\"lateness_ms\":0.700,\"dns_ms\":1.000,\"connect_ms\":20.010,\"tls_ms\":300.100,\"first_byte_ms\":900.099}]";
    struct task t = stored_task();
    struct task_attempt history[] = {
        {.at_ms = T1,
         .duration_us = 1002,
         .error_kind = TASK_ERROR_CONNECT,
         .error = (char[]){"refused"},
         .lateness_us = TASK_TIME_NONE,
         .phases = {0, TASK_TIME_NONE, TASK_TIME_NONE, TASK_TIME_NONE}},
        {.at_ms = T2,
         .duration_us = 1234567,
         .status = 200,
         .lateness_us = 700,
         .phases = {1000, 20010, 300100, 900099}},
    };
    struct buf out;

    t.history = history;
    t.history_count = COUNT(history);
    buf_init(&out, 4096);
    task_json_write(&out, &t, TASK_JSON_FULL);
    buf_putc(&out, '\0');
    cr_expect_not_null(strstr(out.data, want), "%s", out.data);
    buf_clear(&out);
    task_json_write(&out, &t, TASK_JSON_SUMMARY);
    buf_putc(&out, '\0');
    cr_expect_null(strstr(out.data, "history"), "%s", out.data);
    buf_deinit(&out);
}

Test(task_json_write, every_kind_of_failure_has_a_name)
{
    cr_expect_null(task_error_kind_name(TASK_ERROR_NONE));
    for (int k = TASK_ERROR_NONE + 1; k < TASK_ERROR_KIND_COUNT; k++)
        cr_expect_not_null(task_error_kind_name((enum task_error_kind)k), "%d", k);
}

Test(task_json_write, the_times_follow_the_state)
{
    static const struct {
        enum task_state state;
        int attempts;
        const char *next_attempt_at;
        const char *finished_at;
    } rows[] = {
        {TASK_SCHEDULED, 0, T1_TEXT, "null"}, {TASK_SCHEDULED, 1, T3_TEXT, "null"},
        {TASK_READY, 0, T1_TEXT, "null"},     {TASK_READY, 3, T3_TEXT, "null"},
        {TASK_DELIVERING, 0, "null", "null"}, {TASK_DELIVERING, 2, "null", "null"},
        {TASK_DELIVERED, 1, "null", T3_TEXT}, {TASK_DEAD, 5, "null", T3_TEXT},
        {TASK_CANCELLED, 0, "null", T3_TEXT}, {TASK_CANCELLED, 1, "null", T3_TEXT},
        {TASK_EXPIRED, 0, "null", T3_TEXT},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = stored_task();

        t.state = rows[i].state;
        t.attempts = rows[i].attempts;
        json_t *tree = written(&t, TASK_JSON_SUMMARY);

        cr_expect_str_eq(text_of(tree, "state"), task_state_name(rows[i].state));
        cr_expect_str_eq(text_of(tree, "next_attempt_at"), rows[i].next_attempt_at, "row %zu", i);
        cr_expect_str_eq(text_of(tree, "finished_at"), rows[i].finished_at, "row %zu", i);
        json_decref(tree);
    }
}

Test(task_json_write, what_a_task_has_besides_is_shown_or_null)
{
    struct task t = stored_task();
    json_t *tree = written(&t, TASK_JSON_FULL);

    cr_expect_str_eq(text_of(tree, "expires_at"), "null");
    cr_expect_str_eq(text_of(tree, "on_success"), "null");
    cr_expect_str_eq(text_of(tree, "on_failure"), "null");
    cr_expect_str_eq(text_of(tree, "traceparent"), "null");
    json_decref(tree);
    t.has_expiry = true;
    t.expires_ms = T3;
    t.on_success = (char[]){"https://a.example/"};
    t.on_failure = (char[]){"https://b.example/"};
    t.traceparent = (char[]){"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
    tree = written(&t, TASK_JSON_FULL);
    cr_expect_str_eq(text_of(tree, "expires_at"), T3_TEXT);
    cr_expect_str_eq(text_of(tree, "on_success"), t.on_success);
    cr_expect_str_eq(text_of(tree, "on_failure"), t.on_failure);
    cr_expect_str_eq(text_of(tree, "traceparent"), t.traceparent);
    json_decref(tree);
    tree = written(&t, TASK_JSON_SUMMARY);
    cr_expect_str_eq(text_of(tree, "expires_at"), T3_TEXT, "every answer says when it expires");
    json_decref(tree);
}

Test(task_json_write, an_attempt_without_an_answer_has_no_status)
{
    struct task t = stored_task();
    struct task_attempt attempt = {.at_ms = T1, .duration_us = 0, .status = 0, .error = (char[]){"bad \xff bytes"}};

    t.history = &attempt;
    t.history_count = 1;
    json_t *tree = written(&t, TASK_JSON_SUMMARY);
    json_t *last = json_object_get(tree, "last_attempt");

    cr_expect(json_is_null(json_object_get(last, "status")));
    cr_expect_str_eq(text_of(last, "error"), "bad \xef\xbf\xbd bytes");
    json_decref(tree);

    attempt.status = 204;
    attempt.error = NULL;
    tree = written(&t, TASK_JSON_SUMMARY);
    last = json_object_get(tree, "last_attempt");
    cr_expect_eq(json_number_value(json_object_get(last, "status")), 204);
    cr_expect(json_is_null(json_object_get(last, "error")));
    json_decref(tree);
}

Test(task_json_write, only_the_full_form_has_headers_and_body)
{
    struct task t = stored_task();
    struct task_header header = {(char[]){"A"}, (char[]){"b"}};

    t.headers = &header;
    t.header_count = 1;
    t.body_kind = TASK_BODY_TEXT;
    t.body = (char[]){"x"};
    t.body_bytes = 1;
    json_t *tree = written(&t, TASK_JSON_SUMMARY);

    cr_expect_eq(json_object_size(tree), 14);
    json_decref(tree);
    tree = written(&t, TASK_JSON_FULL);
    cr_expect_eq(json_object_size(tree), 20);
    cr_expect_str_eq(text_of(json_object_get(tree, "headers"), "A"), "b");
    cr_expect_str_eq(text_of(tree, "body"), "x");
    json_decref(tree);
}

Test(task_json_write, headers_that_hold_secrets_are_masked)
{
    static const struct {
        const char *name;
        bool is_masked;
    } rows[] = {
        {"Authorization", true}, {"authorization", true},  {"Proxy-Authorization", true},
        {"Cookie", true},        {"COOKIE", true},         {"X-Auth", true},
        {"X-AUTHOR", true},      {"X-Api-Key", true},      {"apikey", true},
        {"Keyword", true},       {"X-Token-Id", true},     {"my-secret", true},
        {"Db-Password", true},   {"X-Signature", true},    {"X-Hub-Signature-256", true},
        {"Content-Type", false}, {"X-Cookie-Kind", false}, {"User-Agent", false},
        {"X-Pass", false},       {"Accept", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = stored_task();
        struct task_header header = {xstrdup(rows[i].name), (char[]){"visible"}};

        t.headers = &header;
        t.header_count = 1;
        json_t *tree = written(&t, TASK_JSON_FULL);

        cr_expect_str_eq(text_of(json_object_get(tree, "headers"), rows[i].name),
                         rows[i].is_masked ? "***" : "visible");
        json_decref(tree);
        free(header.name);
    }
}

Test(task_json_write, the_body_is_shown_as_it_was_given)
{
    static const struct {
        enum task_body_kind kind;
        const char *body;
        size_t bytes;
        const char *end; /* of the written text */
    } rows[] = {
        {TASK_BODY_NONE, NULL, 0, "\"headers\":{}}"},
        {TASK_BODY_PAYLOAD, NULL, 0, "\"headers\":{}}"}, /* dropped after delivery */
        {TASK_BODY_PAYLOAD, "{\"id\":12345678901234567890, \"x\":1.10}", 37,
         ",\"payload\":{\"id\":12345678901234567890, \"x\":1.10}}"},
        {TASK_BODY_PAYLOAD, "null", 4, ",\"payload\":null}"},
        {TASK_BODY_TEXT, "", 0, ",\"body\":\"\"}"},
        {TASK_BODY_TEXT, "a\"\\\n\0b", 6, ",\"body\":\"a\\\"\\\\\\n\\u0000b\"}"},
        {TASK_BODY_BYTES, "", 0, ",\"body_base64\":\"\"}"},
        {TASK_BODY_BYTES, "\0\xff\n", 3, ",\"body_base64\":\"AP8K\"}"},
        {TASK_BODY_BYTES, "a", 1, ",\"body_base64\":\"YQ==\"}"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = stored_task();
        struct buf out;

        t.body_kind = rows[i].kind;
        t.body = rows[i].body ? xcalloc(1, rows[i].bytes + 1) : NULL;
        t.body_bytes = rows[i].bytes;
        if (t.body)
            memcpy(t.body, rows[i].body, rows[i].bytes);
        buf_init(&out, SIZE_MAX);
        task_json_write(&out, &t, TASK_JSON_FULL);
        cr_expect(out.len > strlen(rows[i].end) && strcmp(out.data + out.len - strlen(rows[i].end), rows[i].end) == 0,
                  "row %zu: %s", i, out.data);
        buf_deinit(&out);
        free(t.body);
    }
}

Test(task_json_write, what_was_parsed_is_written_back)
{
    struct parsed p;

    parsed_with(&p, ",'id':'a','headers':{'A':'1','\\u0042':'\\u00e9\\'\\\\'},'body':'\\u0001\\u20ac'");
    cr_assert_not_null(p.task, "%s", p.pointers);
    json_t *tree = written(p.task, TASK_JSON_FULL);

    cr_expect_str_eq(text_of(tree, "url"), "http://127.0.0.1:9000/hook");
    cr_expect_str_eq(text_of(tree, "body"), "\x01\xe2\x82\xac");
    cr_expect_str_eq(text_of(json_object_get(tree, "headers"), "B"), "\xc3\xa9\"\\");
    json_decref(tree);
    parsed_deinit(&p);
}

Test(task_json_write, a_full_buffer_is_remembered)
{
    struct task t = stored_task();
    struct buf out;

    buf_init(&out, 50);
    task_json_write(&out, &t, TASK_JSON_FULL);
    cr_expect_eq(buf_status(&out), ERR_TOO_BIG);
    buf_deinit(&out);
}

Test(task_json_write, an_answer_to_creation_says_whether_it_is_durable)
{
    const struct task t = stored_task();
    struct buf summary, created;

    for (int durable = 0; durable < 2; durable++) {
        buf_init(&summary, SIZE_MAX);
        buf_init(&created, SIZE_MAX);
        task_json_write(&summary, &t, TASK_JSON_SUMMARY);
        task_json_write_created(&created, &t, durable);
        cr_expect_eq(strncmp(created.data, summary.data, summary.len - 1), 0, "all of the summary comes first");
        cr_expect_str_eq(created.data + summary.len - 1, durable ? ",\"durable\":true}" : ",\"durable\":false}");
        buf_deinit(&summary);
        buf_deinit(&created);
    }
}
