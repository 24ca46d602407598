#include "task/queue_settings.h"
#include "../support/parsed.h"
#include "base/mem.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Single quotes stand for double quotes in all texts here. */
static char *quoted(const char *text)
{
    char *copy = xstrdup(text);

    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return copy;
}

/* The pointers of the faults, "-" for the empty one, or "" when it was fine. */
static enum err parse(const char *text, struct queue_settings *s, char pointers[256])
{
    char *json = quoted(text);
    struct faults faults;

    faults_init(&faults);
    enum err err = queue_settings_parse(json, strlen(json), &faults, s);

    pointers[0] = '\0';
    for (size_t i = 0; i < faults.count; i++) {
        size_t used = strlen(pointers);
        (void)snprintf(pointers + used, 256 - used, "%s%s", used ? " " : "",
                       faults.items[i].pointer[0] ? faults.items[i].pointer : "-");
    }
    faults_deinit(&faults);
    free(json);
    return err;
}

static struct queue_settings parsed(const char *text)
{
    struct queue_settings s;
    char pointers[256];

    cr_assert_eq(parse(text, &s, pointers), ERR_OK, "%s: %s", text, pointers);
    return s;
}

static void expect_text(const struct buf *b, const char *expected)
{
    char *text = quoted(expected);

    cr_expect_str_eq(b->data, text);
    free(text);
}

Test(queue_settings, an_empty_object_sets_nothing)
{
    struct queue_settings s = parsed("{}");

    cr_expect(queue_settings_are_default(&s));
    queue_settings_deinit(&s);
}

Test(queue_settings, each_setting_is_read_and_is_not_the_default)
{
    static const char *const rows[] = {"{'paused':true}",  "{'max_concurrency':1}",  "{'max_per_second':0.5}",
                                       "{'timeout':'5s'}", "{'retry':{'jitter':0}}", "{'retry':{'max_attempts':10}}"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct queue_settings s = parsed(rows[i]);
        cr_expect_not(queue_settings_are_default(&s), "%s", rows[i]);
        queue_settings_deinit(&s);
    }
}

Test(queue_settings, all_settings_together)
{
    struct queue_settings s = parsed("{'paused':true,'max_concurrency':1000000,'max_per_second':2.5,'timeout':'30m',"
                                     "'retry':{'max_attempts':3,'initial':'2s','max':'1m','multiplier':3,'jitter':0}}");

    cr_expect(s.is_paused);
    cr_expect_eq(s.max_concurrency, 1000000);
    cr_expect_float_eq(s.max_per_second, 2.5, 0);
    cr_expect_eq(s.timeout_ms, 1800000);
    cr_expect_eq(s.retry.max_attempts, 3);
    cr_expect_eq(s.retry.initial_ms, 2000);
    cr_expect_eq(s.retry.max_ms, 60000);
    queue_settings_deinit(&s);
}

Test(queue_settings, whatever_is_wrong_is_a_fault_at_its_place)
{
    static const struct {
        const char *body, *pointers;
        enum err err;
    } rows[] = {
        {"", "-", ERR_INVALID_JSON},
        {"{", "-", ERR_INVALID_JSON},
        {"[]", "-", ERR_INVALID},
        {"7", "-", ERR_INVALID},
        {"{'paused':1}", "/paused", ERR_INVALID},
        {"{'paused':null}", "/paused", ERR_INVALID},
        {"{'paused':'true'}", "/paused", ERR_INVALID},
        {"{'max_concurrency':0}", "/max_concurrency", ERR_INVALID},
        {"{'max_concurrency':1000001}", "/max_concurrency", ERR_INVALID},
        {"{'max_concurrency':1.5}", "/max_concurrency", ERR_INVALID},
        {"{'max_concurrency':null}", "/max_concurrency", ERR_INVALID},
        {"{'max_per_second':0}", "/max_per_second", ERR_INVALID},
        {"{'max_per_second':-1}", "/max_per_second", ERR_INVALID},
        {"{'max_per_second':0.0009}", "/max_per_second", ERR_INVALID},
        {"{'max_per_second':1000000.1}", "/max_per_second", ERR_INVALID},
        {"{'max_per_second':'5'}", "/max_per_second", ERR_INVALID},
        {"{'timeout':99}", "/timeout", ERR_INVALID},
        {"{'timeout':'31m'}", "/timeout", ERR_INVALID},
        {"{'retry':5}", "/retry", ERR_INVALID},
        {"{'retry':{'max_attempts':0,'x':1}}", "/retry/max_attempts /retry/x", ERR_INVALID},
        {"{'retry':{'initial':'2s','max':'1s'}}", "/retry/max", ERR_INVALID},
        {"{'retry':{'schedule':[1],'jitter':0}}", "/retry/jitter", ERR_INVALID},
        {"{'paused':true,'paused':true}", "/paused", ERR_INVALID},
        {"{'name':'x','url':'y'}", "/name /url", ERR_INVALID},
        {"{'Paused':true}", "/Paused", ERR_INVALID},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct queue_settings s;
        char pointers[256];

        cr_expect_eq(parse(rows[i].body, &s, pointers), rows[i].err, "%s", rows[i].body);
        cr_expect_str_eq(pointers, rows[i].pointers, "%s: %s", rows[i].body, pointers);
        queue_settings_deinit(&s);
    }
}

