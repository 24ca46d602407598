/* The written contract against the real server: every example in api/openapi.yaml is replayed.
 *
 * Requests are sent as they stand (only the receiver's address is put in) and must be accepted. For every answer shown
 * there is a way in `ways` to provoke it: texts of problems must then be equal to the last letter, other answers have
 * the same members of the same types. An example without a way, and a way without an example, fail. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include "../support/wire.h"
#include "../support/yaml_json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define LIMIT_BYTES 1048576

static struct world *w;
static json_t *contract;
static json_t *kept; /* answers that no client keeps */

static void setup(void)
{
    w = world_create();
    contract = yaml_json_load("api/openapi.yaml");
    kept = json_array();
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

/* One call of the contract. */
struct operation {
    const char *id;
    char method[8];
    const char *path; /* with {id} */
};

/* --- ways to provoke an answer ---------------------------------------------------------------------------------- */

/* The operation's path with a task id put in; free(). */
static char *path_of(const struct operation *op, const char *id, const char *suffix)
{
    const char *hole = strstr(op->path, "{id}");
    char *path = NULL;
    int n = hole ? asprintf(&path, "%.*s%s%s%s", (int)(hole - op->path), op->path, id, hole + 4, suffix)
                 : asprintf(&path, "%s%s", op->path, suffix);

    cr_assert_gt(n, 0);
    return path;
}

static json_t *call(const struct operation *op, const char *id, const char *suffix, struct client_request request)
{
    char *path = path_of(op, id, suffix);

    request.path = path;
    if (!request.method)
        request.method = op->method;
    json_t *answer = client_request(w->api, &request)->json;
    free(path);
    return answer;
}

static json_t *post(const char *body)
{
    return client_post(w->api, "/tasks", body)->json;
}

static json_t *plain(const struct operation *op)
{
    return call(op, "nobody", "", (struct client_request){0});
}

static json_t *with_query(const struct operation *op)
{
    return call(op, "nobody", "?verbose", (struct client_request){.body = strcmp(op->id, "createTask") ? NULL : "{}"});
}

static json_t *with_no_json(const struct operation *op)
{
    return call(op, "nobody", "", (struct client_request){.body = "{\"url\": \"x\""});
}

static json_t *with_wrong_members(const struct operation *op)
{
    bool is_create = strcmp(op->id, "createTask") == 0;

    return call(op, "nobody", "",
                (struct client_request){.body = is_create ? "{\"retry\":{\"max_attempts\":0}}" : "{\"force\":true}"});
}

static json_t *with_bad_framing(const struct operation *op)
{
    char *path = path_of(op, "nobody", ""), *request = NULL;
    struct wire *wire = NULL;

    cr_assert(asprintf(&request,
                       "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                       op->method, path) > 0);
    int port = (int)strtol(strrchr(w->gateway->url, ':') + 1, NULL, 10);
    json_t *answer = wire_ask(port, request, &wire)->json;
    json_array_append(kept, answer);
    wire_hang_up(&wire);
    free(request);
    free(path);
    return answer;
}

static json_t *with_another_method(const struct operation *op)
{
    return call(op, "nobody", "", (struct client_request){.method = "BREW"});
}

static json_t *with_too_large_a_body(const struct operation *op)
{
    char *body = malloc(LIMIT_BYTES + 2);

    memset(body, ' ', LIMIT_BYTES + 1);
    body[LIMIT_BYTES + 1] = '\0';
    json_t *answer = call(op, "nobody", "", (struct client_request){.body = body});
    free(body);
    return answer;
}

static json_t *with_text(const struct operation *op)
{
    return call(op, "nobody", "", (struct client_request){.body = "{\"a\":1}", .content_type = "text/plain"});
}

static json_t *with_expectation(const struct operation *op)
{
    static const char *const headers[] = {"Expect: 200-ok", NULL};

    return call(op, "nobody", "", (struct client_request){.body = "{}", .headers = headers});
}

static json_t *at_no_path(const struct operation *op)
{
    return call(op, "nobody", "/no/call", (struct client_request){0});
}

static json_t *created(const struct operation *op)
{
    (void)op;
    return post(
        "{\"id\":\"order-1042-close\",\"queue\":\"orders\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"30m\"}");
}

static const char *delivered_task(void)
{
    static char body[256];

    (void)snprintf(body, sizeof(body), "{\"id\":\"delivered\",\"url\":\"%s\"}", sink_url(w->sink, "/hook"));
    post(body);
    task_reaches(w->api, "delivered", "delivered", ARRIVE_MS);
    return body;
}

static json_t *created_again(const struct operation *op)
{
    (void)op;
    return post(delivered_task());
}

static json_t *created_otherwise(const struct operation *op)
{
    (void)op;
    post("{\"id\":\"taken\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"1h\"}");
    return post("{\"id\":\"taken\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"2h\"}");
}

static json_t *post_with(const char *header, const char *body)
{
    const char *const headers[] = {header, NULL};
    const struct client_request request = {.method = "POST", .path = "/tasks", .body = body, .headers = headers};

    return client_request(w->api, &request)->json;
}

static json_t *created_otherwise_by_key(const struct operation *op)
{
    (void)op;
    post_with("Idempotency-Key: taken", "{\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"1h\"}");
    return post_with("Idempotency-Key: taken", "{\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"2h\"}");
}

static json_t *created_long_ago(const struct operation *op)
{
    static const char body[] = "{\"id\":\"E7Tshnpa1E5ylz\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"1h\"}";

    (void)op;
    post_with("Idempotency-Key: gone", body);
    redis_fixture_run(w->redis, "DEL duepost{0}E7Tshnpa1E5ylz");
    return post_with("Idempotency-Key: gone", body);
}

static json_t *with_no_key(const struct operation *op)
{
    (void)op;
    return post_with("Idempotency-Key;", "{}"); /* so curl sends one without a value */
}

static json_t *shown(const struct operation *op)
{
    post("{\"id\":\"shown\",\"url\":\"http://127.0.0.1:9/"
         "hook\",\"delay\":\"1h\",\"payload\":{\"order\":1042,\"action\":\"x\"},"
         "\"headers\":{\"Authorization\":\"Bearer x\",\"X-Source\":\"shop\"}}");
    return call(op, "shown", "", (struct client_request){0});
}

static json_t *deleted_under_way(const struct operation *op)
{
    char body[256];

    SINK_SCRIPT(w->sink, "/held", {.status = 200, .is_held = true});
    (void)snprintf(body, sizeof(body), "{\"id\":\"held\",\"url\":\"%s\"}", sink_url(w->sink, "/held"));
    post(body);
    sink_wait(w->sink, "/held", 1, ARRIVE_MS);
    json_t *answer = call(op, "held", "", (struct client_request){0});
    sink_release(w->sink);
    return answer;
}

static json_t *deleted_when_delivered(const struct operation *op)
{
    delivered_task();
    return call(op, "delivered", "", (struct client_request){0});
}

/* Members of `queues` are names, not part of the contract: only the default one is kept. */
static json_t *with_one_queue(const struct operation *op)
{
    delivered_task();
    json_t *answer = plain(op);
    json_t *one = json_pack("{s:O}", "default", json_at(answer, "queues.default"));
    json_object_set_new(answer, "queues", one);
    return answer;
}

static json_t *valid(const struct operation *op)
{
    bool is_create = strcmp(op->id, "createTask") == 0;

    return call(op, "nobody", "",
                (struct client_request){.body = is_create ? "{\"url\":\"http://127.0.0.1:9/\"}" : NULL});
}

static json_t *valid_with_token(const struct operation *op)
{
    client_set_token(w->api, "a-token-that-only-reads");
    json_t *answer = valid(op);
    client_set_token(w->api, NULL);
    return answer;
}

/* What must be done to the world before an example can be provoked. */
enum world_state {
    AS_IT_IS = 0,
    WITH_TOKEN,
    WITHOUT_REDIS,
    UNREACHABLE, /* cannot be provoked from outside: not replayed */
};

enum likeness {
    EXACT = 0, /* every member and text */
    ALIKE,     /* the same members of the same types (null stands for any), and the same status, title and code */
};

static const struct way {
    const char *operation; /* NULL: any */
    const char *example;
    enum world_state state;
    enum likeness likeness;
    json_t *(*provoke)(const struct operation *op);
} ways[] = {
    {"createTask", "scheduled", AS_IT_IS, ALIKE, created},
    {"createTask", "delivered", AS_IT_IS, ALIKE, created_again},
    {"createTask", "idConflict", AS_IT_IS, EXACT, created_otherwise},
    {"createTask", "keyConflict", AS_IT_IS, EXACT, created_otherwise_by_key},
    {"createTask", "gone", AS_IT_IS, EXACT, created_long_ago},
    {"createTask", "invalidHeader", AS_IT_IS, EXACT, with_no_key},
    {"getTask", "scheduled", AS_IT_IS, ALIKE, shown},
    {"cancelTask", "delivering", AS_IT_IS, ALIKE, deleted_under_way},
    {"cancelTask", "delivered", AS_IT_IS, EXACT, deleted_when_delivered},
    {"getStats", "healthy", AS_IT_IS, ALIKE, with_one_queue},
    {"getStats", "redisAway", WITHOUT_REDIS, ALIKE, plain},
    {"getHealth", "ok", AS_IT_IS, EXACT, plain},
    {"getReadiness", "ready", AS_IT_IS, EXACT, plain},
    {"getReadiness", "unready", WITHOUT_REDIS, ALIKE, plain},
    {NULL, "invalidRequest", AS_IT_IS, EXACT, with_wrong_members},
    {NULL, "invalidJson", AS_IT_IS, ALIKE, with_no_json},
    {NULL, "invalidQuery", AS_IT_IS, EXACT, with_query},
    {NULL, "badFraming", AS_IT_IS, EXACT, with_bad_framing},
    {NULL, "unauthorized", WITH_TOKEN, EXACT, valid},
    {NULL, "forbidden", WITH_TOKEN, EXACT, valid_with_token},
    {NULL, "taskNotFound", AS_IT_IS, EXACT, plain},
    {NULL, "notFound", AS_IT_IS, EXACT, at_no_path},
    {NULL, "methodNotAllowed", AS_IT_IS, EXACT, with_another_method},
    {NULL, "bodyTooLarge", AS_IT_IS, EXACT, with_too_large_a_body},
    {NULL, "unsupportedMediaType", AS_IT_IS, EXACT, with_text},
    {NULL, "expectationFailed", AS_IT_IS, EXACT, with_expectation},
    {"getHealth", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {"getContract", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {"getStats", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {NULL, "storeUnavailable", WITHOUT_REDIS, ALIKE, valid},
    {NULL, "internal", UNREACHABLE, EXACT, NULL},
    {NULL, "tooManyConnections", UNREACHABLE, EXACT, NULL},
    {NULL, "outOfMemory", UNREACHABLE, EXACT, NULL},
    {NULL, "shuttingDown", UNREACHABLE, EXACT, NULL},
};

#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

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
    for (size_t i = 0; i < WAY_COUNT; i++) {
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

static bool is_used[WAY_COUNT];

static void mark(const struct operation *op, const char *name, json_t *example)
{
    const struct way *way = find_way(op, name);

    (void)example;
    if (way)
        is_used[way - ways] = true;
}

Test(openapi, every_way_belongs_to_an_example)
{
    each_operation(mark);
    for (size_t i = 0; i < WAY_COUNT; i++)
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
