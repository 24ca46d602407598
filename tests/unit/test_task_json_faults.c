#include "../support/parsed.h"
#include "base/parse.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Wrong requests: each is refused, with the pointer of every fault. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

struct row {
    const char *json; /* with ' for " */
    const char *pointers;
};

static void expect_faults(void (*parse)(struct parsed *p, const char *json), const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct parsed p;

        parse(&p, rows[i].json);
        cr_expect_eq(p.err, ERR_INVALID, "%s: %s", rows[i].json, err_code(p.err));
        cr_expect_str_eq(p.pointers, rows[i].pointers, "%s", rows[i].json);
        parsed_deinit(&p);
    }
}

static void expect_not_json(const char *json, size_t n)
{
    struct parsed p;

    parsed_from_bytes(&p, json, n);
    cr_expect_eq(p.err, ERR_INVALID_JSON, "%s: %s", json, err_code(p.err));
    cr_expect_str_eq(p.pointers, "-", "%s", json);
    cr_expect(p.faults.count == 1 && parse_is_utf8(p.faults.items[0].detail, strlen(p.faults.items[0].detail)), "%s",
              json);
    parsed_deinit(&p);
}

Test(task_json_faults, what_is_no_json_is_one_fault_in_utf8)
{
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "{\"url\":\"http://127.0.0.1/\"",
        "{\"url\":\"http://127.0.0.1/\",}",
        "{\"url\":\"http://127.0.0.1/\"}}",
        "{\"url\":\"http://127.0.0.1/\"} {}",
        "{'url':'http://127.0.0.1/'}",
        "{url:\"http://127.0.0.1/\"}",
        "{\"url\" \"x\"}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":5.}",
        "{\"a\":1e}",
        "{\"a\":0x10}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":-Infinity}",
        "{\"a\":nul}",
        "{\"a\":True}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x41\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "[1}",
        "// comment\n{}",
        "\xef\xbb\xbf{}",
        "{\"payload\":1e400}",
        "{\"payload\":-1e400}",
        "{\"payload\":{\"x\":[1e999999999]}}",
        "{\"delay\":1e400}",
        "{\"payload\":\"\\ud800\"}",
        "{\"payload\":\"\\udc00\"}",
        "{\"payload\":\"\\ud800\\ud800\"}",
        "{\"payload\":\"\\ud800x\"}",
        "{\"payload\":{\"\\ud800\":1}}",
        "{\"url\":\"http://127.0.0.1/\\udfff\"}",
        "{\"headers\":{\"a\":\"\\ud800\"}}",
        "{\"\\ud800\":1}",
        "{\"payload\":\"\xc3(\"}",
        "{\"payload\":\"\xc0\xaf\"}",
        "{\"payload\":\"\xed\xa0\x80\"}",
        "{\"payload\":\"\xf4\x90\x80\x80\"}",
        "{\"payload\":\"\xff\"}",
        "{\"payload\":\"\xe2\x82\"}",
        "{\"url\":\"http://127.0.0.1/\xc3(\"}",
        "{\"headers\":{\"a\":\"\xc3(\"}}",
        "{\"\xc3(\":1}",
        "\xff\xfe{\0",
        "{\"a\":\xc3\xa9}",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_not_json(rows[i], strlen(rows[i]));
    expect_not_json("{\"a\":1}\0", 8);
    expect_not_json("{\"a\":\"\0\"}", 9);
    expect_not_json("{\"a\0\":1}", 8);
}

Test(task_json_faults, a_number_that_no_double_holds_is_refused_without_exponent_too)
{
    char json[420] = "{\"payload\":";

    memset(json + strlen(json), '9', 400);
    json[411 - 1] = '}';
    json[411] = '\0';
    expect_not_json(json, strlen(json));
}

Test(task_json_faults, json_that_is_no_object_is_refused)
{
    static const struct row rows[] = {
        {"[]", "-"}, {"[{'url':'http://127.0.0.1/'}]", "-"}, {"null", "-"}, {"5", "-"}, {"'x'", "-"}, {" true ", "-"}};

    expect_faults(parsed_from_quoted, rows, COUNT(rows));
}

