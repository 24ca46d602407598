/* Wrong requests: each is refused with a problem that names every offending member, and nothing is stored. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct world *w;

static void setup(void)
{
    w = world_create();
}

/* Nothing of what these tests send may have been stored. */
static void expect_nothing_stored(void)
{
    json_t *stats = client_get(w->api, "/stats")->json;

    cr_assert_eq(json_integer_at(stats, "totals.created"), 0);
    cr_assert_eq(json_integer_at(stats, "tasks.scheduled"), 0);
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(requests, .init = setup, .fini = teardown, .timeout = 300);

static bool has_pointer(const struct reply *r, const char *pointer)
{
    json_t *errors = json_at(r->json, "errors");

    for (size_t i = 0; i < json_array_size(errors); i++) {
        if (strcmp(json_text_at(json_array_get(errors, i), "pointer"), pointer) == 0)
            return strlen(json_text_at(json_array_get(errors, i), "detail")) > 0;
    }
    return false;
}

/* `members` stand beside a good url, unless they hold one. */
static const struct {
    const char *members;
    const char *pointer;
} wrong_members[] = {
    {"\"url\":7", "/url"},
    {"\"url\":\"\"", "/url"},
    {"\"url\":\"ftp://127.0.0.1/\"", "/url"},
    {"\"url\":\"127.0.0.1:9001/x\"", "/url"},
    {"\"url\":\"http://user:pass@127.0.0.1/\"", "/url"},
    {"\"url\":\"http://127.0.0.1:9001\\\\@example.com/\"", "/url"},
    {"\"url\":\"http://127.0.0.1/h\\u00e9\"", "/url"},
    {"\"url\":\"http://127.0.0.1/a b\"", "/url"},
    {"\"url\":\"http://127.0.0.1/a\\r\\nX: y\"", "/url"},
    {"\"url\":\"http://169.254.169.254/\"", "/url"},
    {"\"url\":\"http://0.0.0.0/\"", "/url"},
    {"\"url\":\"http://[::ffff:10.0.0.1]/\"", "/url"},
    {"\"delay\":-1", "/delay"},
    {"\"delay\":-9223372036854775808", "/delay"},
    {"\"delay\":9223372036854775808", "/delay"},
    {"\"delay\":5.0", "/delay"},
    {"\"delay\":5e0", "/delay"},
    {"\"delay\":2.5", "/delay"},
    {"\"delay\":true", "/delay"},
    {"\"delay\":null", "/delay"},
    {"\"delay\":[5]", "/delay"},
    {"\"delay\":{}", "/delay"},
    {"\"delay\":\"5\"", "/delay"},
    {"\"delay\":\"\"", "/delay"},
    {"\"delay\":\"5 s\"", "/delay"},
    {"\"delay\":\"1.5s\"", "/delay"},
    {"\"delay\":\"3654d\"", "/delay"},
    {"\"run_at\":\"2035-06-15T12:30:60Z\"", "/run_at"},
    {"\"run_at\":\"2035-06-30T23:59:61Z\"", "/run_at"},
    {"\"run_at\":\"2035-02-29T00:00:00Z\"", "/run_at"},
    {"\"run_at\":\"2035-01-01T00:00:00\"", "/run_at"},
    {"\"run_at\":\"2035-01-01\"", "/run_at"},
    {"\"run_at\":\"tomorrow\"", "/run_at"},
    {"\"run_at\":1.5", "/run_at"},
    {"\"run_at\":null", "/run_at"},
    {"\"run_at\":\"9999-12-31T23:59:59Z\"", "/run_at"},
    {"\"id\":\"\"", "/id"},
    {"\"id\":\".a\"", "/id"},
    {"\"id\":\"a b\"", "/id"},
    {"\"id\":\"a/b\"", "/id"},
    {"\"id\":5", "/id"},
    {"\"queue\":\"Orders\"", "/queue"},
    {"\"queue\":\"\"", "/queue"},
    {"\"queue\":\"a:b\"", "/queue"},
    {"\"method\":\"HEAD\"", "/method"},
    {"\"method\":\"post\"", "/method"},
    {"\"method\":1", "/method"},
    {"\"headers\":[]", "/headers"},
    {"\"headers\":{\"X-A\":1}", "/headers/X-A"},
    {"\"headers\":{\"Host\":\"example.com\"}", "/headers/Host"},
    {"\"headers\":{\"content-length\":\"1\"}", "/headers/content-length"},
    {"\"headers\":{\"Transfer-Encoding\":\"chunked\"}", "/headers/Transfer-Encoding"},
    {"\"headers\":{\"Connection\":\"close\"}", "/headers/Connection"},
    {"\"headers\":{\"Keep-Alive\":\"1\"}", "/headers/Keep-Alive"},
    {"\"headers\":{\"Upgrade\":\"h2c\"}", "/headers/Upgrade"},
    {"\"headers\":{\"Expect\":\"100-continue\"}", "/headers/Expect"},
    {"\"headers\":{\"TE\":\"trailers\"}", "/headers/TE"},
    {"\"headers\":{\"Trailer\":\"x\"}", "/headers/Trailer"},
    {"\"headers\":{\"Proxy-Authorization\":\"x\"}", "/headers/Proxy-Authorization"},
    {"\"headers\":{\"Webhook-Id\":\"x\"}", "/headers/Webhook-Id"},
    {"\"headers\":{\"Duepost-Attempt\":\"1\"}", "/headers/Duepost-Attempt"},
    {"\"headers\":{\"X A\":\"1\"}", "/headers/X A"},
    {"\"headers\":{\"a/b\":\"1\"}", "/headers/a~1b"},
    {"\"headers\":{\"X-A\":\"a\\nb\"}", "/headers/X-A"},
    {"\"headers\":{\"X-A\":\"1\",\"x-a\":\"2\"}", "/headers/x-a"},
    {"\"body\":5", "/body"},
    {"\"body_base64\":\"%%%\"", "/body_base64"},
    {"\"timeout\":99", "/timeout"},
    {"\"timeout\":\"31m\"", "/timeout"},
    {"\"timeout\":null", "/timeout"},
    {"\"retry\":[]", "/retry"},
    {"\"retry\":{\"max_attempts\":0}", "/retry/max_attempts"},
    {"\"retry\":{\"max_attempts\":-1}", "/retry/max_attempts"},
    {"\"retry\":{\"max_attempts\":2.5}", "/retry/max_attempts"},
    {"\"retry\":{\"max_attempts\":1001}", "/retry/max_attempts"},
    {"\"retry\":{\"initial\":0}", "/retry/initial"},
    {"\"retry\":{\"initial\":-1}", "/retry/initial"},
    {"\"retry\":{\"multiplier\":0.5}", "/retry/multiplier"},
    {"\"retry\":{\"multiplier\":-2}", "/retry/multiplier"},
    {"\"retry\":{\"multiplier\":11}", "/retry/multiplier"},
    {"\"retry\":{\"initial\":\"2s\",\"max\":\"1s\"}", "/retry/max"},
    {"\"retry\":{\"jitter\":1.1}", "/retry/jitter"},
    {"\"retry\":{\"jitter\":-0.1}", "/retry/jitter"},
    {"\"retry\":{\"schedule\":[]}", "/retry/schedule"},
    {"\"retry\":{\"schedule\":\"5s\"}", "/retry/schedule"},
    {"\"retry\":{\"schedule\":[1,\"x\"]}", "/retry/schedule/1"},
    {"\"retry\":{\"max_age\":\"soon\"}", "/retry/max_age"},
    {"\"retry\":{\"strategy\":\"fast\"}", "/retry/strategy"},
    {"\"colour\":\"red\"", "/colour"},
    {"\"a~b/c\":1", "/a~0b~1c"},
};

Test(requests, a_wrong_member_is_named_by_its_pointer)
{
    for (size_t i = 0; i < sizeof(wrong_members) / sizeof(wrong_members[0]); i++) {
        const char *members = wrong_members[i].members;
        const char *url = strncmp(members, "\"url\"", 5) == 0 ? "" : "\"url\":\"http://127.0.0.1:9/\",";
        const struct reply *r = client_post_task(w->api, "{%s%s}", url, members);
        cr_assert_eq(r->status, 400, "%s: %d %s", members, r->status, r->body);
        cr_expect_str_eq(json_text_at(r->json, "code"), "invalid_request", "%s", members);
        cr_expect(has_pointer(r, wrong_members[i].pointer), "%s: no %s in %s", members, wrong_members[i].pointer,
                  r->body);
    }
    expect_nothing_stored();
}

Test(requests, members_that_exclude_each_other_are_refused)
{
    static const char *const pairs[] = {
        "\"delay\":1,\"run_at\":1",
        "\"payload\":1,\"body\":\"x\"",
        "\"payload\":1,\"body_base64\":\"AA==\"",
        "\"body\":\"x\",\"body_base64\":\"AA==\"",
        "\"retry\":{\"schedule\":[1],\"initial\":1}",
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const struct reply *r = client_post_task(w->api, "{\"url\":\"http://127.0.0.1:9/\",%s}", pairs[i]);
        cr_expect_eq(r->status, 400, "%s: %d %s", pairs[i], r->status, r->body);
    }
    expect_nothing_stored();
}

Test(requests, all_faults_are_reported_at_once)
{
    const struct reply *r =
        client_post(w->api, "/tasks", "{\"delay\":-1,\"queue\":\"Q\",\"colour\":1,\"retry\":{\"jitter\":2}}");

    reply_expect_problem(r, 400, "invalid_request");
    cr_expect_eq(json_array_size(json_at(r->json, "errors")), 5, "%s", r->body);
    cr_expect(has_pointer(r, "/url"));
    cr_expect(has_pointer(r, "/delay"));
    cr_expect(has_pointer(r, "/queue"));
    cr_expect(has_pointer(r, "/colour"));
    cr_expect(has_pointer(r, "/retry/jitter"));
    expect_nothing_stored();
}

Test(requests, at_most_a_hundred_errors_are_listed)
{
    char body[8192] = "{";
    size_t n = 1;

    for (int i = 0; i < 150; i++)
        n += (size_t)snprintf(body + n, sizeof(body) - n, "\"unknown%d\":1,", i);
    (void)snprintf(body + n, sizeof(body) - n, "\"delay\":1}");
    const struct reply *r = client_post(w->api, "/tasks", body);
    reply_expect_problem(r, 400, "invalid_request");
    cr_expect_eq(json_array_size(json_at(r->json, "errors")), 100);
}

Test(requests, what_is_no_json_object_is_refused)
{
    static const char *const bodies[] = {
        "",
        "   ",
        "{",
        "[]",
        "7",
        "\"x\"",
        "null",
        "{\"url\":\"http://127.0.0.1:9/\"} x",
        "{\"url\":\"http://127.0.0.1:9/\",}",
        "{'url':1}",
        "{\"url\":\"http://127.0.0.1:9/\",\"url\":\"http://127.0.0.1:9/\"}",
        "{\"url\":\"http://127.0.0.1:9/\",\"delay\":1,\"delay\":0}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":NaN}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":{\"x\":1e400}}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":-Infinity}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":\"\xc3\x28\"}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":\"\xed\xa0\x80\"}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":\"\\ud800\"}",
        "{\"url\":\"http://127.0.0.1:9/\xc0\xaf\"}",
        "{\"url\":\"http://127.0.0.1:9/\",\"\xff\":1}",
        "{\"url\":\"http://127.0.0.1:9/\",\"payload\":01}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct reply *r = client_post(w->api, "/tasks", bodies[i]);
        cr_expect_eq(r->status, 400, "%s: %d %s", bodies[i], r->status, r->body);
        cr_expect_not_null(r->json, "the problem is no JSON: %s", r->body);
    }
    expect_nothing_stored();
}

