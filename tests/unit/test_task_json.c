#include "base/clock.h"
#include "base/parse.h"
#include "../support/parsed.h"
#include "task/signature.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* What task_json_parse() makes of right requests. The wrong ones are in test_task_json_faults.c, headers in
 * test_task_json_headers.c, answers in test_task_json_write.c. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* A task from a url and these members. Gives; NULL after a failed expectation. */
static struct task *task_with(const char *more_members)
{
    struct parsed p;

    parsed_with(&p, more_members);
    cr_expect_eq(p.err, ERR_OK, "%s: %s", more_members, p.pointers);
    struct task *t = p.task;

    p.task = NULL;
    parsed_deinit(&p);
    return t;
}

Test(task_json, a_url_alone_is_a_task_due_now_with_defaults)
{
    struct task *t = task_with("");

    cr_assert_not_null(t);
    cr_expect_str_eq(t->url, "http://127.0.0.1:9000/hook");
    cr_expect_null(t->id);
    cr_expect_not(t->has_digest);
    cr_expect_str_eq(t->queue, "default");
    cr_expect_eq(t->method, TASK_METHOD_POST);
    cr_expect_eq(t->header_count, 0);
    cr_expect_eq(t->body_kind, TASK_BODY_NONE);
    cr_expect_null(t->body);
    cr_expect_eq(t->timeout_ms, 10000);
    cr_expect_eq(t->retry.max_attempts, 10);
    cr_expect_not(t->is_due_absolute);
    cr_expect_eq(t->due_ms, 0);
    task_destroy(&t);
}

Test(task_json, every_member_arrives)
{
    struct task *t = task_with(",'delay':'30s','id':'order-17','queue':'mail.eu','method':'PUT','timeout':'2s',"
                               "'headers':{'X-A':'b'},'payload':[1],'retry':{'max_attempts':3,'initial':'5s',"
                               "'multiplier':1.5,'max':'1m','jitter':0,'max_age':'1h'},'durability':'replica'");

    cr_assert_not_null(t);
    cr_expect_str_eq(t->id, "order-17");
    cr_expect(t->has_digest);
    cr_expect_str_eq(t->queue, "mail.eu");
    cr_expect_eq(t->method, TASK_METHOD_PUT);
    cr_expect_eq(t->durability, TASK_DURABILITY_REPLICA);
    cr_expect_eq(t->timeout_ms, 2000);
    cr_expect_eq(t->due_ms, 30000);
    cr_expect_eq(t->header_count, 1);
    cr_expect_str_eq(t->headers[0].name, "X-A");
    cr_expect_str_eq(t->headers[0].value, "b");
    cr_expect_eq(t->body_kind, TASK_BODY_PAYLOAD);
    cr_expect_str_eq(t->body, "[1]");
    cr_expect_eq(t->retry.max_attempts, 3);
    cr_expect_eq(t->retry.initial_ms, 5000);
    cr_expect_eq(t->retry.multiplier, 1.5);
    cr_expect_eq(t->retry.max_ms, 60000);
    cr_expect_eq(t->retry.jitter, 0.0);
    cr_expect_eq(t->retry.max_age_ms, 3600000);
    task_destroy(&t);
}

Test(task_json, delays_are_read)
{
    static const struct {
        const char *members;
        int64_t delay_ms;
    } rows[] = {
        {",'delay':0", 0},
        {",'delay':1", 1},
        {",'delay':250", 250},
        {",'delay':'0s'", 0},
        {",'delay':'250ms'", 250},
        {",'delay':'30s'", 30000},
        {",'delay':'15m'", 900000},
        {",'delay':'1h30m'", 5400000},
        {",'delay':'7d'", 7 * DAY_MS},
        {",'delay':'\\u0033s'", 3000},
        {",'delay':315619200000", PARSE_MAX_DELAY_MS},
        {",'delay':'3653d'", PARSE_MAX_DELAY_MS},
        {",'\\u0064elay' : 5 ", 5},
    };

    cr_assert_eq(PARSE_MAX_DELAY_MS, INT64_C(315619200000));
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task *t = task_with(rows[i].members);

        cr_expect(t && !t->is_due_absolute && t->due_ms == rows[i].delay_ms, "%s", rows[i].members);
        task_destroy(&t);
    }
}

