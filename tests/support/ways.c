#include "ways.h"
#include "json_expect.h"
#include "wait.h"
#include "wire.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define LIMIT_BYTES 1048576
#define TARGET_BYTES 8192
#define HEAD_BYTES 15360

static struct world *w;
static json_t *kept;

void ways_begin(struct world *world, json_t *array)
{
    w = world;
    kept = array;
}

/* The operation's path with the id of a task or the name of a queue put in; free(). */
static char *path_of(const struct operation *op, const char *id, const char *suffix)
{
    const char *hole = strchr(op->path, '{');
    char *path = NULL;
    int n = hole ? asprintf(&path, "%.*s%s%s%s", (int)(hole - op->path), op->path, id, strchr(hole, '}') + 1, suffix)
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

static json_t *with_blanks(const struct operation *op, size_t bytes)
{
    char *body = malloc(bytes + 1);

    memset(body, ' ', bytes);
    body[bytes] = '\0';
    json_t *answer = call(op, "nobody", "", (struct client_request){.body = body});
    free(body);
    return answer;
}

static json_t *with_too_large_a_body(const struct operation *op)
{
    return with_blanks(op, LIMIT_BYTES + 1);
}

static json_t *with_too_large_a_batch(const struct operation *op)
{
    return with_blanks(op, (size_t)16 * LIMIT_BYTES + 1);
}

/* `begin` and so many letters. */
static void lengthen(char *out, const char *begin, size_t letters)
{
    size_t n = strlen(begin);

    memcpy(out, begin, n);
    memset(out + n, 'a', letters);
    out[n + letters] = '\0';
}

static json_t *with_too_long_a_target(const struct operation *op)
{
    char query[TARGET_BYTES + 8];

    lengthen(query, "?q=", TARGET_BYTES);
    return call(op, "nobody", query, (struct client_request){0});
}

static json_t *with_too_large_a_head(const struct operation *op)
{
    char header[HEAD_BYTES + 16];
    const char *const headers[] = {header, NULL};

    lengthen(header, "X-Long: ", HEAD_BYTES);
    return call(op, "nobody", "", (struct client_request){.headers = headers});
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
    static const char body[] = "{\"id\":\"q9XSGrDtbWMT\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"1h\"}";

    (void)op;
    post_with("Idempotency-Key: gone", body);
    redis_fixture_run(w->redis, "DEL duepost{0}q9XSGrDtbWMT");
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

/* --- changes and batches --- */

static json_t *with_body(const struct operation *op, const char *id, const char *body)
{
    return call(op, id, "", (struct client_request){.body = body});
}

static json_t *changed(const struct operation *op)
{
    created(op);
    return with_body(op, "order-1042-close", "{\"delay\":\"1h\"}");
}

static json_t *run_early(const struct operation *op)
{
    post("{\"id\":\"early\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"1h\"}");
    return call(op, "early", "", (struct client_request){0});
}

static json_t *redriven(const struct operation *op)
{
    post("{\"id\":\"again\",\"url\":\"http://127.0.0.1:9/hook\",\"delay\":\"1h\"}");
    client_delete_task(w->api, "again");
    return call(op, "again", "", (struct client_request){0});
}

static json_t *redriven_too_early(const struct operation *op)
{
    created(op);
    return call(op, "order-1042-close", "", (struct client_request){0});
}

static json_t *changed_under_way(const struct operation *op)
{
    char body[256];

    SINK_SCRIPT(w->sink, "/changed", {.status = 200, .is_held = true});
    (void)snprintf(body, sizeof(body), "{\"id\":\"under-way\",\"url\":\"%s\"}", sink_url(w->sink, "/changed"));
    post(body);
    sink_wait(w->sink, "/changed", 1, ARRIVE_MS);
    return with_body(op, "under-way", "{\"payload\":1}"); /* released later, with all that is held */
}

static json_t *with_what_cannot_change(const struct operation *op)
{
    return with_body(op, "nobody", "{\"queue\":\"other\"}");
}

static json_t *with_nothing_to_change(const struct operation *op)
{
    return with_body(op, "nobody", "{}");
}

static json_t *with_one_wrong_task(const struct operation *op)
{
    return with_body(op, "",
                     "{\"tasks\":[{\"id\":\"reminder-1\",\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1d\"},{}]}");
}

static json_t *with_no_tasks(const struct operation *op)
{
    return with_body(op, "", "{\"tasks\":{}}");
}

static json_t *with_a_task_that_is_no_json(const struct operation *op)
{
    return with_body(op, "", "{\"tasks\":[{},{\"url\":tru}]}");
}

static json_t *with_a_key(const struct operation *op)
{
    static const char *const headers[] = {"Idempotency-Key: k", NULL};

    return call(op, "", "", (struct client_request){.body = "{\"tasks\":[]}", .headers = headers});
}

/* --- queues --- */

static const char SETTINGS[] = "{\"max_concurrency\":20,\"max_per_second\":50,\"timeout\":5000,"
                               "\"retry\":{\"max_attempts\":5,\"initial\":2000}}";

static void make_queue(const char *path)
{
    client_request(w->api, &(struct client_request){.method = "PUT", .path = path, .body = SETTINGS});
}

static json_t *of_a_queue(const struct operation *op)
{
    make_queue("/queues/orders");
    return call(op, "orders", "", (struct client_request){0});
}

static json_t *of_some_queues(const struct operation *op)
{
    make_queue("/queues/a");
    json_t *answer = call(op, "", "", (struct client_request){0});
    json_t *first = json_pack("[O]", json_at(answer, "queues.0"));
    json_object_set_new(answer, "queues", first);
    return answer;
}

static json_t *put_twice(const struct operation *op)
{
    make_queue("/queues/twice");
    return with_body(op, "twice", SETTINGS);
}

static json_t *put_once(const struct operation *op)
{
    return with_body(op, "once", SETTINGS);
}

static json_t *put_with_a_bad_name(const struct operation *op)
{
    return with_body(op, "Orders", SETTINGS);
}

static json_t *deleted_with_tasks(const struct operation *op)
{
    created(op);
    return call(op, "orders", "", (struct client_request){0});
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

static const struct way ways[] = {
    {"createTask", "scheduled", AS_IT_IS, ALIKE, created},
    {"createTask", "delivered", AS_IT_IS, ALIKE, created_again},
    {"createTask", "idConflict", AS_IT_IS, EXACT, created_otherwise},
    {"createTask", "keyConflict", AS_IT_IS, EXACT, created_otherwise_by_key},
    {"createTask", "gone", AS_IT_IS, EXACT, created_long_ago},
    {"createTask", "invalidHeader", AS_IT_IS, EXACT, with_no_key},
    {"getTask", "scheduled", AS_IT_IS, ALIKE, shown},
    {"cancelTask", "delivering", AS_IT_IS, ALIKE, deleted_under_way},
    {"cancelTask", "delivered", AS_IT_IS, EXACT, deleted_when_delivered},
    {"patchTask", "changed", AS_IT_IS, ALIKE, changed},
    {"patchTask", "underWay", AS_IT_IS, EXACT, changed_under_way},
    {"patchTask", "notToBeChanged", AS_IT_IS, EXACT, with_what_cannot_change},
    {"patchTask", "taskNotFound", AS_IT_IS, EXACT, with_nothing_to_change},
    {"patchTask", "storeUnavailable", WITHOUT_REDIS, ALIKE, with_nothing_to_change},
    {"runTask", "due", AS_IT_IS, ALIKE, run_early},
    {"runTask", "ended", AS_IT_IS, EXACT, deleted_when_delivered},
    {"redriveTask", "again", AS_IT_IS, ALIKE, redriven},
    {"redriveTask", "notEnded", AS_IT_IS, EXACT, redriven_too_early},
    {"createBatch", "oneIsWrong", AS_IT_IS, ALIKE, with_one_wrong_task},
    {"createBatch", "noBatch", AS_IT_IS, EXACT, with_no_tasks},
    {"createBatch", "invalidJson", AS_IT_IS, ALIKE, with_a_task_that_is_no_json},
    {"createBatch", "invalidHeader", AS_IT_IS, EXACT, with_a_key},
    {"createBatch", "bodyTooLarge", AS_IT_IS, EXACT, with_too_large_a_batch},
    {"createBatch", "storeUnavailable", UNREACHABLE, EXACT, NULL}, /* each task has it as its result */
    {"listQueues", "all", AS_IT_IS, ALIKE, of_some_queues},
    {"getQueue", "limited", AS_IT_IS, ALIKE, of_a_queue},
    {"putQueue", "made", AS_IT_IS, ALIKE, put_once},
    {"putQueue", "replaced", AS_IT_IS, ALIKE, put_twice},
    {"putQueue", "badName", AS_IT_IS, EXACT, put_with_a_bad_name},
    {"putQueue", "storeUnavailable", WITHOUT_REDIS, ALIKE, put_once},
    {"deleteQueue", "notEmpty", AS_IT_IS, EXACT, deleted_with_tasks},
    {"pauseQueue", "paused", AS_IT_IS, ALIKE, of_a_queue},
    {"resumeQueue", "resumed", AS_IT_IS, ALIKE, of_a_queue},
    {"purgeQueue", "purged", AS_IT_IS, ALIKE, of_a_queue},
    {"redriveQueue", "redriven", AS_IT_IS, ALIKE, of_a_queue},
    {"getDestinations", "oneIsDown", AS_IT_IS, ALIKE, plain},
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
    {NULL, "queueNotFound", AS_IT_IS, EXACT, plain},
    {NULL, "notFound", AS_IT_IS, EXACT, at_no_path},
    {NULL, "methodNotAllowed", AS_IT_IS, EXACT, with_another_method},
    {NULL, "bodyTooLarge", AS_IT_IS, EXACT, with_too_large_a_body},
    {NULL, "targetTooLong", AS_IT_IS, ALIKE, with_too_long_a_target},
    {NULL, "headTooLarge", AS_IT_IS, ALIKE, with_too_large_a_head},
    {NULL, "unsupportedMediaType", AS_IT_IS, EXACT, with_text},
    {NULL, "expectationFailed", AS_IT_IS, EXACT, with_expectation},
    {"getHealth", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {"getContract", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {"getStats", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {"getDestinations", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {"getMetrics", "storeUnavailable", UNREACHABLE, EXACT, NULL},
    {NULL, "storeUnavailable", WITHOUT_REDIS, ALIKE, valid},
    {NULL, "internal", UNREACHABLE, EXACT, NULL},
    {NULL, "tooManyConnections", UNREACHABLE, EXACT, NULL},
    {NULL, "outOfMemory", UNREACHABLE, EXACT, NULL},
    {NULL, "shuttingDown", UNREACHABLE, EXACT, NULL},
};

const struct way *ways_list(size_t *count)
{
    *count = sizeof(ways) / sizeof(ways[0]);
    return ways;
}