Test(task_json_faults, the_url_is_required_and_checked)
{
    static const struct row rows[] = {
        {"{}", "/url"},
        {"{'delay':5}", "/url"},
        {"{'URL':'http://127.0.0.1/'}", "/URL /url"},
        {"{'url':null}", "/url"},
        {"{'url':5}", "/url"},
        {"{'url':['http://127.0.0.1/']}", "/url"},
        {"{'url':{}}", "/url"},
        {"{'url':''}", "/url"},
        {"{'url':'127.0.0.1:9001/x'}", "/url"},
        {"{'url':'http://10.0.0.1/'}", "/url"},
        {"{'url':'http://169.254.169.254/'}", "/url"},
        {"{'url':'http:\\/\\/169.254.169.254\\/'}", "/url"},
        {"{'url':'http://127.0.0.1/\\u0000'}", "/url"},
        {"{'url':'http://127.0.0.1\\u0009/'}", "/url"},
        {"{'url':'http://b\\u00fccher.example/'}", "/url"},
        {"{'url':'http://127.0.0.1:9001\\\\@example.com/'}", "/url"},
    };

    expect_faults(parsed_from_quoted, rows, COUNT(rows));
}

Test(task_json_faults, wrong_delays_are_refused_and_never_mean_now)
{
    static const char *const rows[] = {
        "-1",
        "-0",
        "-9007199254740991",
        "-9223372036854775808",
        "5.0",
        "5e0",
        "5E0",
        "2.5",
        "0.0",
        "0e0",
        "true",
        "false",
        "null",
        "[5]",
        "[]",
        "{}",
        "''",
        "'5'",
        "'-5s'",
        "'+5s'",
        "'5 s'",
        "' 5s'",
        "'5s '",
        "'1.5s'",
        "'s'",
        "'5S'",
        "'5sec'",
        "'1m1h'",
        "'1s1s'",
        "'5s\\u0000'",
        "'P1D'",
        "315619200001",
        "'3653d1ms'",
        "'3654d'",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999999999999",
        "'9223372036854775807ms'",
        "'99999999999999999999d'",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[80];
        struct row row = {members, "/delay"};

        (void)snprintf(members, sizeof(members), ",'delay':%s", rows[i]);
        expect_faults(parsed_with, &row, 1);
    }
}

Test(task_json_faults, wrong_times_are_refused)
{
    static const char *const rows[] = {
        "-1",
        "1.5",
        "1900000000000.0",
        "19e11",
        "null",
        "true",
        "[]",
        "{}",
        "''",
        "'now'",
        "'1900000000000'",
        "'2026-11-30'",
        "'2026-11-30T10:00:00'",
        "'2026-11-30 10:00:00Z'",
        "'2026-02-30T10:00:00Z'",
        "'2026-11-30T24:00:00Z'",
        "'2026-11-30T10:60:00Z'",
        "'2026-06-15T12:30:60Z'",
        "'2026-06-30T23:59:61Z'",
        "'2026-11-30T10:00:00+25:00'",
        "'2026-11-30T10:00Z'",
        "'2026-11-30T10:00:00.Z'",
        "' 2026-11-30T10:00:00Z'",
        "'9999-01-01T00:00:00Z'",
        "'3000-01-01T00:00:00Z'",
        "9223372036854775807",
        "9223372036854775808",
        "999999999999999999999999",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char members[80];
        struct row row = {members, "/run_at"};

        (void)snprintf(members, sizeof(members), ",'run_at':%s", rows[i]);
        expect_faults(parsed_with, &row, 1);
    }
}