static char *nested_task(size_t depth)
{
    char *body = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&body, &size);

    cr_assert_not_null(f);
    (void)fprintf(f, "{\"url\":\"%s\",\"delay\":\"1h\",\"payload\":", sink_url(w->sink, "/deep"));
    for (size_t i = 0; i < depth; i++)
        (void)fputc('[', f);
    for (size_t i = 0; i < depth; i++)
        (void)fputc(']', f);
    (void)fputc('}', f);
    cr_assert_eq(fclose(f), 0);
    return body;
}

Test(requests, deep_nesting_is_refused_and_harms_nothing)
{
    static const struct {
        size_t depth;
        int status;
    } cases[] = {{100, 201}, {900, 201}, {1500, 400}, {100000, 400}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *body = nested_task(cases[i].depth);
        const struct reply *r = client_post(w->api, "/tasks", body);
        cr_expect_eq(r->status, cases[i].status, "%zu deep: %d %.200s", cases[i].depth, r->status, r->body);
        free(body);
    }
    cr_assert_eq(client_get(w->api, "/healthz")->status, 200);
}

Test(requests, duplicates_and_nul_inside_a_payload_pass)
{
    const struct reply *r = client_post_task(w->api, "{\"url\":\"%s\",\"payload\":{\"a\":1,\"a\":\"x\\u0000y\"}}",
                                             sink_url(w->sink, "/dup"));

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
    const struct sink_request *request = sink_wait(w->sink, "/dup", 1, 10000);
    cr_expect_str_eq(request->body, "{\"a\":1,\"a\":\"x\\u0000y\"}");
}

