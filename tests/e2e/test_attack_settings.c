/* Fifty thousand queues have settings, and somebody changes those of one again and again: a new task waits for nothing,
 * and takes over what its own queue has. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define TASKS 200
#define SLOWEST_MS 1000

static struct world *w;
static atomic_bool is_over;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(attack_settings, .init = setup, .fini = teardown, .timeout = 300);

static void *change(void *arg)
{
    struct client *api = client_create(w->gateway->url);
    int *changes = arg;
    char body[64];

    while (!atomic_load(&is_over)) {
        (void)snprintf(body, sizeof(body), "{\"timeout\":%d}", 1000 + *changes);
        struct client_request put = {.method = "PUT", .path = "/queues/changed", .body = body};
        *changes += client_request(api, &put)->status < 300;
    }
    client_destroy(&api);
    return NULL;
}

Test(attack_settings, a_new_task_waits_for_no_settings_but_its_own)
{
    pthread_t changer;
    long slowest_ms = 0;
    int changes = 0;

    redis_fixture_run(w->redis, "EVAL %s 1 duepost{0}:settings",
                      "for i = 1, 50000 do redis.call('HSET', KEYS[1], 'q' .. i, "
                      "'0 0 0 {\"retry\":{\"max_attempts\":' .. (i % 7 + 1) .. '}}') end "
                      "redis.call('HINCRBY', KEYS[1], ':', 1)");
    cr_assert_eq(pthread_create(&changer, NULL, change, &changes), 0);
    for (int i = 1; i <= TASKS; i++) {
        const struct reply *r =
            client_post_task(w->api, "{\"url\":\"%s\",\"delay\":\"1h\",\"queue\":\"q%d\"}", sink_url(w->sink, "/x"), i);
        cr_expect_eq(r->status, 201, "%d %s", r->status, r->body);
        cr_expect_eq(json_integer_at(r->json, "max_attempts"), i % 7 + 1, "q%d", i);
        slowest_ms = r->duration_ms > slowest_ms ? r->duration_ms : slowest_ms;
    }
    atomic_store(&is_over, true);
    pthread_join(changer, NULL);
    cr_expect_gt(changes, TASKS / 4, "%d changes", changes);
    cr_expect_leq(slowest_ms, wait_scaled_ms(SLOWEST_MS), "%ld ms", slowest_ms);
}