Test(task_json_faults, the_other_members_have_their_rules)
{
    static const struct row rows[] = {
        {",'id':''", "/id"},
        {",'id':5", "/id"},
        {",'id':null", "/id"},
        {",'id':'.a'", "/id"},
        {",'id':'a b'", "/id"},
        {",'id':'a\\u0000'", "/id"},
        {",'id':'\\u00e9'", "/id"},
        {",'queue':''", "/queue"},
        {",'queue':'Mail'", "/queue"},
        {",'queue':'a:b'", "/queue"},
        {",'queue':null", "/queue"},
        {",'queue':['a']", "/queue"},
        {",'method':'get'", "/method"},
        {",'method':'HEAD'", "/method"},
        {",'method':''", "/method"},
        {",'method':'POST\\u0000'", "/method"},
        {",'method':1", "/method"},
        {",'timeout':99", "/timeout"},
        {",'timeout':0", "/timeout"},
        {",'timeout':1800001", "/timeout"},
        {",'timeout':'31m'", "/timeout"},
        {",'timeout':'10'", "/timeout"},
        {",'timeout':10.5", "/timeout"},
        {",'timeout':null", "/timeout"},
        {",'body':5", "/body"},
        {",'body':null", "/body"},
        {",'body':{}", "/body"},
        {",'body_base64':5", "/body_base64"},
        {",'body_base64':'YQ'", "/body_base64"},
        {",'body_base64':'YQ='", "/body_base64"},
        {",'body_base64':'YQ==='", "/body_base64"},
        {",'body_base64':'Y Q=='", "/body_base64"},
        {",'body_base64':'YQ==\\n'", "/body_base64"},
        {",'body_base64':'-_-_'", "/body_base64"},
        {",'body_base64':'=QYQ'", "/body_base64"},
        {",'headers':[]", "/headers"},
        {",'headers':null", "/headers"},
        {",'headers':'a: b'", "/headers"},
        {",'retry':[]", "/retry"},
        {",'retry':null", "/retry"},
        {",'retry':5", "/retry"},
        {",'retry':'none'", "/retry"},
    };

    expect_faults(parsed_with, rows, COUNT(rows));
}

Test(task_json_faults, retry_has_bounds_for_each_member)
{
    static const struct row rows[] = {
        {",'retry':{'max_attempts':0}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':-1}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':1001}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':2.5}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':2.0}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':1e2}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':1000000000}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':4294967297}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':18446744073709551617}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':'3'}", "/retry/max_attempts"},
        {",'retry':{'max_attempts':null}", "/retry/max_attempts"},
        {",'retry':{'initial':0}", "/retry/initial"},
        {",'retry':{'initial':-1}", "/retry/initial"},
        {",'retry':{'initial':0.5}", "/retry/initial"},
        {",'retry':{'initial':'x'}", "/retry/initial"},
        {",'retry':{'initial':'3654d'}", "/retry/initial"},
        {",'retry':{'initial':'10m1ms'}", "/retry/initial"}, /* over the default of max */
        {",'retry':{'max':0}", "/retry/max"},
        {",'retry':{'max':999}", "/retry/max"}, /* below the default of initial */
        {",'retry':{'max':'3654d'}", "/retry/max"},
        {",'retry':{'initial':'2s','max':'1s'}", "/retry/max"},
        {",'retry':{'max':'1s','initial':'2s'}", "/retry/max"},
        {",'retry':{'initial':'x','max':1}", "/retry/initial"}, /* not compared with a wrong one */
        {",'retry':{'multiplier':0}", "/retry/multiplier"},
        {",'retry':{'multiplier':0.5}", "/retry/multiplier"},
        {",'retry':{'multiplier':0.9999999999}", "/retry/multiplier"},
        {",'retry':{'multiplier':-2}", "/retry/multiplier"},
        {",'retry':{'multiplier':10.001}", "/retry/multiplier"},
        {",'retry':{'multiplier':1e308}", "/retry/multiplier"},
        {",'retry':{'multiplier':'2'}", "/retry/multiplier"},
        {",'retry':{'multiplier':null}", "/retry/multiplier"},
        {",'retry':{'multiplier':true}", "/retry/multiplier"},
        {",'retry':{'jitter':-0.1}", "/retry/jitter"},
        {",'retry':{'jitter':1.1}", "/retry/jitter"},
        {",'retry':{'jitter':'0'}", "/retry/jitter"},
        {",'retry':{'jitter':[0]}", "/retry/jitter"},
        {",'retry':{'max_age':0}", "/retry/max_age"},
        {",'retry':{'max_age':-5}", "/retry/max_age"},
        {",'retry':{'max_age':'3654d'}", "/retry/max_age"},
        {",'retry':{'schedule':[]}", "/retry/schedule"},
        {",'retry':{'schedule':{}}", "/retry/schedule"},
        {",'retry':{'schedule':'1s'}", "/retry/schedule"},
        {",'retry':{'schedule':null}", "/retry/schedule"},
        {",'retry':{'schedule':[1,-1,'x',2,null,[3]]}",
         "/retry/schedule/1 /retry/schedule/2 /retry/schedule/4 /retry/schedule/5"},
        {",'retry':{'schedule':['3654d']}", "/retry/schedule/0"},
        {",'retry':{'schedule':[1],'initial':1}", "/retry/initial"},
        {",'retry':{'jitter':0,'schedule':[1],'max':'1s','multiplier':1}",
         "/retry/multiplier /retry/max /retry/jitter"},
        {",'retry':{'strategy':'exponential'}", "/retry/strategy"},
        {",'retry':{'Max':5000}", "/retry/Max"},
        {",'retry':{'a\\/b':1}", "/retry/a~1b"},
    };

    expect_faults(parsed_with, rows, COUNT(rows));
}