Test(task_json, an_expiry_is_read)
{
    static const struct {
        const char *members;
        bool is_relative;
        int64_t expires_ms;
    } rows[] = {
        {",'expires_in':1", true, 1},
        {",'expires_in':'1h30m'", true, 5400000},
        {",'expires_in':'3653d'", true, PARSE_MAX_DELAY_MS},
        {",'expires_at':0", false, 0}, /* long past: it will expire at once */
        {",'expires_at':1900000000123", false, INT64_C(1900000000123)},
        {",'expires_at':'1994-11-06T08:49:37.000000001Z'", false, INT64_C(784111777001)},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task *t = task_with(rows[i].members);

        cr_assert_not_null(t);
        cr_expect(t->has_expiry, "%s", rows[i].members);
        cr_expect_eq(t->is_expiry_relative, rows[i].is_relative, "%s", rows[i].members);
        cr_expect_eq(t->expires_ms, rows[i].expires_ms, "%s", rows[i].members);
        task_destroy(&t);
    }
    struct task *without = task_with("");

    cr_expect(without && !without->has_expiry);
    task_destroy(&without);
}

Test(task_json, the_urls_to_call_back_are_read_like_the_url)
{
    struct task *t = task_with(",'on_success':'HTTP://127.0.0.1/a#b','on_failure':'https://example.com/c'");

    cr_assert_not_null(t);
    cr_expect_str_eq(t->on_success, "HTTP://127.0.0.1/a");
    cr_expect_str_eq(t->on_failure, "https://example.com/c");
    task_destroy(&t);
    t = task_with("");
    cr_assert_not_null(t);
    cr_expect_null(t->on_success);
    cr_expect_null(t->on_failure);
    task_destroy(&t);
}

Test(task_json, times_are_read)
{
    static const struct {
        const char *members;
        int64_t run_at_ms;
    } rows[] = {
        {",'run_at':0", 0}, /* long past, so now */
        {",'run_at':1900000000123", INT64_C(1900000000123)},
        {",'run_at':'1994-11-06T08:49:37Z'", INT64_C(784111777000)},
        {",'run_at':'1994-11-06t08:49:37z'", INT64_C(784111777000)},
        {",'run_at':'1994-11-06T08:49:37+00:00'", INT64_C(784111777000)},
        {",'run_at':'1994-11-06T14:19:37+05:30'", INT64_C(784111777000)},
        {",'run_at':'1994-11-06T08:49:37.5Z'", INT64_C(784111777500)},
        {",'run_at':'1994-11-06T08:49:37.000000001Z'", INT64_C(784111777001)},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task *t = task_with(rows[i].members);

        cr_expect(t && t->is_due_absolute && t->due_ms == rows[i].run_at_ms, "%s", rows[i].members);
        task_destroy(&t);
    }
}

Test(task_json, a_time_may_be_ten_years_away_but_not_more)
{
    struct {
        int64_t ahead_ms;
        enum err err;
    } rows[] = {{PARSE_MAX_DELAY_MS - 60000, ERR_OK}, {PARSE_MAX_DELAY_MS + 60000, ERR_INVALID}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t run_at_ms = clock_wall_ms() + rows[i].ahead_ms;
        char text[PARSE_RFC3339_SIZE];
        char members[64];
        struct parsed p;

        parse_format_rfc3339(run_at_ms, text);
        (void)snprintf(members, sizeof(members), ",'run_at':'%s'", text);
        parsed_with(&p, members);
        cr_expect_eq(p.err, rows[i].err, "%s", members);
        parsed_deinit(&p);
        (void)snprintf(members, sizeof(members), ",'run_at':%lld", (long long)run_at_ms);
        parsed_with(&p, members);
        cr_expect_eq(p.err, rows[i].err, "%s", members);
        parsed_deinit(&p);
    }
}