Test(requests, only_json_is_taken)
{
    static const struct {
        const char *type;
        int status;
    } types[] = {{"application/json", 201},
                 {"application/json; charset=utf-8", 201},
                 {"Application/JSON;charset=UTF-8", 201},
                 {"application/json; charset=latin1", 415},
                 {"text/plain", 415},
                 {"application/x-www-form-urlencoded", 415},
                 {"application/jsonx", 415}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const struct reply *r = client_request(
            w->api, &(struct client_request){.method = "POST",
                                             .path = "/tasks",
                                             .content_type = types[i].type,
                                             .body = "{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}"});
        cr_expect_eq(r->status, types[i].status, "%s: %d %s", types[i].type, r->status, r->body);
        if (types[i].status == 415)
            cr_expect_str_eq(json_text_at(r->json, "code"), "unsupported_media_type");
    }
}

Test(requests, a_compressed_body_is_refused)
{
    static const char *const headers[] = {"Content-Encoding: gzip", NULL};
    const struct reply *r = client_request(
        w->api,
        &(struct client_request){
            .method = "POST", .path = "/tasks", .headers = headers, .body = "{\"url\":\"http://127.0.0.1:9/\"}"});

    reply_expect_problem(r, 415, "unsupported_media_type");
    expect_nothing_stored();
}

