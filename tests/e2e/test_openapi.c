/* The written contract against the real server: every example in api/openapi.yaml is replayed.
 *
 * Requests are sent as they stand (only the receiver's address is put in) and must be accepted. For every answer shown
 * there is a way to provoke it (support/ways.c): texts of problems must then be equal to the last letter, other answers
 * have the same members of the same types. An example without a way, and a way without an example, fail. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include "../support/ways.h"
#include "../support/yaml_json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define WAYS_MAX 200

static struct world *w;
static json_t *contract;
static json_t *kept; /* answers that no client keeps */
static const struct way *ways;
static size_t way_count;

static void setup(void)
{
    w = world_create();
    contract = yaml_json_load("api/openapi.yaml");
    kept = json_array();
    ways = ways_list(&way_count);
    ways_begin(w, kept);
}

static void teardown(void)
{
    json_decref(contract);
    json_decref(kept);
    world_destroy(&w);
}

TestSuite(openapi, .init = setup, .fini = teardown, .timeout = 300);

/* `value`, or what its "$ref": "#/components/..." leads to. */
static json_t *resolve(json_t *value)
{
    const char *ref = json_string_value(json_object_get(value, "$ref"));

    if (!ref)
        return value;
    char *path = strdup(ref + strlen("#/"));
    for (char *p = path; *p; p++)
        *p = *p == '/' ? '.' : *p;
    json_t *found = json_at(contract, path);
    cr_assert_not_null(found, "%s leads nowhere", ref);
    free(path);
    return resolve(found);
}

/* --- comparing -------------------------------------------------------------------------------------------------- */

static void expect_example(const struct operation *op, const char *name, json_t *example, const struct way *way)
{
    json_t *real = way->provoke(op);
    bool is_fine = way->likeness == EXACT ? json_equal(example, real) : json_is_alike(example, real);

    if (!is_fine) {
        char *wanted = json_dumps(example, JSON_INDENT(1)), *got = json_dumps(real, JSON_INDENT(1));
        cr_expect_fail("%s, example %s: the contract shows %s, the server says %s", op->id, name, wanted, got);
        free(wanted);
        free(got);
    }
}

/* --- walking through the contract ------------------------------------------------------------------------------- */

static const struct way *find_way(const struct operation *op, const char *name)
{
    for (size_t i = 0; i < way_count; i++) {
        bool is_here = !ways[i].operation || strcmp(ways[i].operation, op->id) == 0;
        if (is_here && strcmp(ways[i].example, name) == 0)
            return &ways[i];
    }
    return NULL;
}

/* Calls `visit` for every example of an answer of this operation; how many there were. */
typedef void visit_fn(const struct operation *op, const char *name, json_t *example);

static size_t each_example(const struct operation *op, json_t *responses, visit_fn *visit)
{
    const char *status, *type, *name;
    json_t *response, *media, *example;
    size_t count = 0;

    json_object_foreach(responses, status, response)
    {
        json_object_foreach(json_object_get(resolve(response), "content"), type, media)
        {
            json_object_foreach(json_object_get(media, "examples"), name, example)
            {
                visit(op, name, json_object_get(resolve(example), "value"));
                count++;
            }
        }
    }
    return count;
}

static void each_operation(visit_fn *visit)
{
    const char *path, *method;
    json_t *item, *call_item;
    size_t count = 0;

    json_object_foreach(json_object_get(contract, "paths"), path, item)
    {
        json_object_foreach(item, method, call_item)
        {
            if (!json_is_object(call_item))
                continue; /* shared parameters */
            struct operation op = {.id = json_text_at(call_item, "operationId"), .path = path};
            for (size_t i = 0; method[i] && i < sizeof(op.method) - 1; i++)
                op.method[i] = (char)(method[i] - 'a' + 'A');
            count += each_example(&op, json_object_get(call_item, "responses"), visit);
        }
    }
    cr_assert_gt(count, 0, "the contract shows no answer");
}

static enum world_state replayed_state;

static void replay(const struct operation *op, const char *name, json_t *example)
{
    const struct way *way = find_way(op, name);

    cr_assert_not_null(way, "%s: no way to provoke the example %s", op->id, name);
    if (way->state == replayed_state)
        expect_example(op, name, example, way);
}

Test(openapi, every_answer_shown_is_given)
{
    replayed_state = AS_IT_IS;
    each_operation(replay);
}

Test(openapi, every_answer_shown_is_given_without_a_token)
{
    static const char *const env[] = {"DUEPOST_TOKEN=abcdefghijklmnop", "DUEPOST_READ_TOKEN=a-token-that-only-reads",
                                      NULL};

    gateway_destroy(&w->gateway);
    w->gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(w->redis), .env = env});
    w->api = w->gateway->api;
    replayed_state = WITH_TOKEN;
    each_operation(replay);
}

Test(openapi, every_answer_shown_is_given_without_redis)
{
    redis_fixture_kill(w->redis);
    WAIT_UNTIL(client_get(w->api, "/readyz")->status == 503, ARRIVE_MS);
    replayed_state = WITHOUT_REDIS;
    each_operation(replay);
}

static bool is_used[WAYS_MAX];

static void mark(const struct operation *op, const char *name, json_t *example)
{
    const struct way *way = find_way(op, name);

    (void)example;
    if (way)
        is_used[way - ways] = true;
}

Test(openapi, every_way_belongs_to_an_example)
{
    cr_assert_leq(way_count, WAYS_MAX);
    each_operation(mark);
    for (size_t i = 0; i < way_count; i++)
        cr_expect(is_used[i], "no example is called %s", ways[i].example);
}

Test(openapi, every_request_shown_is_accepted)
{
    json_t *examples = json_at(contract, "paths./tasks.post.requestBody.content.application/json.examples");
    const char *name;
    json_t *example;

    cr_assert_gt(json_object_size(examples), 0);
    json_object_foreach(examples, name, example)
    {
        json_t *task = json_object_get(resolve(example), "value");
        cr_assert_eq(json_object_set_new(task, "url", json_string(sink_url(w->sink, "/hook"))), 0);
        char *body = json_dumps(task, 0);
        const struct reply *r = client_post(w->api, "/tasks", body);
        cr_expect_eq(r->status, 201, "%s: %d %s", name, r->status, r->body);
        free(body);
    }
}