Test(task_json_faults, a_schedule_holds_at_most_a_hundred_waits)
{
    for (size_t count = 100; count <= 5000; count += 4900) {
        struct buf members;
        struct parsed p;

        buf_init(&members, SIZE_MAX);
        buf_puts(&members, ",'retry':{'schedule':[1");
        for (size_t i = 1; i < count; i++)
            buf_puts(&members, ",'1s'");
        buf_puts(&members, "]}");
        parsed_with(&p, members.data);
        cr_expect_str_eq(p.pointers, count == 100 ? "" : "/retry/schedule");
        cr_expect(count != 100 || p.task->retry.schedule_count == 100);
        parsed_deinit(&p);
        buf_deinit(&members);
    }
}

Test(task_json_faults, members_that_exclude_each_other_are_all_named)
{
    static const struct row rows[] = {
        {",'delay':1,'run_at':0", "/delay /run_at"},
        {",'run_at':0,'delay':1", "/delay /run_at"},
        {",'payload':1,'body':'x'", "/payload /body"},
        {",'payload':null,'body_base64':''", "/payload /body_base64"},
        {",'body_base64':'','body':''", "/body /body_base64"},
        {",'body_base64':'YQ==','body':'a','payload':{}", "/payload /body /body_base64"},
    };

    expect_faults(parsed_with, rows, COUNT(rows));
}

Test(task_json_faults, members_are_known_and_given_once)
{
    static const struct row rows[] = {
        {",'url':'http://127.0.0.1/'", "/url"},
        {",'url':'http://169.254.169.254/'", "/url"},
        {",'\\u0075rl':'http://127.0.0.1/'", "/url"},
        {",'delay':0,'delay':0", "/delay"},
        {",'delay':0,'delay':0,'delay':0", "/delay /delay"},
        {",'payload':1,'payload':1", "/payload"},
        {",'retry':{'jitter':0,'jitter':0}", "/retry/jitter"},
        {",'retry':{'jitter':0,'jit\\u0074er':0}", "/retry/jitter"},
        {",'retry':{},'retry':{}", "/retry"},
        {",'expires_in':'1h'", "/expires_in"},
        {",'expires_at':'2035-01-01T00:00:00Z'", "/expires_at"},
        {",'Delay':5", "/Delay"},
        {",'dela':5", "/dela"},
        {",'delays':5", "/delays"},
        {",'':5", "/"},
        {",'a/b~c':5,'a/b~c':5", "/a~1b~0c /a~1b~0c"},
        {",'state':'dead','attempts':0", "/state /attempts"},
        {",'\xc3\xa9':1", "/\xc3\xa9"},
    };

    expect_faults(parsed_with, rows, COUNT(rows));
}

Test(task_json_faults, all_faults_come_at_once)
{
    static const struct row rows[] = {
        {"{'id':'','queue':'','method':'','headers':{'Host':'a','b':1},'timeout':1,'delay':-1,'x':1,"
         "'retry':{'max_attempts':0,'jitter':2,'y':1},'body_base64':'?','url':'ftp://x/'}",
         "/id /queue /method /headers/Host /headers/b /timeout /delay /x /retry/max_attempts /retry/jitter /retry/y "
         "/body_base64 /url"},
    };

    expect_faults(parsed_from_quoted, rows, COUNT(rows));
}

