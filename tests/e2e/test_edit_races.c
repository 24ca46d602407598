/* Changes against the due moment and against each other: what was answered is what the receiver saw. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARRIVE_MS 20000
#define NEAR_MS 5
#define TASKS 1000
#define STEP_MS 4

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;
static struct client *api;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), NULL);
    api = gateway->api;
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(edit_races, .init = setup, .fini = teardown, .timeout = 600);

static int ask(struct client *client, const char *method, const char *id, const char *action, const char *body)
{
    char path[100];

    (void)snprintf(path, sizeof(path), "/tasks/%.40s%s", id, action);
    return client_request(client, &(struct client_request){.method = method, .path = path, .body = body})->status;
}

static bool is_settled(void)
{
    json_t *stats = client_get(api, "/stats")->json;

    return json_integer_at(stats, "tasks.scheduled") == 0 && json_integer_at(stats, "tasks.ready") == 0 &&
           json_integer_at(stats, "tasks.delivering") == 0;
}

static void sleep_until(int64_t wall_ms)
{
    int64_t left_us = wall_ms * 1000 - wait_wall_us();
    const struct timespec t = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};

    if (left_us > 0)
        nanosleep(&t, NULL);
}

/* ---- against the due moment ---- */

struct race {
    char id[24], path[24];
    int status;
    int64_t due_ms;    /* as it was created */
    int64_t run_at_ms; /* as it was answered; 0: it was refused */
};
static struct race races[TASKS];

/* Tasks with the payload "old", due one after the other. */
static void line_up(void)
{
    int64_t begin_ms = wait_wall_ms() + client_time_for(api, TASKS);

    for (int i = 0; i < TASKS; i++) {
        struct race *r = &races[i];
        (void)snprintf(r->id, sizeof(r->id), "race-%d", i);
        (void)snprintf(r->path, sizeof(r->path), "/race-%d", i);
        r->due_ms = begin_ms + (int64_t)i * STEP_MS;
        const struct reply *reply =
            client_post_task(api, "{\"id\":\"%s\",\"url\":\"%s\",\"run_at\":%lld,\"payload\":\"old\"}", r->id,
                             sink_url(sink, r->path), (long long)r->due_ms);
        cr_assert_eq(reply->status, 201, "%d %s", reply->status, reply->body);
    }
}

/* Do something to each of them, from 5 ms before to 5 ms after its time. */
static void race_all(const char *method, const char *action, const char *body)
{
    line_up();
    for (int i = 0; i < TASKS; i++) {
        struct race *r = &races[i];
        char path[100];
        sleep_until(r->due_ms + i % (2 * NEAR_MS + 1) - NEAR_MS);
        (void)snprintf(path, sizeof(path), "/tasks/%.40s%s", r->id, action);
        const struct reply *reply =
            client_request(api, &(struct client_request){.method = method, .path = path, .body = body});
        r->status = reply->status;
        r->run_at_ms = r->status == 200 ? json_time_at(reply->json, "run_at") : 0;
        cr_expect(r->status == 200 || r->status == 409, "%d %s", r->status, reply->body);
    }
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
}

static int count_status(int status)
{
    int n = 0;

    for (int i = 0; i < TASKS; i++)
        n += races[i].status == status;
    return n;
}

static void expect_a_race(int won)
{
    cr_expect(won > 0 && won < TASKS, "%d of %d were in time: that was no race", won, TASKS);
}

Test(edit_races, a_patched_payload_is_what_arrives_or_the_patch_was_refused)
{
    race_all("PATCH", "", "{\"payload\":\"new\"}");
    for (int i = 0; i < TASKS; i++) {
        const struct sink_request *r = sink_wait(sink, races[i].path, 1, ARRIVE_MS);
        const char *want = races[i].status == 200 ? "\"new\"" : "\"old\"";
        cr_expect_str_eq(r->body, want, "task %d, patched with %d, came with %s", i, races[i].status, r->body);
        cr_expect_eq(sink_count(sink, races[i].path), 1, "task %d came %zu times", i, sink_count(sink, races[i].path));
    }
    expect_a_race(count_status(200));
}

