/* The traceparent of the request that creates a task goes with it to the receiver (W3C Trace Context). */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <strings.h>

#define ARRIVE_MS 10000
#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define OTHER "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(traceparent, .init = setup, .fini = teardown, .timeout = 120);

static void post(const char *id, const char *path, const char *more_members, const char *const *headers)
{
    char body[600];

    (void)snprintf(body, sizeof(body), "{\"id\":\"%s\",\"url\":\"%s\"%s}", id, sink_url(w->sink, path), more_members);
    const struct client_request q = {.method = "POST", .path = "/tasks", .body = body, .headers = headers};
    const struct reply *r = client_request(w->api, &q);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

/* The header's value as the receiver saw it, and how often it came. */
static void expect_seen(const char *path, size_t n, const char *value)
{
    const struct sink_request *q = sink_wait(w->sink, path, n, ARRIVE_MS);
    const char *seen = sink_header(q, "traceparent");
    int count = 0;

    for (size_t i = 0; i < json_array_size(q->raw_names); i++)
        count += strcasecmp(json_string_value(json_array_get(q->raw_names, i)), "traceparent") == 0;
    cr_expect_eq(count, value ? 1 : 0, "%s", q->head);
    if (value && seen)
        cr_expect_str_eq(seen, value, "%s", q->head);
}

Test(traceparent, a_right_one_is_shown_and_sent_on_every_attempt)
{
    const char *const headers[] = {"Traceparent: " TRACE, NULL};

    SINK_SCRIPT(w->sink, "/twice", {.status = 500}, {.status = 200});
    post("twice", "/twice", ",\"retry\":{\"initial\":10}", headers);
    expect_seen("/twice", 1, TRACE);
    expect_seen("/twice", 2, TRACE);
    json_t *task = task_reaches(w->api, "twice", "delivered", ARRIVE_MS);
    cr_expect_str_eq(json_text_at(task, "traceparent"), TRACE);
}

Test(traceparent, none_is_invented)
{
    post("none", "/none", "", NULL);
    expect_seen("/none", 1, NULL);
    cr_expect(json_null_at(client_get_task(w->api, "none")->json, "traceparent"));
}

Test(traceparent, a_wrong_one_is_ignored)
{
    const char *const wrong[][3] = {
        {"traceparent: 00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", NULL},
        {"traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01", NULL},
        {"traceparent: ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", NULL},
        {"traceparent: " TRACE "-more", NULL},
        {"traceparent: " TRACE, "traceparent: " OTHER, NULL},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char id[16], path[16];

        (void)snprintf(id, sizeof(id), "wrong-%zu", i);
        (void)snprintf(path, sizeof(path), "/wrong-%zu", i);
        post(id, path, "", wrong[i]);
        expect_seen(path, 1, NULL);
        cr_expect(json_null_at(client_get_task(w->api, id)->json, "traceparent"), "%s", wrong[i][0]);
    }
}

Test(traceparent, one_of_a_later_version_is_sent_as_version_00)
{
    const char *const headers[] = {"traceparent: cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-new", NULL};

    post("later", "/later", "", headers);
    expect_seen("/later", 1, TRACE);
}

Test(traceparent, a_tasks_own_header_wins)
{
    const char *const headers[] = {"traceparent: " TRACE, NULL};

    post("own", "/own", ",\"headers\":{\"TRACEPARENT\":\"" OTHER "\"}", headers);
    expect_seen("/own", 1, OTHER);
}

/* It is no part of the request's bytes: the same body with another trace is a repeat, which keeps the first. */
Test(traceparent, a_repeat_keeps_the_first)
{
    const char *const first[] = {"traceparent: " TRACE, NULL};
    const char *const second[] = {"traceparent: " OTHER, NULL};
    char body[200];

    (void)snprintf(body, sizeof(body), "{\"id\":\"same\",\"url\":\"%s\",\"delay\":\"1h\"}", sink_url(w->sink, "/same"));
    struct client_request q = {.method = "POST", .path = "/tasks", .body = body, .headers = first};

    cr_assert_eq(client_request(w->api, &q)->status, 201);
    q.headers = second;
    cr_assert_eq(client_request(w->api, &q)->status, 200);
    cr_expect_str_eq(json_text_at(client_get_task(w->api, "same")->json, "traceparent"), TRACE);
}