Test(task_json_faults, no_more_than_a_hundred_are_listed)
{
    struct buf members;
    struct parsed p;

    buf_init(&members, SIZE_MAX);
    for (int i = 0; i < 100000; i++)
        buf_printf(&members, ",'x%d':1", i);
    parsed_with(&p, members.data);
    cr_expect_eq(p.err, ERR_INVALID);
    cr_expect_eq(p.faults.count, 100);
    cr_expect_eq(p.faults.dropped, 99900);
    parsed_deinit(&p);
    buf_deinit(&members);
}

/* A body whose member `member` nests so deep that the whole has `levels`. */
static void parse_nested(struct parsed *p, const char *member, size_t levels)
{
    struct buf json;

    buf_init(&json, SIZE_MAX);
    buf_printf(&json, "{\"url\":\"http://127.0.0.1/\",\"%s\":", member);
    for (size_t i = 1; i < levels; i++)
        buf_puts(&json, i % 2 == 1 ? "[" : "{\"}]\":");
    buf_puts(&json, levels % 2 == 0 ? "" : "0");
    for (size_t i = levels; i > 1; i--)
        buf_putc(&json, i % 2 == 0 ? ']' : '}');
    buf_putc(&json, '}');
    parsed_from_bytes(p, json.data, json.len);
    buf_deinit(&json);
}

Test(task_json_faults, nesting_has_a_limit)
{
    static const struct {
        const char *member;
        size_t levels;
        enum err err;
        const char *pointers;
    } rows[] = {
        {"payload", 100, ERR_OK, ""},
        {"payload", 999, ERR_OK, ""},
        {"payload", 1000, ERR_OK, ""},
        {"payload", 1001, ERR_INVALID, "/payload"},
        {"payload", 1500, ERR_INVALID, "/payload"},
        {"payload", 2049, ERR_INVALID, "-"},
        {"payload", 100000, ERR_INVALID, "-"},
        {"headers", 1001, ERR_INVALID, "/headers"},
        {"headers", 100000, ERR_INVALID, "-"},
        {"retry", 1001, ERR_INVALID, "/retry"},
        {"url", 1001, ERR_INVALID, "/url"},
        {"unknown", 1001, ERR_INVALID, "/unknown"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;

        parse_nested(&p, rows[i].member, rows[i].levels);
        cr_expect_eq(p.err, rows[i].err, "row %zu: %s", i, err_code(p.err));
        cr_expect_str_eq(p.pointers, strcmp(rows[i].member, "url") == 0 ? "/url" : rows[i].pointers, "row %zu", i);
        parsed_deinit(&p);
    }
}

Test(task_json_faults, a_name_of_any_length_gives_a_short_pointer)
{
    enum { BYTES = 500000 };
    struct buf members;
    struct parsed p;

    buf_init(&members, SIZE_MAX);
    buf_puts(&members, ",'");
    for (int i = 0; i < BYTES; i++)
        buf_putc(&members, 'x');
    buf_puts(&members, "':1");
    parsed_with(&p, members.data);
    cr_expect_eq(p.err, ERR_INVALID);
    cr_expect_lt(strlen(p.pointers), 400);
    cr_expect_str_eq(p.pointers + strlen(p.pointers) - 3, "...");
    parsed_deinit(&p);
    buf_deinit(&members);
}

Test(task_json_faults, a_megabyte_of_digits_is_read_in_time, .timeout = 10)
{
    enum { BYTES = 1000000 };
    struct buf members;
    struct parsed p;

    buf_init(&members, SIZE_MAX);
    buf_puts(&members, ",'retry':{'jitter':0.");
    for (int i = 0; i < BYTES; i++)
        buf_putc(&members, '1');
    buf_puts(&members, "},'payload':0.");
    for (int i = 0; i < BYTES; i++)
        buf_putc(&members, '9');
    parsed_with(&p, members.data);
    cr_expect_eq(p.err, ERR_OK, "%s", p.pointers);
    parsed_deinit(&p);
    buf_deinit(&members);
}