Test(edit_races, a_patched_time_is_kept_or_the_patch_was_refused)
{
    race_all("PATCH", "", "{\"delay\":400}");
    for (int i = 0; i < TASKS; i++) {
        const struct race *race = &races[i];
        const struct sink_request *r = sink_wait(sink, race->path, 1, ARRIVE_MS);
        int64_t due_ms = race->status == 200 ? race->run_at_ms : race->due_ms;
        cr_expect_geq(r->arrived_us, due_ms * 1000, "task %d, patched with %d, came %lld us early", i, race->status,
                      (long long)(due_ms * 1000 - r->arrived_us));
        cr_expect_eq(sink_count(sink, race->path), 1, "task %d came %zu times", i, sink_count(sink, race->path));
    }
    expect_a_race(count_status(200));
}

Test(edit_races, a_run_near_the_due_moment_sends_once)
{
    race_all("POST", "/run", NULL);
    for (int i = 0; i < TASKS; i++)
        cr_expect_eq(sink_count(sink, races[i].path), 1, "task %d, run with %d, came %zu times", i, races[i].status,
                     sink_count(sink, races[i].path));
    expect_a_race(count_status(200));
}

/* A patch puts the task off, a delete follows: whatever each is told, it is the truth. */
Test(edit_races, a_delete_behind_a_patch_near_the_due_moment_is_kept_or_refused)
{
    int kept = 0;

    line_up();
    for (int i = 0; i < TASKS; i++) {
        struct race *r = &races[i];
        sleep_until(r->due_ms + i % (2 * NEAR_MS + 1) - NEAR_MS);
        int patched = ask(api, "PATCH", r->id, "", "{\"delay\":2,\"payload\":\"new\"}");
        r->status = client_delete_task(api, r->id)->status;
        cr_expect(patched == 200 || r->status != 204, "task %d was refused a patch and then deleted", i);
    }
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    for (int i = 0; i < TASKS; i++) {
        size_t seen = sink_count(sink, races[i].path);
        cr_expect_eq(seen, races[i].status == 204 ? 0 : 1, "task %d, deleted with %d, came %zu times", i,
                     races[i].status, seen);
        kept += races[i].status == 204;
    }
    cr_expect_gt(kept, 0);
}

/* ---- against each other ---- */

#define ROUNDS 300

struct rival {
    struct client *api;
    pthread_barrier_t *start;
    const char *method, *action, *body;
    int statuses[ROUNDS];
};

static void *compete(void *ctx)
{
    struct rival *r = ctx;
    char id[24];

    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(id, sizeof(id), "duel-%d", i);
        pthread_barrier_wait(r->start);
        r->statuses[i] = ask(r->api, r->method, id, r->action, r->body);
    }
    return NULL;
}

/* Two clients do this to each of the tasks duel-0, duel-1, ... at the same moment. */
static void duel(struct rival rivals[2])
{
    pthread_barrier_t start;
    pthread_t thread;

    cr_assert_eq(pthread_barrier_init(&start, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        rivals[i].api = client_create(gateway->url);
        rivals[i].start = &start;
    }
    cr_assert_eq(pthread_create(&thread, NULL, compete, &rivals[0]), 0);
    compete(&rivals[1]);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 2; i++)
        client_destroy(&rivals[i].api);
    (void)pthread_barrier_destroy(&start);
}