Test(task_json, a_payload_stays_byte_for_byte)
{
    static const char *const rows[] = {
        "{\"id\":12345678901234567890,\"x\":1.10}",
        "{\"p\":0.1,\"q\":1e2,\"r\":1.0,\"u\":\"a\\/b\",\"e\":\"\\u00e9\"}",
        "{\"id\":15947634569000323,\"f\":0.1234567890123456}",
        "{\"a\":\"x\\u0000y\"}",
        "{ \"a\" : [ 1 ,\n\t2 ] , \"a\" : 3 }", /* blanks and duplicates are the client's business */
        "[]",
        "{}",
        "null",
        "true",
        "false",
        "-0.0",
        "1E+5",
        "1e-400", /* a double holds it, as zero */
        "123456789012345678901234567890123456789012345678901234567890",
        "\"text with \\\"quotes\\\", } and ] and , inside\"",
        "\"\\\\\"",
        "\"\"",
        "\"\\ud83d\\ude00 \xf0\x9f\x98\x80 \xc3\xa9\"",
        "[[[{\"url\":\"http://10.0.0.1/\"}]]]",
    };
    static const char *const frames[] = {"{\"url\":\"http://127.0.0.1/\",\"payload\":%s}",
                                         "{\"url\":\"http://127.0.0.1/\",\"payload\" :\r\n %s \t,\"delay\":1}",
                                         " {\"payload\":%s\n,\"url\":\"http://127.0.0.1/\"} "};

    for (size_t i = 0; i < COUNT(rows) * COUNT(frames); i++) {
        const char *payload = rows[i / COUNT(frames)];
        const char *gap = strstr(frames[i % COUNT(frames)], "%s");
        struct parsed p;
        struct buf body;

        buf_init(&body, 4096);
        buf_append(&body, frames[i % COUNT(frames)], (size_t)(gap - frames[i % COUNT(frames)]));
        buf_puts(&body, payload);
        buf_puts(&body, gap + 2);
        parsed_from_bytes(&p, body.data, body.len);
        cr_expect(p.task && p.task->body_kind == TASK_BODY_PAYLOAD && p.task->body_bytes == strlen(payload) &&
                      strcmp(p.task->body, payload) == 0,
                  "%s: %s", body.data, p.faults.count > 0 ? p.faults.items[0].detail : "");
        parsed_deinit(&p);
        buf_deinit(&body);
    }
}

Test(task_json, text_and_bytes_are_decoded)
{
    static const struct {
        const char *members;
        enum task_body_kind kind;
        const char *body;
        size_t bytes;
    } rows[] = {
        {",'body':''", TASK_BODY_TEXT, "", 0},
        {",'body':'plain'", TASK_BODY_TEXT, "plain", 5},
        {",'body':'\\b\\f\\n\\r\\t\\\\\\/\\''", TASK_BODY_TEXT, "\b\f\n\r\t\\/\"", 8},
        {",'body':'x\\u0000y'", TASK_BODY_TEXT, "x\0y", 3},
        {",'body':'\\u0041\\u00e9\\u20AC\\uD83D\\uDE00'", TASK_BODY_TEXT, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10},
        {",'body':'\\udbff\\udfff\\uffff\\u07ff\\u0800\\u007f\\u0080'", TASK_BODY_TEXT,
         "\xf4\x8f\xbf\xbf\xef\xbf\xbf\xdf\xbf\xe0\xa0\x80\x7f\xc2\x80", 15},
        {",'body':'a\\nb\\nc'", TASK_BODY_TEXT, "a\nb\nc", 5},
        {",'body':'\xc3\xa9\\n'", TASK_BODY_TEXT, "\xc3\xa9\n", 3},
        {",'body_base64':''", TASK_BODY_BYTES, "", 0},
        {",'body_base64':'AP8K'", TASK_BODY_BYTES, "\0\xff\n", 3},
        {",'body_base64':'YQ=='", TASK_BODY_BYTES, "a", 1},
        {",'body_base64':'YWI='", TASK_BODY_BYTES, "ab", 2},
        {",'body_base64':'YW\\u0049='", TASK_BODY_BYTES, "ab", 2},
        {",'body_base64':'\\/\\/8='", TASK_BODY_BYTES, "\xff\xff", 2},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task *t = task_with(rows[i].members);

        cr_expect(t && t->body_kind == rows[i].kind && t->body_bytes == rows[i].bytes &&
                      memcmp(t->body, rows[i].body, rows[i].bytes + 1) == 0,
                  "%s", rows[i].members);
        task_destroy(&t);
    }
}

