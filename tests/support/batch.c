#include "batch.h"
#include "json_expect.h"
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES 1000

void text_put(struct text *t, const char *format, ...)
{
    va_list args;

    if (t->capacity - t->n < 2 * PIECE_BYTES) {
        t->capacity = t->capacity * 2 + 4 * PIECE_BYTES;
        t->s = realloc(t->s, t->capacity);
        cr_assert_not_null(t->s);
    }
    va_start(args, format);
    t->n += (size_t)vsnprintf(t->s + t->n, t->capacity - t->n, format, args);
    va_end(args);
}

char *batch_of(size_t count, size_t payload_bytes)
{
    struct text body = {0};
    char fill[PIECE_BYTES];

    memset(fill, 'x', sizeof(fill));
    text_put(&body, "{\"tasks\":[");
    for (size_t i = 0; i < count; i++) {
        text_put(&body, "%s{\"url\":\"http://127.0.0.1:9/\",\"delay\":\"1h\",\"body\":\"", i > 0 ? "," : "");
        for (size_t left = payload_bytes, n = 0; left > 0; left -= n) {
            n = left < PIECE_BYTES ? left : PIECE_BYTES;
            text_put(&body, "%.*s", (int)n, fill);
        }
        text_put(&body, "\"}");
    }
    text_put(&body, "]}");
    return body.s;
}

struct reply *batch_post(struct client *api, const char *body)
{
    return client_post(api, "/tasks/batch", body);
}

json_t *batch_results(struct client *api, const char *body, size_t count)
{
    const struct reply *r = batch_post(api, body);

    cr_assert_eq(r->status, 200, "%d %s", r->status, r->body);
    json_t *results = json_at(r->json, "results");
    cr_assert_eq(json_array_size(results), count, "%s", r->body);
    return results;
}

json_int_t batch_status(json_t *results, size_t i)
{
    return json_integer_at(json_array_get(results, i), "status");
}
