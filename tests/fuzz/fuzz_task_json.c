#include "task/task_json.h"
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as the body of POST /tasks. What is accepted must be JSON, must have its payload's bytes in it, and must
 * give an answer that is JSON again; what is refused must have faults that are JSON strings. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define ANY_JSON (JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)

static void check_faults(const struct faults *faults)
{
    assert(faults->count > 0 && faults->count <= FAULTS_MAX);
    for (size_t i = 0; i < faults->count; i++) {
        json_t *pointer = json_string(faults->items[i].pointer);
        json_t *detail = json_string(faults->items[i].detail);

        assert(pointer && detail);
        assert(faults->items[i].pointer[0] == '\0' || faults->items[i].pointer[0] == '/');
        json_decref(pointer);
        json_decref(detail);
    }
}

static void check_task(struct task *t, const char *json, size_t n)
{
    struct buf out;

    assert(t->url && t->queue);
    assert(t->has_digest == (t->id != NULL));
    if (t->body_kind == TASK_BODY_PAYLOAD) {
        json_t *payload = json_loadb(t->body, t->body_bytes, ANY_JSON, NULL);

        assert(payload && memmem(json, n, t->body, t->body_bytes));
        json_decref(payload);
    }
    if (!t->id)
        t->id = strdup("generated");
    buf_init(&out, 16 * n + 4096);
    task_json_write(&out, t, TASK_JSON_FULL);
    assert(buf_status(&out) == ERR_OK);
    json_t *answer = json_loadb(out.data, out.len, ANY_JSON, NULL);

    assert(json_is_object(answer));
    json_decref(answer);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    const char *json = (const char *)data;
    struct task_json_opts opts = {0};
    struct faults faults;
    struct task *t = NULL;

    faults_init(&faults);
    enum err err = task_json_parse(json, size, &opts, &faults, &t);

    assert((err == ERR_OK) == (t != NULL));
    if (t)
        check_task(t, json, size);
    else
        check_faults(&faults);
    task_destroy(&t);
    faults_deinit(&faults);
    return 0;
}