Test(queue_settings, a_bound_is_told_in_plain_digits)
{
    static const char body[] = "{\"max_per_second\":0}";
    struct queue_settings s;
    struct faults faults;

    faults_init(&faults);
    cr_assert_eq(queue_settings_parse(body, strlen(body), &faults, &s), ERR_INVALID);
    cr_assert_eq(faults.count, 1);
    cr_expect_str_eq(faults.items[0].detail, "must be a number from 0.001 to 1000000");
    faults_deinit(&faults);
    queue_settings_deinit(&s);
}

Test(queue_settings, an_answer_shows_all_of_them)
{
    static const struct {
        const char *body, *answer;
    } rows[] = {
        {"{}", "'paused':false,'max_concurrency':null,'max_per_second':null,'timeout':null,'retry':null"},
        {"{'paused':true,'max_concurrency':7,'max_per_second':0.1,'timeout':'1m','retry':{'schedule':['1s',2]}}",
         "'paused':true,'max_concurrency':7,'max_per_second':0.1,'timeout':60000,'retry':{'schedule':[1000,2]}"},
        {"{'max_per_second':1e6,'retry':{'max_age':'1d','multiplier':1.5,'max_attempts':2}}",
         "'paused':false,'max_concurrency':null,'max_per_second':1000000,'timeout':null,"
         "'retry':{'max_attempts':2,'multiplier':1.5,'max_age':86400000}"},
        {"{'retry':{}}", "'paused':false,'max_concurrency':null,'max_per_second':null,'timeout':null,'retry':null"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct queue_settings s = parsed(rows[i].body);
        struct buf out;

        buf_init(&out, 4096);
        queue_settings_write(&out, &s);
        expect_text(&out, rows[i].answer);
        buf_deinit(&out);
        queue_settings_deinit(&s);
    }
}

/* What is encoded, what scripts see of it, and that it comes back. */
Test(queue_settings, the_text_in_redis_holds_all_of_them)
{
    static const struct {
        const char *body, *text;
    } rows[] = {
        {"{}", "0 0 0 {}"},
        {"{'paused':true,'max_concurrency':3,'max_per_second':0.1}", "1 3 0.1 {}"},
        {"{'max_per_second':1e6,'timeout':100}", "0 0 1000000 {'timeout':100}"},
        {"{'max_per_second':33.333333333333336}", "0 0 33.333333333333336 {}"},
        {"{'timeout':100,'retry':{'initial':5,'max':5,'jitter':0.25}}",
         "0 0 0 {'timeout':100,'retry':{'initial':5,'max':5,'jitter':0.25}}"},
        {"{'retry':{'schedule':[1,'1m']}}", "0 0 0 {'retry':{'schedule':[1,60000]}}"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct queue_settings s = parsed(rows[i].body), again;
        struct buf text, text_again;

        buf_init(&text, 4096);
        buf_init(&text_again, 4096);
        queue_settings_encode(&text, &s);
        expect_text(&text, rows[i].text);
        cr_expect(queue_settings_decode(text.data, text.len, &again));
        queue_settings_encode(&text_again, &again);
        cr_expect_str_eq(text_again.data, text.data);
        buf_deinit(&text);
        buf_deinit(&text_again);
        queue_settings_deinit(&s);
        queue_settings_deinit(&again);
    }
}

Test(queue_settings, text_broken_by_hand_is_refused)
{
    static const char *const rows[] = {"",
                                       "0",
                                       "0 0",
                                       "0 0 0",
                                       "0 0 0 ",
                                       "0 0 0 x",
                                       "2 0 0 {}",
                                       "-1 0 0 {}",
                                       "0 -1 0 {}",
                                       "0 x 0 {}",
                                       "0 0 x {}",
                                       "0 0 -1 {}",
                                       "0 0 1x {}",
                                       "0 1000001 0 {}",
                                       "0 0 1e9 {}",
                                       "0 0 1e-9 {}",
                                       "0 0 nan {}",
                                       "0 0 0 {x}",
                                       "0 0 0 {'a'",
                                       "  0 0 {}",
                                       "0 0 0 []",
                                       "0 0 0 {'timeout':1}",
                                       "0 00000000000000000000000000000000000001 0 {}"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct queue_settings s;
        char *text = quoted(rows[i]);

        cr_expect_not(queue_settings_decode(text, strlen(text), &s), "%s", rows[i]);
        queue_settings_deinit(&s);
        free(text);
    }
}

/* --------------------------------------------------------------- defaults */

/* What the task with these members takes over from a queue with these settings (NULL: it has none). */
static struct task *applied(const char *settings, const char *members)
{
    struct parsed p;
    struct queue_settings s;

    parsed_with(&p, members);
    cr_assert_not_null(p.task, "%s: %s", members, p.pointers);
    struct task *t = p.task;
    p.task = NULL;
    parsed_deinit(&p);
    if (!settings) {
        queue_settings_apply(NULL, t);
        return t;
    }
    s = parsed(settings);
    queue_settings_apply(&s, t);
    queue_settings_deinit(&s);
    return t;
}

static void expect_retry(const struct task *t, const char *settings, const char *members, const char *expected)
{
    char is[256];
    const struct task_retry *r = &t->retry;

    (void)snprintf(is, sizeof(is), "%lld: %d %lld %g %lld %g %lld", (long long)t->timeout_ms, r->max_attempts,
                   (long long)r->initial_ms, r->multiplier, (long long)r->max_ms, r->jitter, (long long)r->max_age_ms);
    for (size_t i = 0; i < r->schedule_count; i++) {
        size_t used = strlen(is);
        (void)snprintf(is + used, sizeof(is) - used, "%s%lld", i ? "," : " at ", (long long)r->schedule_ms[i]);
    }
    cr_expect_str_eq(is, expected, "%s with %s: %s", settings ? settings : "no settings", members, is);
}

Test(queue_settings, defaults_fill_in_what_the_client_left_out)
{
    /* timeout: max_attempts initial multiplier max jitter max_age, schedule */
    static const struct {
        const char *settings, *members, *expected;
    } rows[] = {
        {NULL, "", "10000: 10 1000 2 600000 0.1 0"},
        {"{}", "", "10000: 10 1000 2 600000 0.1 0"},
        {"{'timeout':500}", "", "500: 10 1000 2 600000 0.1 0"},
        {"{'timeout':500}", ",'timeout':700", "700: 10 1000 2 600000 0.1 0"},
        {"{'timeout':500}", ",'timeout':10000", "10000: 10 1000 2 600000 0.1 0"},
        {"{'retry':{'max_attempts':3,'jitter':0,'max_age':7}}", ",'retry':{'max_attempts':10}",
         "10000: 10 1000 2 600000 0 7"},
        {"{'retry':{'multiplier':3,'initial':5,'max':50}}", ",'retry':{'initial':9}", "10000: 10 9 3 50 0.1 0"},
        /* Of initial and max, what is nearer to the client's wish stays. */
        {NULL, ",'retry':{'initial':'20m'}", "10000: 10 1200000 2 1200000 0.1 0"},
        {NULL, ",'retry':{'max':5}", "10000: 10 5 2 5 0.1 0"},
        {"{'retry':{'initial':'20m'}}", "", "10000: 10 1200000 2 1200000 0.1 0"},
        {"{'retry':{'max':5}}", "", "10000: 10 5 2 5 0.1 0"},
        {"{'retry':{'max':5}}", ",'retry':{'initial':9}", "10000: 10 9 2 9 0.1 0"},
        {"{'retry':{'initial':9}}", ",'retry':{'max':5}", "10000: 10 5 2 5 0.1 0"},
        {"{'retry':{'initial':5,'max':9}}", ",'retry':{'initial':20}", "10000: 10 20 2 20 0.1 0"},
        {"{'retry':{'max':'1h'}}", ",'retry':{'initial':'20m'}", "10000: 10 1200000 2 3600000 0.1 0"},
        /* A schedule and a backoff exclude each other. */
        {"{'retry':{'schedule':[1,2]}}", "", "10000: 10 1000 2 600000 0.1 0 at 1,2"},
        {"{'retry':{'schedule':[1,2],'max_attempts':4}}", ",'retry':{'max_age':9}",
         "10000: 4 1000 2 600000 0.1 9 at 1,2"},
        {"{'retry':{'schedule':[1,2]}}", ",'retry':{'initial':5}", "10000: 10 5 2 600000 0.1 0"},
        {"{'retry':{'schedule':[1,2]}}", ",'retry':{'schedule':[7]}", "10000: 10 1000 2 600000 0.1 0 at 7"},
        {"{'retry':{'initial':5,'jitter':0}}", ",'retry':{'schedule':[7]}", "10000: 10 1000 2 600000 0.1 0 at 7"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task *t = applied(rows[i].settings, rows[i].members);
        expect_retry(t, rows[i].settings, rows[i].members, rows[i].expected);
        task_destroy(&t);
    }
}

Test(queue_settings, applying_other_settings_leaves_nothing_of_the_first)
{
    struct queue_settings other = parsed("{'timeout':300,'retry':{'initial':7}}");
    struct task *t = applied("{'timeout':200,'retry':{'schedule':[1,2],'max_attempts':3}}", ",'retry':{'max_age':9}");

    queue_settings_apply(&other, t);
    expect_retry(t, "others", "", "300: 10 7 2 600000 0.1 9");
    queue_settings_apply(NULL, t);
    expect_retry(t, NULL, "", "10000: 10 1000 2 600000 0.1 9");
    queue_settings_deinit(&other);
    task_destroy(&t);
}
