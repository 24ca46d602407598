#include "store/callback_priv.h"
#include "store/record_priv.h"
#include "task/task_json.h"
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as a task's record. What is read stays within the bytes that were given, can be written again and read
 * again as the same, can be told in an answer and a callback, and is refused when something stands behind it. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_sizes(const struct task *t, size_t size)
{
    assert(t->state < TASK_STATE_COUNT && t->method < TASK_METHOD_COUNT);
    assert(strlen(t->queue) <= TASK_QUEUE_MAX && strlen(t->url) <= size && t->body_bytes <= size);
    assert(t->header_count <= 100 && t->retry.schedule_count <= 100 && t->history_count <= RECORD_ATTEMPTS_MAX);
    for (size_t i = 0; i < t->header_count; i++)
        assert(strlen(t->headers[i].name) + strlen(t->headers[i].value) <= size);
    for (size_t i = 0; i < t->history_count; i++)
        assert(!t->history[i].error || strlen(t->history[i].error) <= size);
    assert(!t->body || t->body[t->body_bytes] == '\0');
}

static void check_same(const struct task *t, const struct task *u)
{
    assert(strcmp(t->queue, u->queue) == 0 && strcmp(t->url, u->url) == 0 && t->state == u->state);
    assert(!t->on_success == !u->on_success && !t->on_failure == !u->on_failure && !t->traceparent == !u->traceparent);
    assert(t->has_expiry == u->has_expiry && t->has_digest == u->has_digest && t->when_ms == u->when_ms);
    assert(t->header_count == u->header_count && t->retry.schedule_count == u->retry.schedule_count);
    assert(u->history_count == t->history_count + (t->history_count < RECORD_ATTEMPTS_MAX));
    if (t->history_count == 0)
        return;
    const struct task_attempt *a = &t->history[t->history_count - 1], *b = &u->history[u->history_count - 1];

    assert(a->at_ms == b->at_ms && a->status == b->status && a->error_kind == b->error_kind);
    assert(a->lateness_us == b->lateness_us || a->lateness_us < 0);
}

/* As if one more attempt, like the last one, had ended. */
static void write_again(const unsigned char *data, const struct task *t)
{
    const struct task_attempt none = {.status = 200, .lateness_us = TASK_TIME_NONE, .phases = TASK_PHASES_NONE};
    struct buf out, history;
    struct task *again = NULL;

    buf_init(&out, (size_t)16 << 20);
    buf_init(&history, (size_t)16 << 20);
    record_write_attempts(&history, t, t->history_count > 0 ? &t->history[t->history_count - 1] : &none);
    size_t n = history.len + 6;

    assert(buf_status(&history) == ERR_OK);
    if (n <= UINT16_MAX) { /* errors are never that long outside of this test */
        buf_append(&out, data, RECORD_HEAD_BYTES - 2);
        buf_putc(&out, (char)(n >> 8));
        buf_putc(&out, (char)n);
        for (int shift = 40; shift >= 0; shift -= 8)
            buf_putc(&out, (char)(t->when_ms >> shift));
        buf_append(&out, history.data, history.len);
        record_write_spec(&out, t);
        enum err err = buf_status(&out) == ERR_OK ? record_read("id", out.data, out.len, &again) : ERR_NOMEM;

        assert(err == ERR_OK && record_kept_bytes(t) <= out.len);
        check_same(t, again);
    }
    task_destroy(&again);
    buf_deinit(&out);
    buf_deinit(&history);
}

static void check_json(const char *text, size_t n)
{
    json_t *json = json_loadb(text, n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);

    assert(json_is_object(json));
    json_decref(json);
}

/* A body stands in the answer as it is, but only in that of its own task. */
static void tell(struct task *t)
{
    struct buf out;

    t->body_kind = TASK_BODY_BYTES;
    buf_init(&out, (size_t)16 << 20);
    task_json_write(&out, t, TASK_JSON_FULL);
    assert(buf_status(&out) == ERR_OK);
    check_json(out.data, out.len);
    buf_deinit(&out);
    struct task *news = callback_create(t);

    if (news)
        check_json(news->body, news->body_bytes);
    task_destroy(&news);
}

/* Its beginning tells the same but the body. */
static void read_beginning(const unsigned char *data, size_t size, const struct task *t)
{
    struct task *beginning = NULL;
    size_t n = size < RECORD_BEGINNING_BYTES ? size : RECORD_BEGINNING_BYTES;
    enum err err = record_read_beginning("id", (const char *)data, n, &beginning);

    assert(n < size || err == ERR_OK);
    assert(!beginning || (!beginning->body && strcmp(beginning->url, t->url) == 0));
    task_destroy(&beginning);
}

/* Only a task whose body was dropped may go on behind its end. */
static void append_byte(const unsigned char *data, size_t size, bool has_body)
{
    char *longer = malloc(size + 1);
    struct task *t = NULL;

    assert(longer);
    memcpy(longer, data, size);
    longer[size] = 0x7f;
    enum err err = record_read("id", longer, size + 1, &t);
    assert(err == ERR_INVALID || !has_body);
    task_destroy(&t);
    free(longer);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct task *t = NULL;
    enum err err = record_read("id", (const char *)data, size, &t);

    assert(err == ERR_OK ? t != NULL : err == ERR_INVALID && !t);
    if (!t)
        return 0;
    check_sizes(t, size);
    write_again(data, t);
    read_beginning(data, size, t);
    append_byte(data, size, t->body != NULL);
    tell(t);
    task_destroy(&t);
    return 0;
}
