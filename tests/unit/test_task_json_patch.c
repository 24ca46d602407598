#include "../support/parsed.h"
#include "base/mem.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The body of PATCH: read as strictly as that of POST. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TEXT_MAX 4096

struct patched {
    enum err err;
    struct faults faults;
    struct task_patch patch;
};

/* With ' for ". */
static void parse(struct patched *p, const char *json)
{
    struct cidr_list allow_net;
    const char *bad = NULL;
    size_t bad_bytes = 0;
    char text[TEXT_MAX];
    size_t n = strlen(json);

    cr_assert_lt(n, sizeof(text));
    for (size_t i = 0; i <= n; i++)
        text[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    cr_assert_eq(cidr_list_parse("127.0.0.0/8", &allow_net, &bad, &bad_bytes), ERR_OK);
    struct task_json_opts opts = {.allow_net = &allow_net};

    faults_init(&p->faults);
    p->err = task_json_parse_patch(text, n, &opts, &p->faults, &p->patch);
    cidr_list_deinit(&allow_net);
}

static void done(struct patched *p)
{
    faults_deinit(&p->faults);
    task_patch_deinit(&p->patch);
}

Test(task_json_patch, nothing_is_required)
{
    struct patched p;

    parse(&p, "{}");
    cr_expect_eq(p.err, ERR_OK);
    cr_expect_null(p.patch.values->url);
    cr_expect_not(p.patch.has_due || p.patch.has_method || p.patch.has_headers || p.patch.has_body ||
                  p.patch.has_timeout || p.patch.has_retry || p.patch.values->has_expiry);
    done(&p);
}

Test(task_json_patch, it_says_what_was_given)
{
    static const struct {
        const char *json;
        bool due, method, headers, body, timeout, retry, expiry;
    } rows[] = {
        {"{'delay':5}", .due = true},
        {"{'run_at':1}", .due = true},
        {"{'method':'POST'}", .method = true},
        {"{'headers':{}}", .headers = true},
        {"{'payload':null}", .body = true},
        {"{'body':''}", .body = true},
        {"{'body_base64':'AA=='}", .body = true},
        {"{'timeout':'10s'}", .timeout = true},
        {"{'retry':{}}", .retry = true},
        {"{'expires_in':5}", .expiry = true},
        {"{'expires_at':'2030-01-01T00:00:00Z'}", .expiry = true},
        {"{'delay':5,'payload':1,'retry':{'max_attempts':1}}", .due = true, .body = true, .retry = true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct patched p;

        parse(&p, rows[i].json);
        cr_expect_eq(p.err, ERR_OK, "%s", rows[i].json);
        cr_expect_eq(p.patch.has_due, rows[i].due, "%s", rows[i].json);
        cr_expect_eq(p.patch.has_method, rows[i].method, "%s", rows[i].json);
        cr_expect_eq(p.patch.has_headers, rows[i].headers, "%s", rows[i].json);
        cr_expect_eq(p.patch.has_body, rows[i].body, "%s", rows[i].json);
        cr_expect_eq(p.patch.has_timeout, rows[i].timeout, "%s", rows[i].json);
        cr_expect_eq(p.patch.has_retry, rows[i].retry, "%s", rows[i].json);
        cr_expect_eq(p.patch.values->has_expiry, rows[i].expiry, "%s", rows[i].json);
        done(&p);
    }
}

Test(task_json_patch, what_a_task_keeps_for_life_is_refused)
{
    static const char *const rows[] = {"id", "queue", "durability"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        static const char *const values[] = {"'a'", "'memory'", "null", "5"};

        for (size_t k = 0; k < COUNT(values); k++) {
            char json[64];
            char pointer[32];
            struct patched p;

            (void)snprintf(json, sizeof(json), "{'%s':%s}", rows[i], values[k]);
            (void)snprintf(pointer, sizeof(pointer), "/%s", rows[i]);
            parse(&p, json);
            cr_expect_eq(p.err, ERR_INVALID, "%s", json);
            cr_assert_eq(p.faults.count, 1, "%s", json);
            cr_expect_str_eq(p.faults.items[0].pointer, pointer);
            cr_expect_str_eq(p.faults.items[0].detail, "cannot be changed");
            done(&p);
        }
    }
}

/* The faults of the same members in a POST, and these alone. */
Test(task_json_patch, members_are_judged_as_in_a_post)
{
    static const char *const rows[] = {
        "'url':'http://10.0.0.1/'",
        "'url':'ftp://127.0.0.1/'",
        "'url':null",
        "'url':'http://127.0.0.1/','url':'http://127.0.0.1/'",
        "'delay':-1",
        "'delay':5.0",
        "'delay':null",
        "'delay':'1.5s'",
        "'delay':9999999999999999999999",
        "'run_at':'tomorrow'",
        "'run_at':'2030-01-01T00:00:00'",
        "'delay':1,'run_at':1",
        "'method':'post'",
        "'method':'BREW'",
        "'headers':[]",
        "'headers':{'Host':'x'}",
        "'headers':{'webhook-id':'x','A':5}",
        "'headers':{'A':'x','a':'y'}",
        "'payload':1,'body':''",
        "'payload':1,'body':'','body_base64':''",
        "'body':5",
        "'body_base64':'?'",
        "'timeout':99",
        "'timeout':'31m'",
        "'retry':5",
        "'retry':{'max_attempts':0,'jitter':2,'frob':1}",
        "'retry':{'schedule':[]}",
        "'retry':{'initial':'2m','max':'1m'}",
        "'retry':{'schedule':[1],'initial':1}",
        "'expires_in':1,'expires_at':1",
        "'expires_in':-1",
        "'on_success':'http://10.0.0.1/'",
        "'on_failure':5",
        "'frob':1",
        "'state':'ready','a/b~c':1",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[TEXT_MAX];
        struct parsed post;
        struct patched p;

        (void)snprintf(json, sizeof(json), "{%s%s}",
                       strncmp(rows[i], "'url'", 5) == 0 ? "" : "'url':'http://127.0.0.1/',", rows[i]);
        parsed_from_quoted(&post, json);
        (void)snprintf(json, sizeof(json), "{%s}", rows[i]);
        parse(&p, json);
        cr_expect_eq(post.err, ERR_INVALID, "%s", rows[i]);
        cr_expect_eq(p.err, post.err, "%s", rows[i]);
        cr_assert_eq(p.faults.count, post.faults.count, "%s", rows[i]);
        for (size_t k = 0; k < p.faults.count; k++) {
            cr_expect_str_eq(p.faults.items[k].pointer, post.faults.items[k].pointer, "%s", rows[i]);
            cr_expect_str_eq(p.faults.items[k].detail, post.faults.items[k].detail, "%s", rows[i]);
        }
        parsed_deinit(&post);
        done(&p);
    }
}

Test(task_json_patch, what_is_no_object_is_refused)
{
    static const struct {
        const char *json;
        enum err err;
    } rows[] = {{"", ERR_INVALID_JSON},     {"{", ERR_INVALID_JSON}, {"{'delay':5,}", ERR_INVALID_JSON},
                {"{} x", ERR_INVALID_JSON}, {"[]", ERR_INVALID},     {"5", ERR_INVALID},
                {"null", ERR_INVALID},      {"'delay'", ERR_INVALID}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct patched p;

        parse(&p, rows[i].json);
        cr_expect_eq(p.err, rows[i].err, "%s", rows[i].json);
        cr_assert_eq(p.faults.count, 1, "%s", rows[i].json);
        cr_expect_str_eq(p.faults.items[0].pointer, "");
        done(&p);
    }
}
