#include "crowd.h"
#include "base/buf.h"
#include "base/mem.h"
#include "json_expect.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1000
#define ARRIVE_MS 20000

static void put_task(struct buf *body, const struct crowd *c, int i)
{
    buf_printf(body, "{\"id\":\"%s-%d\",\"queue\":\"%s\",\"url\":\"%s/%s-%d\"%s", c->queue, c->from + i, c->queue,
               c->url, c->queue, c->from + i, c->more ? c->more : "");
    if (c->run_at_ms > 0)
        buf_printf(body, ",\"run_at\":%lld", (long long)(c->run_at_ms + (int64_t)(i * c->step_ms)));
    buf_putc(body, '}');
}

static void create_batch(struct client *api, const struct crowd *c, int from, int to)
{
    struct buf body;

    buf_init(&body, (size_t)16 << 20);
    buf_puts(&body, "{\"tasks\":[");
    for (int i = from; i < to; i++) {
        if (i > from)
            buf_putc(&body, ',');
        put_task(&body, c, i);
    }
    buf_puts(&body, "]}");
    const struct reply *r = client_post(api, "/tasks/batch", body.data);
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    for (size_t i = 0; i < json_array_size(json_at(r->json, "results")); i++) {
        json_t *result = json_array_get(json_at(r->json, "results"), i);
        cr_assert_eq(json_integer_at(result, "status"), 201, "task %zu of a batch", i);
    }
    buf_deinit(&body);
}

void crowd_create(struct client *api, const struct crowd *crowd)
{
    for (int from = 0; from < crowd->count; from += BATCH)
        create_batch(api, crowd, from, crowd->count - from < BATCH ? crowd->count : from + BATCH);
}

void crowd_put(struct client *api, const char *queue, const char *body)
{
    char path[96];
    char *json = xstrdup(body);

    for (char *c = json; *c; c++)
        if (*c == '\'')
            *c = '"';
    (void)snprintf(path, sizeof(path), "/queues/%s", queue);
    const struct reply *r = client_request(api, &(struct client_request){.method = "PUT", .path = path, .body = json});
    cr_assert(r->status == 200 || r->status == 201, "%d %s", r->status, r->body);
    free(json);
}

json_t *crowd_do(struct client *api, const char *queue, const char *action)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "/queues/%s/%s", queue, action);
    const struct reply *r = client_post(api, path, NULL);
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    return r->json;
}

json_t *crowd_queue(struct client *api, const char *queue)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "/queues/%s", queue);
    const struct reply *r = client_get(api, path);
    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    return r->json;
}

void crowd_post(struct world *w, const char *id, const char *queue, const char *more)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "/%s", id);
    const struct reply *r = client_post_task(w->api, "{\"id\":\"%s\",\"queue\":\"%s\",\"url\":\"%s\"%s}", id, queue,
                                             sink_url(w->sink, path), more);
    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

void crowd_post_held(struct world *w, const char *id, const char *queue)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "/%s", id);
    SINK_SCRIPT(w->sink, path, {.status = 200, .is_held = true});
    crowd_post(w, id, queue, "");
    (void)sink_wait(w->sink, path, 1, ARRIVE_MS);
}