static char *task_of_size(size_t bytes)
{
    static const char head[] = "{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\",\"payload\":\"";
    char *body = calloc(1, bytes + 1);

    cr_assert(body && bytes > sizeof(head) + 2);
    memset(body, 'x', bytes);
    memcpy(body, head, sizeof(head) - 1);
    memcpy(body + bytes - 2, "\"}", 2);
    return body;
}

Test(requests, a_body_at_the_limit_is_taken_and_one_byte_more_is_413)
{
    char *at_limit = task_of_size(1048576);
    char *over = task_of_size(1048577);

    cr_expect_eq(client_post(w->api, "/tasks", at_limit)->status, 201);
    const struct reply *r = client_post(w->api, "/tasks", over);
    reply_expect_problem(r, 413, "body_too_large");
    cr_expect_not_null(strstr(r->body, "1048576"), "the limit is not named: %s", r->body);
    free(at_limit);
    free(over);
}

Test(requests, an_unknown_path_is_404_and_a_wrong_method_is_405_with_allow)
{
    static const struct {
        const char *method, *path;
        int status;
    } cases[] = {{"GET", "/", 404},         {"GET", "/task", 404},     {"GET", "/tasks/a/b/c", 404},
                 {"PUT", "/tasks", 405},    {"POST", "/tasks/a", 405}, {"DELETE", "/stats", 405},
                 {"POST", "/healthz", 405}, {"post", "/tasks", 405},   {"PUT", "/openapi.yaml", 405}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct reply *r =
            client_request(w->api, &(struct client_request){.method = cases[i].method, .path = cases[i].path});
        cr_expect_eq(r->status, cases[i].status, "%s %s: %d %s", cases[i].method, cases[i].path, r->status, r->body);
        if (cases[i].status == 405)
            cr_expect_not_null(reply_header(r, "allow"), "%s %s: no Allow", cases[i].method, cases[i].path);
    }
}

Test(requests, head_is_get_without_a_body)
{
    const struct reply *r = client_request(w->api, &(struct client_request){.method = "HEAD", .path = "/healthz"});

    cr_expect_eq(r->status, 200);
    cr_expect_eq(r->body_bytes, 0);
}
