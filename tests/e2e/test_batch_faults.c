/* Batches when something goes wrong: clients and Redis that go away, a gateway that stops, too many at once. */
#include "../support/batch.h"
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/procfs.h"
#include "../support/wait.h"
#include "../support/wire.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 20000
#define BODY_MAX 4096

static struct redis_fixture *redis;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(true);
}

static void teardown(void)
{
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(batch_faults, .init = setup, .fini = teardown, .timeout = 300);

static void start(const char *option, const char *value)
{
    gateway = gateway_run(redis_fixture_url(redis), option, value, NULL);
}

static json_int_t stat_at(const char *path)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, path);
}

static int port(void)
{
    return procfs_listening_port(proc_pid(gateway->proc));
}

static struct wire *begin_batch(size_t bytes)
{
    struct wire *w = wire_dial(port());

    wire_printf(w,
                "POST /tasks/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: %zu\r\n\r\n",
                bytes);
    return w;
}

static bool any_has_answer(struct wire *const *clients, int count)
{
    for (int i = 0; i < count; i++)
        if (wire_has_answer(clients[i]))
            return true;
    return false;
}

/* What all of them hold beyond one task's size is bounded: sixteen whole batches. One that is too much is refused while
 * it is sent. */
Test(batch_faults, large_bodies_share_a_bound)
{
    enum { CLIENTS = 24, LIMIT = 16 * BODY_MAX };
    struct wire *clients[CLIENTS];
    char *fill = malloc(LIMIT);
    int refused = 0, read = 0;

    start("--max-body", "4096");
    memset(fill, ' ', LIMIT);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = begin_batch(LIMIT);
        (void)wire_try_send(clients[i], fill, LIMIT - 1);
    }
    WAIT_UNTIL(any_has_answer(clients, CLIENTS), ARRIVE_MS);
    for (int i = 0; i < CLIENTS; i++) {
        (void)wire_try_send(clients[i], fill, 1);
        const struct wire_answer *a = wire_read(clients[i], true);
        refused += a->status == 503;
        read += a->status == 400;
        if (a->status == 503)
            cr_expect_str_eq(json_text_at(a->json, "code"), "out_of_memory");
        wire_hang_up(&clients[i]);
    }
    free(fill);
    cr_expect_eq(refused + read, CLIENTS);
    cr_expect(refused > 0 && read >= 16, "%d were refused, %d read", refused, read);
    char *body = batch_of(16, 4000);
    WAIT_UNTIL(batch_post(gateway->api, body)->status == 200, ARRIVE_MS);
    free(body);
}

Test(batch_faults, a_client_that_goes_away_leaves_its_tasks_behind)
{
    char *body = batch_of(500, 100);
    struct wire *w = NULL;

    start("--threads", "1");
    redis_fixture_pause(redis);
    w = begin_batch(strlen(body));
    cr_assert(wire_try_send(w, body, strlen(body)));
    wire_hang_up(&w);
    redis_fixture_resume(redis);
    WAIT_UNTIL(stat_at("totals.created") == 500, ARRIVE_MS);
    free(body);
}

Test(batch_faults, a_client_that_goes_away_in_the_middle_leaves_nothing)
{
    char *body = batch_of(500, 100);
    struct wire *w = NULL;

    start("--threads", "1");
    w = begin_batch(strlen(body));
    cr_assert(wire_try_send(w, body, strlen(body) - 1));
    wire_hang_up(&w);
    cr_expect_eq(json_array_size(batch_results(gateway->api, "{\"tasks\":[]}", 0)), 0);
    cr_expect_eq(stat_at("totals.created"), 0);
    free(body);
}

Test(batch_faults, without_redis_each_result_is_503_in_bounded_time)
{
    char *body = batch_of(300, 10);

    start("--threads", "1");
    redis_fixture_pause(redis);
    const struct reply *r = batch_post(gateway->api, body);
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    cr_expect_lt(r->duration_ms, wait_scaled_ms(2500));
    json_t *results = json_at(r->json, "results");
    cr_assert_eq(json_array_size(results), 300);
    for (size_t i = 0; i < 300; i++) {
        cr_expect_eq(batch_status(results, i), 503);
        cr_expect_str_eq(json_text_at(json_array_get(results, i), "problem.code"), "store_unavailable");
    }
    redis_fixture_resume(redis);
    WAIT_UNTIL(batch_status(json_at(batch_post(gateway->api, body)->json, "results"), 0) == 201, ARRIVE_MS);
    free(body);
}

/* Killed while batches are created: what was answered 201 is there. */
Test(batch_faults, what_was_answered_survives_a_restart_of_redis)
{
    struct text body = {0};

    start("--threads", "1");
    text_put(&body, "{\"tasks\":[");
    for (int i = 0; i < 400; i++)
        text_put(&body, "%s{\"id\":\"t-%d\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\"}", i > 0 ? "," : "", i);
    text_put(&body, "]}");
    json_t *results = json_incref(batch_results(gateway->api, body.s, 400));
    redis_fixture_kill(redis);
    redis_fixture_start(redis);
    /* The same request again: all are there already, and it says so. */
    WAIT_UNTIL(batch_status(json_at(batch_post(gateway->api, body.s)->json, "results"), 0) == 200, ARRIVE_MS);
    for (size_t i = 0; i < 400; i++)
        cr_assert_eq(batch_status(results, i), 201);
    json_decref(results);
    results = batch_results(gateway->api, body.s, 400);
    for (size_t i = 0; i < 400; i++)
        cr_expect_eq(batch_status(results, i), 200, "task %zu", i);
    free(body.s);
}

Test(batch_faults, the_gateway_stops_in_time_with_a_batch_under_way)
{
    char *body = batch_of(300, 10);
    struct wire *w = NULL;

    start("--threads", "1");
    redis_fixture_pause(redis);
    w = begin_batch(strlen(body));
    cr_assert(wire_try_send(w, body, strlen(body)));
    /* One thread serves all connections in turn: after these it has the whole batch, and waits for Redis. */
    for (int i = 0; i < 10; i++)
        cr_assert_eq(client_get(gateway->api, "/healthz")->status, 200);
    gateway_stop(gateway);
    redis_fixture_resume(redis);
    const struct wire_answer *a = wire_read(w, true);
    cr_expect_eq(a->status, 200);
    json_t *results = json_at(a->json, "results");
    cr_expect_eq(json_array_size(results), 300);
    cr_expect_eq(batch_status(results, 299), 503);
    wire_hang_up(&w);
    free(body);
}
