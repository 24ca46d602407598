/* Purge and redrive of a whole queue, races included. */
#include "../support/crowd.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 20000

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(queue_tasks, .init = setup, .fini = teardown, .timeout = 300);

static struct reply *call(const char *method, const char *path, const char *body)
{
    return client_request(w->api, &(struct client_request){.method = method, .path = path, .body = body});
}

static int64_t number(const char *queue, const char *member)
{
    return json_integer_at(crowd_queue(w->api, queue), member);
}

static void make_dead(const char *id, const char *queue)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s", id);
    SINK_SCRIPT(w->sink, path, {.status = 410}, {.status = 200});
    crowd_post(w, id, queue, "");
    task_reaches(w->api, id, "dead", ARRIVE_MS);
}

/* ------------------------------------------------------------------- purge */

Test(queue_tasks, purge_drops_what_is_pending_and_nothing_else)
{
    make_dead("dead", "mail");
    crowd_post(w, "sent", "mail", "");
    task_reaches(w->api, "sent", "delivered", ARRIVE_MS);
    crowd_post_held(w, "held", "mail");
    crowd_create(w->api, &(struct crowd){
                             .queue = "mail", .url = sink_url(w->sink, ""), .count = 450, .more = ",\"delay\":\"1h\""});
    crowd_post(w, "other", "other", ",\"delay\":\"1h\"");
    json_t *answer = crowd_do(w->api, "mail", "purge");

    cr_expect_eq(json_integer_at(answer, "count"), 450);
    cr_expect_eq(json_object_size(answer), 1);
    reply_expect_problem(client_get_task(w->api, "mail-0"), 404, "task_not_found");
    reply_expect_problem(client_get_task(w->api, "mail-449"), 404, "task_not_found");
    cr_expect_eq(client_get_task(w->api, "dead")->status, 200);
    cr_expect_eq(client_get_task(w->api, "sent")->status, 200);
    cr_expect_eq(client_get_task(w->api, "other")->status, 200);
    cr_expect_eq(json_integer_at(client_get(w->api, "/stats")->json, "totals.purged"), 450);
    cr_expect_eq(number("mail", "scheduled"), 0);
    sink_release(w->sink);
    task_reaches(w->api, "held", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(crowd_do(w->api, "mail", "purge"), "count"), 0);
}

Test(queue_tasks, purge_of_a_paused_queue_drops_what_is_due)
{
    crowd_put(w->api, "mail", "{'paused':true}");
    crowd_create(w->api, &(struct crowd){.queue = "mail", .url = sink_url(w->sink, ""), .count = 300});
    cr_expect_eq(json_integer_at(crowd_do(w->api, "mail", "purge"), "count"), 300);
    crowd_do(w->api, "mail", "resume");
    crowd_post(w, "next", "mail", "");
    sink_wait(w->sink, "/next", 1, ARRIVE_MS);
    cr_expect_eq(sink_count(w->sink, NULL), 1);
}

/* Posts to the queue as long as it may. */
struct poster {
    atomic_bool is_ending;
    int count;
    int64_t posted_ms[20000]; /* when the answer was there */
};

static void *post_on(void *ctx)
{
    struct poster *p = ctx;
    struct client *api = client_create(w->gateway->url);

    while (!atomic_load(&p->is_ending) && p->count < 20000) {
        const struct reply *r = client_post_task(
            api, "{\"id\":\"young-%d\",\"queue\":\"mail\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"30m\"}",
            p->count);
        if (r->status != 201)
            break;
        p->posted_ms[p->count++] = json_time_at(r->json, "created_at");
    }
    client_destroy(&api);
    return NULL;
}

/* Each task that is created meanwhile is either older than the purge and gone, or younger and there. */
Test(queue_tasks, tasks_created_during_a_purge_stay)
{
    static struct poster p;
    pthread_t thread;

    crowd_create(
        w->api,
        &(struct crowd){.queue = "mail", .url = sink_url(w->sink, ""), .count = 20000, .more = ",\"delay\":\"1h\""});
    cr_assert_eq(pthread_create(&thread, NULL, post_on, &p), 0);
    int64_t began_ms = wait_wall_ms();
    int64_t count = json_integer_at(crowd_do(w->api, "mail", "purge"), "count");
    atomic_store(&p.is_ending, true);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    int kept = 0;
    for (int i = 0; i < p.count; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "young-%d", i);
        int status = client_get_task(w->api, id)->status;
        kept += status == 200;
        if (p.posted_ms[i] > began_ms + wait_scaled_ms(100))
            cr_expect_eq(status, 200, "%s was created %lld ms after it began", id,
                         (long long)(p.posted_ms[i] - began_ms));
        else if (kept > 0)
            cr_expect_eq(status, 200, "%s is gone, and an older one is there", id);
    }
    cr_expect_eq(count, 20000 + p.count - kept);
    cr_expect_eq(number("mail", "scheduled"), kept);
    cr_expect_gt(kept, 0, "the purge was over before anything came");
}