Test(task_json, names_are_compared_after_decoding)
{
    struct parsed p;

    parsed_from_quoted(&p, "{'\\u0075\\u0072\\u006C':'http:\\/\\/127.0.0.1\\/x'}");
    cr_expect(p.task && strcmp(p.task->url, "http://127.0.0.1/x") == 0, "%s", p.pointers);
    parsed_deinit(&p);
}

Test(task_json, a_fragment_is_dropped)
{
    struct parsed p;

    parsed_from_quoted(&p, "{'url':'http://127.0.0.1/x#y'}");
    cr_expect(p.task && strcmp(p.task->url, "http://127.0.0.1/x") == 0, "%s", p.pointers);
    parsed_deinit(&p);
}

Test(task_json, methods_are_read)
{
    static const char *const rows[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[32];

        (void)snprintf(members, sizeof(members), ",'method':'%s'", rows[i]);
        struct task *t = task_with(members);

        cr_expect(t && strcmp(task_method_name(t->method), rows[i]) == 0, "%s", rows[i]);
        task_destroy(&t);
    }
}

Test(task_json, bounds_themselves_are_within)
{
    static const char *const rows[] = {
        ",'timeout':100",
        ",'timeout':'30m'",
        ",'timeout':1800000",
        ",'retry':{}",
        ",'retry':{'max_attempts':1}",
        ",'retry':{'max_attempts':1000}",
        ",'retry':{'initial':1}",
        ",'retry':{'initial':'10m1ms'}", /* over the default of max, which follows */
        ",'retry':{'initial':'3653d','max':'3653d'}",
        ",'retry':{'max':999}", /* below the default of initial, which follows */
        ",'retry':{'initial':1,'max':1}",
        ",'retry':{'multiplier':1}",
        ",'retry':{'multiplier':1.0e0}",
        ",'retry':{'multiplier':10}",
        ",'retry':{'multiplier':100e-1}",
        ",'retry':{'jitter':0}",
        ",'retry':{'jitter':-0.0}",
        ",'retry':{'jitter':1}",
        ",'retry':{'jitter':1e-300}",
        ",'retry':{'schedule':[0]}",
        ",'retry':{'schedule':['3653d',1,'1h']}",
        ",'retry':{'schedule':[1],'max_attempts':5,'max_age':1}",
        ",'retry':{'max_age':'3653d'}",
        ",'headers':{}",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task *t = task_with(rows[i]);

        task_destroy(&t);
    }
}

Test(task_json, a_schedule_is_read_in_order)
{
    struct task *t = task_with(",'retry':{ 'schedule' : [ '1s' , 20 ,'3m' ] }");

    cr_assert_not_null(t);
    cr_assert_eq(t->retry.schedule_count, 3);
    cr_expect_eq(t->retry.schedule_ms[0], 1000);
    cr_expect_eq(t->retry.schedule_ms[1], 20);
    cr_expect_eq(t->retry.schedule_ms[2], 180000);
    cr_expect_eq(t->retry.max_attempts, 10);
    task_destroy(&t);
}

Test(task_json, members_of_retry_that_are_not_given_keep_their_default)
{
    struct task *t = task_with(",'retry':{'max':'1h'}");

    cr_assert_not_null(t);
    cr_expect_eq(t->retry.max_attempts, 10);
    cr_expect_eq(t->retry.initial_ms, 1000);
    cr_expect_eq(t->retry.multiplier, 2.0);
    cr_expect_eq(t->retry.max_ms, 3600000);
    cr_expect_eq(t->retry.jitter, 0.1);
    cr_expect_eq(t->retry.max_age_ms, 0);
    task_destroy(&t);
}

Test(task_json, the_digest_is_that_of_the_request_bytes)
{
    static const char json[] = " {\"url\":\"http://127.0.0.1/\", \"id\":\"a\"}";
    unsigned char digest[TASK_DIGEST_BYTES];
    struct parsed p;

    signature_digest(json, sizeof(json) - 1, digest);
    parsed_from_bytes(&p, json, sizeof(json) - 1);
    cr_assert_not_null(p.task);
    cr_expect(p.task->has_digest);
    cr_expect_arr_eq(p.task->digest, digest, TASK_DIGEST_BYTES);
    parsed_deinit(&p);
}