Test(edit_races, two_patches_at_once_are_both_seen_or_one_is_refused)
{
    struct rival rivals[2] = {{.method = "PATCH", .action = "", .body = "{\"headers\":{\"X-First\":\"1\"}}"},
                              {.method = "PATCH", .action = "", .body = "{\"payload\":\"second\"}"}};
    int both = 0;

    for (int i = 0; i < ROUNDS; i++)
        cr_assert_eq(
            client_post_task(api, "{\"id\":\"duel-%d\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}", i)->status,
            201);
    duel(rivals);
    for (int i = 0; i < ROUNDS; i++) {
        char id[24];
        (void)snprintf(id, sizeof(id), "duel-%d", i);
        json_t *task = client_get_task(api, id)->json;
        for (int k = 0; k < 2; k++)
            cr_expect(rivals[k].statuses[i] == 200 || rivals[k].statuses[i] == 409, "%d", rivals[k].statuses[i]);
        cr_expect_eq(json_object_size(json_at(task, "headers")), rivals[0].statuses[i] == 200 ? 1 : 0, "%s", id);
        cr_expect_eq(json_at(task, "payload") != NULL, rivals[1].statuses[i] == 200, "%s", id);
        both += rivals[0].statuses[i] == 200 && rivals[1].statuses[i] == 200;
    }
    cr_expect_gt(both, ROUNDS / 2, "only %d of %d times both were done", both, ROUNDS);
}

Test(edit_races, two_redrives_at_once_are_one_delivery)
{
    struct rival rivals[2] = {{.method = "POST", .action = "/redrive"}, {.method = "POST", .action = "/redrive"}};

    for (int i = 0; i < ROUNDS; i++) {
        char id[24], path[24];
        (void)snprintf(id, sizeof(id), "duel-%d", i);
        (void)snprintf(path, sizeof(path), "/duel-%d", i);
        cr_assert_eq(
            client_post_task(api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":\"1h\"}", id, sink_url(sink, path))->status,
            201);
        cr_assert_eq(client_delete_task(api, id)->status, 204);
    }
    duel(rivals);
    WAIT_UNTIL(is_settled(), ARRIVE_MS);
    for (int i = 0; i < ROUNDS; i++) {
        char path[24];
        (void)snprintf(path, sizeof(path), "/duel-%d", i);
        int a = rivals[0].statuses[i], b = rivals[1].statuses[i];
        cr_expect((a == 200 && b == 409) || (a == 409 && b == 200), "task %d: %d and %d", i, a, b);
        cr_expect_eq(sink_count(sink, path), 1, "task %d came %zu times", i, sink_count(sink, path));
    }
}

/* One client says now, the other in an hour: the later word counts, and the task is sent at most once. */
Test(edit_races, a_run_and_a_patch_at_once_agree_on_one_time)
{
    struct rival rivals[2] = {{.method = "POST", .action = "/run"},
                              {.method = "PATCH", .action = "", .body = "{\"delay\":\"1h\"}"}};

    for (int i = 0; i < ROUNDS; i++) {
        char path[24];
        (void)snprintf(path, sizeof(path), "/duel-%d", i);
        cr_assert_eq(
            client_post_task(api, "{\"id\":\"duel-%d\",\"url\":\"%s\",\"delay\":\"1h\"}", i, sink_url(sink, path))
                ->status,
            201);
    }
    duel(rivals);
    for (int i = 0; i < ROUNDS; i++) {
        char id[24], path[24];
        (void)snprintf(id, sizeof(id), "duel-%d", i);
        (void)snprintf(path, sizeof(path), "/duel-%d", i);
        cr_expect_eq(rivals[0].statuses[i], 200);
        json_t *task = client_get_task(api, id)->json;
        bool is_put_off = strcmp(json_text_at(task, "state"), "scheduled") == 0 &&
                          json_time_at(task, "run_at") > wait_wall_ms() + 1000000;
        if (is_put_off) {
            cr_expect_eq(rivals[1].statuses[i], 200);
            cr_expect_eq(sink_count(sink, path), 0, "task %d was put off and came", i);
        } else {
            task_reaches(api, id, "delivered", ARRIVE_MS);
            cr_expect_eq(sink_count(sink, path), 1, "task %d came %zu times", i, sink_count(sink, path));
        }
    }
}