/* Two at once: together they drop each task once. */
static void *purge_too(void *ctx)
{
    int64_t *count = ctx;
    struct client *api = client_create(w->gateway->url);

    *count = json_integer_at(crowd_do(api, "mail", "purge"), "count");
    client_destroy(&api);
    return NULL;
}

Test(queue_tasks, two_purges_at_once_count_each_task_once)
{
    pthread_t thread;
    int64_t theirs = 0;

    crowd_put(w->api, "mail", "{}"); /* else it vanishes with its last task */
    crowd_create(
        w->api,
        &(struct crowd){.queue = "mail", .url = sink_url(w->sink, ""), .count = 10000, .more = ",\"delay\":\"1h\""});
    cr_assert_eq(pthread_create(&thread, NULL, purge_too, &theirs), 0);
    int64_t ours = json_integer_at(crowd_do(w->api, "mail", "purge"), "count");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(ours + theirs, 10000, "%lld and %lld", (long long)ours, (long long)theirs);
    cr_expect_eq(number("mail", "scheduled"), 0);
}

/* ----------------------------------------------------------------- redrive */

Test(queue_tasks, redrive_gives_the_dead_a_new_life)
{
    make_dead("a", "mail");
    make_dead("b", "mail");
    make_dead("c", "other");
    json_t *answer = crowd_do(w->api, "mail", "redrive");

    cr_expect_eq(json_integer_at(answer, "count"), 2);
    task_reaches(w->api, "a", "delivered", ARRIVE_MS);
    json_t *b = task_reaches(w->api, "b", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(b, "attempts"), 1, "counted anew");
    cr_expect_str_eq(json_text_at(client_get_task(w->api, "c")->json, "state"), "dead");
    cr_expect_eq(json_integer_at(crowd_do(w->api, "mail", "redrive"), "count"), 0);
}

Test(queue_tasks, redrive_takes_the_oldest_up_to_its_limit)
{
    static const char *const ids[] = {"a", "b", "c", "d"};

    for (size_t i = 0; i < 4; i++)
        make_dead(ids[i], "mail");
    crowd_do(w->api, "mail", "pause");
    const struct reply *r = call("POST", "/queues/mail/redrive", "{\"limit\":3}");
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_eq(json_integer_at(r->json, "count"), 3);
    cr_expect_str_eq(json_text_at(client_get_task(w->api, "a")->json, "state"), "scheduled");
    cr_expect_str_eq(json_text_at(client_get_task(w->api, "c")->json, "state"), "scheduled");
    cr_expect_str_eq(json_text_at(client_get_task(w->api, "d")->json, "state"), "dead");
}

Test(queue_tasks, one_that_dies_again_is_counted_once)
{
    SINK_SCRIPT(w->sink, "/again", {.status = 410});
    crowd_post(w, "again", "mail", "");
    task_reaches(w->api, "again", "dead", ARRIVE_MS);
    cr_expect_eq(json_integer_at(crowd_do(w->api, "mail", "redrive"), "count"), 1);
    sink_wait(w->sink, "/again", 2, ARRIVE_MS);
    task_reaches(w->api, "again", "dead", ARRIVE_MS);
}

Test(queue_tasks, redrive_reads_its_body_strictly)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {{"{}", 200},
                {"{\"limit\":1}", 200},
                {"{\"limit\":100000}", 200},
                {"{\"limit\":0}", 400},
                {"{\"limit\":100001}", 400},
                {"{\"limit\":1.5}", 400},
                {"{\"limit\":\"1\"}", 400},
                {"{\"limit\":null}", 400},
                {"{\"limit\":1,\"limit\":1}", 400},
                {"{\"queue\":\"x\"}", 400},
                {"[]", 400},
                {"{", 400}};

    crowd_post(w, "a", "mail", ",\"delay\":\"1h\"");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct reply *r = call("POST", "/queues/mail/redrive", rows[i].body);
        cr_expect_eq(r->status, rows[i].status, "%s: %d %s", rows[i].body, r->status, r->body);
    }
    const struct client_request plain = {
        .method = "POST", .path = "/queues/mail/redrive", .body = "limit=1", .content_type = "text/plain"};
    reply_expect_problem(client_request(w->api, &plain), 415, "unsupported_media_type");
}

Test(queue_tasks, hundreds_are_redriven_in_one_call)
{
    SINK_SCRIPT(w->sink, "/mass", {.status = 410});
    for (int i = 0; i < 350; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "mass-%d", i);
        const struct reply *r = client_post_task(w->api, "{\"id\":\"%s\",\"queue\":\"mail\",\"url\":\"%s\"}", id,
                                                 sink_url(w->sink, "/mass"));
        cr_assert_eq(r->status, 201);
    }
    WAIT_UNTIL(number("mail", "dead") == 350, ARRIVE_MS);
    crowd_do(w->api, "mail", "pause");
    cr_expect_eq(json_integer_at(crowd_do(w->api, "mail", "redrive"), "count"), 350);
    cr_expect_eq(number("mail", "dead"), 0);
    cr_expect_eq(number("mail", "scheduled"), 350);
}
