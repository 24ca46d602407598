#include "store/record_priv.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as a task's record. What is read stays within the bytes that were given, can be written again, and is
 * refused when something stands behind it. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_sizes(const struct task *t, size_t size)
{
    assert(t->state < TASK_STATE_COUNT && t->method < TASK_METHOD_COUNT);
    assert(strlen(t->queue) <= 255 && strlen(t->url) <= size && t->body_bytes <= size);
    assert(t->header_count <= 100 && t->retry.schedule_count <= 100 && t->history_count <= size);
    for (size_t i = 0; i < t->header_count; i++)
        assert(strlen(t->headers[i].name) + strlen(t->headers[i].value) <= size);
    for (size_t i = 0; i < t->history_count; i++)
        assert(!t->history[i].error || strlen(t->history[i].error) <= size);
    assert(!t->body || t->body[t->body_bytes] == '\0');
}

static void write_again(const struct task *t)
{
    struct buf out;

    buf_init(&out, (size_t)16 << 20);
    record_write_spec(&out, t);
    assert(buf_status(&out) == ERR_OK && record_kept_bytes(t) <= out.len);
    for (size_t i = 0; i < t->history_count; i++)
        record_write_attempts(&out, t, &t->history[i]);
    assert(buf_status(&out) == ERR_OK);
    buf_deinit(&out);
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
    write_again(t);
    append_byte(data, size, t->body != NULL);
    task_destroy(&t);
    return 0;
}
