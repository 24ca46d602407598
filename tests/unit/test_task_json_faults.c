#include "../support/parsed.h"
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
        {",'durability':'disk'", "/durability"},
        {",'durability':''", "/durability"},
        {",'durability':true", "/durability"},
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
        {",'retry':{'max':0}", "/retry/max"},
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

Test(task_json_faults, an_expiry_is_a_duration_or_a_time_and_not_both)
{
    static const struct row rows[] = {
        {",'expires_in':0", "/expires_in"},
        {",'expires_in':-1", "/expires_in"},
        {",'expires_in':null", "/expires_in"},
        {",'expires_in':'0ms'", "/expires_in"},
        {",'expires_in':'1.5s'", "/expires_in"},
        {",'expires_in':315619200001", "/expires_in"},
        {",'expires_at':-1", "/expires_at"},
        {",'expires_at':null", "/expires_at"},
        {",'expires_at':'1h'", "/expires_at"},
        {",'expires_at':'3000-01-01T00:00:00Z'", "/expires_at"},
        {",'expires_in':'1h','expires_at':'2030-01-01T00:00:00Z'", "/expires_in /expires_at"},
        {",'expires_in':'1h','expires_in':'1h'", "/expires_in"},
    };

    expect_faults(parsed_with, rows, COUNT(rows));
}

Test(task_json_faults, the_urls_to_call_back_are_checked_like_the_url)
{
    static const struct row rows[] = {
        {",'on_success':null", "/on_success"},
        {",'on_success':''", "/on_success"},
        {",'on_success':'ftp://127.0.0.1/'", "/on_success"},
        {",'on_success':'http://user@127.0.0.1/'", "/on_success"},
        {",'on_failure':5", "/on_failure"},
        {",'on_failure':['http://127.0.0.1/']", "/on_failure"},
        {",'on_failure':'http://10.0.0.1/'", "/on_failure"},
        {",'on_success':'http://169.254.169.254/','on_failure':'http:/x'", "/on_success /on_failure"},
        {",'on_success':'http://127.0.0.1/','on_success':'http://127.0.0.1/'", "/on_success"},
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
