#include "task/task_json.h"
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as the body of POST /tasks/batch. Its frame is read by hand and its values by jansson, one by one: together
 * they must take the same bytes for JSON, and find the same tasks in them, as jansson does on its own. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define ANY_JSON (JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)

static void check_item(const struct task_json_item *item, const json_t *want)
{
    struct task_json_opts opts = {0};
    struct faults faults;
    struct task *t = NULL;
    json_t *value = json_loadb(item->json, item->bytes, ANY_JSON, NULL);

    assert(value && json_equal(value, want));
    json_decref(value);
    faults_init(&faults);
    enum err err = task_json_parse_item(item, &opts, &faults, &t);
    assert((err == ERR_OK) == (t != NULL) && (err == ERR_OK) == (faults.count == 0));
    assert(!t || t->has_digest == (t->id != NULL));
    task_destroy(&t);
    faults_deinit(&faults);
}

static void check_found(const json_t *tree, const struct task_json_item *items, size_t count)
{
    const json_t *tasks = json_object_get(tree, "tasks");

    assert(json_is_array(tasks) && json_array_size(tasks) == count && json_object_size(tree) == 1);
    for (size_t i = 0; i < count; i++)
        check_item(&items[i], json_array_get(tasks, i));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct task_json_item *items = calloc(TASK_JSON_BATCH_MAX, sizeof(*items));
    const char *json = (const char *)data;
    json_error_t error;
    json_t *tree = json_loadb(size > 0 ? json : "", size, ANY_JSON, &error);
    bool is_too_deep = !tree && json_error_code(&error) == json_error_stack_overflow;
    struct faults faults;
    size_t count = 0;

    assert(items);
    faults_init(&faults);
    enum err err = task_json_parse_batch(json, size, SIZE_MAX, &faults, items, &count);
    assert((err == ERR_OK) == (faults.count == 0));
    /* What follows the thousandth task is not looked at. */
    if (!is_too_deep && count < TASK_JSON_BATCH_MAX)
        assert(tree ? err != ERR_INVALID_JSON : err != ERR_OK);
    if (err == ERR_OK && tree)
        check_found(tree, items, count);
    json_decref(tree);
    faults_deinit(&faults);
    free(items);
    return 0;
}
