#include "store/record_priv.h"
#include "task/queue_settings.h"
#include "task/task_json.h"
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as the body of PATCH /tasks/{id}. What is accepted changes a task into one that could have been created:
 * its record can be read again and gives an answer that is JSON. The same patch again changes nothing more. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define ANY_JSON (JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)

static struct task *old_task(void)
{
    static const char json[] =
        "{\"id\":\"a\",\"url\":\"https://example.com/\",\"payload\":{\"a\":1},\"headers\":{\"X-A\":\"1\"},"
        "\"retry\":{\"schedule\":[1,2]},\"expires_in\":\"1h\",\"on_success\":\"https://example.com/s\"}";
    struct task_json_opts opts = {0};
    struct faults faults;
    struct task *t = NULL;

    faults_init(&faults);
    enum err err = task_json_parse(json, sizeof(json) - 1, &opts, &faults, &t);

    assert(err == ERR_OK);
    faults_deinit(&faults);
    return t;
}

static void write_spec(struct buf *out, struct task *t)
{
    queue_settings_apply(NULL, t);
    record_write_spec(out, t);
    assert(buf_status(out) == ERR_OK);
}

/* As create.lua would store it, with an expiry that is a time. */
static void check_record(struct task *t)
{
    static const char head[RECORD_HEAD_BYTES] = {16};
    struct task *again = NULL;
    struct buf record, answer;

    t->is_expiry_relative = false;
    buf_init(&record, SIZE_MAX / 2);
    buf_init(&answer, SIZE_MAX / 2);
    buf_append(&record, head, sizeof(head));
    write_spec(&record, t);
    enum err err = record_read("a", record.data, record.len, &again);

    assert(err == ERR_OK && strcmp(again->url, t->url) == 0 && again->method == t->method);
    assert(again->body_kind == t->body_kind && again->body_bytes == t->body_bytes);
    assert(again->header_count == t->header_count && again->retry.max_attempts == t->retry.max_attempts);
    task_json_write(&answer, again, TASK_JSON_FULL);
    json_t *json = json_loadb(answer.data, answer.len, ANY_JSON, NULL);

    assert(json_is_object(json));
    json_decref(json);
    task_destroy(&again);
    buf_deinit(&record);
    buf_deinit(&answer);
}

static void check_patch(const struct task_patch *p)
{
    struct task *t = old_task();
    struct buf once, twice;

    buf_init(&once, SIZE_MAX / 2);
    buf_init(&twice, SIZE_MAX / 2);
    task_apply_patch(t, p);
    write_spec(&once, t);
    task_apply_patch(t, p);
    write_spec(&twice, t);
    assert(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    assert(t->retry.initial_ms >= 1 && t->retry.max_ms >= t->retry.initial_ms && t->retry.max_attempts >= 1);
    check_record(t);
    buf_deinit(&once);
    buf_deinit(&twice);
    task_destroy(&t);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct task_json_opts opts = {0};
    struct task_patch patch;
    struct faults faults;

    faults_init(&faults);
    enum err err = task_json_parse_patch(size > 0 ? (const char *)data : "", size, &opts, &faults, &patch);

    assert((err == ERR_OK) == (faults.count == 0));
    if (err == ERR_OK)
        check_patch(&patch);
    task_patch_deinit(&patch);
    faults_deinit(&faults);
    return 0;
}
