/* Somebody puts something else in the place of what Redis keeps for us, under a running gateway: a container of another
 * type, a record that is none. At most the task or the queue it belonged to suffers; all others are delivered, within a
 * minute at most, and the calls answer. */
#include "../support/gateway.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define ARRIVE_MS 10000
#define REPAIR_MS 60000 /* what is promised */
#define KEY "duepost{0}"

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    sink = sink_create();
    redis = redis_fixture_create(true);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", "--threads", "1", NULL);
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(attack_by_hand, .init = setup, .fini = teardown, .timeout = 1200);

/* A create may be refused while Redis is put right. */
static bool is_posted(const char *id, const char *queue, int delay_ms)
{
    const struct reply *r = client_post_task(
        gateway->api,
        "{\"id\":\"%s\",\"queue\":\"%s\",\"url\":\"%s\",\"delay\":%d,\"expires_in\":\"1h\",\"on_success\":\"%s/told\"}",
        id, queue, sink_url(sink, "/x"), delay_ms, sink_url(sink, ""));

    return r->status == 201 || r->status == 200;
}

static void post(const char *id, const char *queue, int delay_ms)
{
    WAIT_UNTIL(is_posted(id, queue, delay_ms), ARRIVE_MS);
}

static int status_of(const char *path)
{
    return client_get(gateway->api, path)->status;
}

static void expect_all_well(const char *what)
{
    static const char *const paths[] = {"/stats",         "/metrics",          "/queues/limited",
                                        "/queues/paused", "/tasks?state=dead", "/tasks?state=scheduled"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        cr_expect_lt(status_of(paths[i]), 500, "%s: %s", what, paths[i]); /* a queue may be gone */
}

static void put_queue(const char *path, const char *settings)
{
    const struct reply *r =
        client_request(gateway->api, &(struct client_request){.method = "PUT", .path = path, .body = settings});

    cr_assert(r->status == 200 || r->status == 201, "%d %s", r->status, r->body);
}

Test(attack_by_hand, another_type_in_any_containers_place_loses_nothing)
{
    static const char *const containers[] = {"lanes",     "ready",     "totals",    "out",         "busy",
                                             "queues",    "delivered", "dead",      "cancelled",   "expired",
                                             "workers",   "flight",    "settings",  "rates",       "expiry",
                                             "callbacks", "q:default", "q:limited", "dead:default"};
    char id[40];

    for (size_t i = 0; i < sizeof(containers) / sizeof(*containers); i++) {
        put_queue("/queues/limited", "{\"max_per_second\":100,\"max_concurrency\":2}");
        put_queue("/queues/paused", "{\"paused\":true}");
        (void)snprintf(id, sizeof(id), "before-%zu", i);
        post(id, "default", 200);
        redis_fixture_run(redis, "EVAL %s 1 " KEY ":%s",
                          i % 2 == 0 ? "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'x')"
                                     : "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'x')",
                          containers[i]);
        (void)snprintf(id, sizeof(id), "after-%zu", i);
        post(id, "default", 0);
        (void)snprintf(id, sizeof(id), "limited-%zu", i);
        post(id, "limited", 0);
        task_reaches(gateway->api, id, "delivered", REPAIR_MS);
        (void)snprintf(id, sizeof(id), "after-%zu", i);
        task_reaches(gateway->api, id, "delivered", REPAIR_MS);
        (void)snprintf(id, sizeof(id), "before-%zu", i);
        task_reaches(gateway->api, id, "delivered", REPAIR_MS);
        expect_all_well(containers[i]);
    }
    cr_expect_eq(sink_count(sink, "/x"), 3 * sizeof(containers) / sizeof(*containers), "each once");
}

Test(attack_by_hand, records_that_are_none_harm_no_other_task)
{
    static const char *const broken[] = {"SET " KEY "%s x",
                                         "SET " KEY "%s 0123456789012345678901234567890123456789",
                                         "RPUSH " KEY "%s x",
                                         "HSET " KEY "%s x y",
                                         "SETRANGE " KEY "%s 40 \xff\xff\xff\xff",
                                         "SETRANGE " KEY "%s 0 \x7f"};
    char id[40];

    put_queue("/queues/limited", "{\"max_per_second\":100,\"max_concurrency\":2}");
    for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
        for (int which = 0; which < 2; which++) {
            (void)snprintf(id, sizeof(id), "bad-%zu-%d", i, which);
            post(id, "default", which ? 300 : 60000);
            if (broken[i][0] != 'S' || broken[i][3] != 'R')
                redis_fixture_run(redis, "DEL " KEY "%s", id);
            redis_fixture_run(redis, broken[i], id);
            cr_expect_neq(client_get_task(gateway->api, id)->status, 200, "%s", broken[i]);
            cr_expect_neq(client_delete_task(gateway->api, which ? id : "none")->status, 0);
        }
        (void)snprintf(id, sizeof(id), "good-%zu", i);
        post(id, i % 2 ? "limited" : "default", 300);
        task_reaches(gateway->api, id, "delivered", REPAIR_MS);
    }
    cr_expect_eq(status_of("/tasks?state=scheduled"), 200);
    cr_expect_eq(status_of("/tasks?state=scheduled&queue=default"), 200);
    cr_expect_eq(status_of("/stats"), 200);
    cr_expect_eq(client_post(gateway->api, "/queues/default/purge", NULL)->status, 200);
}
