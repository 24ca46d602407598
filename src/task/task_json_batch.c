#include "task/member_priv.h"
#include "task/scan_priv.h"
#include "task/syntax_priv.h"
#include "task/task_json.h"
#include "task/task_json_priv.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reading the body of POST /tasks/batch, {"tasks": [task, task, ...]}.
 *
 * jansson needs many times the memory of the text that it checks, and a batch may be as large as sixteen bodies. So it
 * gets one value after the other, and the brackets, names and commas around them, which are few, are read here; every
 * byte is looked at by one of the two, so what passes is JSON. A task that is larger than a task may be is not looked
 * into. Then task by task is read where it stands, as if it had come alone. */

struct walk {
    const char *begin;
    const char *pos;
    const char *end;
    size_t max_bytes; /* a larger value is not looked into: whatever it is, it is refused */
    struct faults *faults;
    enum err err;
};

static char peek(struct walk *w)
{
    while (w->pos < w->end && strchr(" \t\r\n", *w->pos) && *w->pos != '\0')
        w->pos++;
    if (w->pos == w->end)
        return '\0';
    return *w->pos;
}

/* What is no JSON is that and nothing else: faults found before are not told. */
static void forget_faults(struct walk *w)
{
    faults_deinit(w->faults);
    faults_init(w->faults);
}

static void fail(struct walk *w, const char *expected)
{
    if (w->err != ERR_OK)
        return;
    forget_faults(w);
    faults_add(w->faults, "", "%s is expected at byte %td", expected, w->pos - w->begin + 1);
    w->err = ERR_INVALID_JSON;
}

static bool take(struct walk *w, char c)
{
    if (peek(w) != c)
        return false;
    w->pos++;
    return true;
}

/* The value that comes next; whether it is JSON is not known yet. */
static bool take_value(struct walk *w, struct scan_value *out)
{
    if (peek(w) == '\0' || !scan_root(w->pos, (size_t)(w->end - w->pos), out)) {
        fail(w, "a value");
        return false;
    }
    w->pos = out->raw + out->bytes;
    return true;
}

/* Whether a value is JSON: ERR_OK, ERR_TOO_BIG (not known), ERR_INVALID (nests too deep); else the walk fails. */
static enum err check(struct walk *w, const struct scan_value *value, const char *pointer)
{
    struct faults faults;
    enum err err = ERR_OK;

    if (value->bytes > w->max_bytes)
        return ERR_TOO_BIG;
    faults_init(&faults);
    err = syntax_check(value->raw, value->bytes, &faults);
    if (err != ERR_OK && err != ERR_INVALID)
        w->err = err;
    if (err == ERR_INVALID_JSON) {
        forget_faults(w);
        faults_add(w->faults, pointer, "%s", faults.items[0].detail);
    }
    faults_deinit(&faults);
    return err;
}

static void read_item(struct walk *w, size_t index, struct task_json_item *item)
{
    char pointer[MEMBER_POINTER_SIZE];
    struct scan_value value;

    if (!take_value(w, &value))
        return;
    (void)snprintf(pointer, sizeof(pointer), "/tasks/%zu", index);
    item->json = value.raw;
    item->bytes = value.bytes;
    item->err = check(w, &value, pointer);
}

static void read_items(struct walk *w, struct task_json_item *items, size_t *count)
{
    *count = 0;
    if (!take(w, '[')) {
        struct scan_value value;

        if (take_value(w, &value) && check(w, &value, "/tasks") != ERR_INVALID_JSON)
            faults_add(w->faults, "/tasks", "must be an array of tasks");
        return;
    }
    if (take(w, ']'))
        return;
    do {
        if (*count == TASK_JSON_BATCH_MAX) {
            faults_add(w->faults, "/tasks", "must hold at most %d tasks", TASK_JSON_BATCH_MAX);
            w->err = ERR_INVALID; /* what follows is not looked at */
            return;
        }
        read_item(w, *count, &items[*count]);
        (*count)++;
    } while (w->err == ERR_OK && take(w, ','));
    if (w->err == ERR_OK && !take(w, ']'))
        fail(w, "a comma or the end of the tasks");
}

/* Take a name and its colon; true when it is "tasks". Another one is a fault. */
static bool take_name(struct walk *w)
{
    static const char tasks[] = "tasks";
    char pointer[MEMBER_POINTER_SIZE];
    struct scan_value name;
    struct buf scratch;
    const char *s = NULL;
    size_t n = 0;
    bool is_tasks = false;

    if (peek(w) != '"' || !take_value(w, &name)) {
        fail(w, "a name");
        return false;
    }
    (void)check(w, &name, "");
    if (w->err != ERR_OK)
        return false;
    buf_init(&scratch, name.bytes);
    if (scan_string(&name, &scratch, &s, &n) != ERR_OK) {
        w->err = ERR_NOMEM;
    } else {
        is_tasks = n == sizeof(tasks) - 1 && memcmp(s, tasks, n) == 0;
        if (!is_tasks)
            faults_add(w->faults, fault_pointer(pointer, sizeof(pointer), "", s, n), "is not a member of a batch");
    }
    buf_deinit(&scratch);
    if (w->err == ERR_OK && !take(w, ':'))
        fail(w, "a colon");
    return is_tasks;
}

static void read_members(struct walk *w, struct task_json_item *items, size_t *count)
{
    struct scan_value value;
    bool is_found = false;

    do {
        bool is_tasks = take_name(w);

        if (w->err != ERR_OK)
            return;
        if (is_tasks && !is_found)
            read_items(w, items, count);
        else if (take_value(w, &value))
            (void)check(w, &value, "");
        if (is_tasks && is_found)
            faults_add(w->faults, "/tasks", "is given more than once");
        is_found = is_found || is_tasks;
    } while (w->err == ERR_OK && take(w, ','));
    if (w->err == ERR_OK && !take(w, '}'))
        fail(w, "a comma or the end of the body");
    if (w->err == ERR_OK && !is_found)
        faults_add(w->faults, "/tasks", "is required");
}

enum err task_json_parse_batch(const char *json, size_t n, size_t item_max_bytes, struct faults *faults,
                               struct task_json_item *items, size_t *count)
{
    struct walk w = {.begin = json, .pos = json, .end = json + n, .max_bytes = item_max_bytes, .faults = faults};
    struct scan_value value;

    *count = 0;
    if (!take(&w, '{')) {
        if (take_value(&w, &value) && check(&w, &value, "") != ERR_INVALID_JSON)
            faults_add(faults, "", "must be a JSON object");
    } else if (take(&w, '}')) {
        faults_add(faults, "/tasks", "is required");
    } else {
        read_members(&w, items, count);
    }
    if (w.err == ERR_OK && (peek(&w) != '\0' || w.pos < w.end))
        fail(&w, "the end of the body");
    if (w.err != ERR_OK)
        return w.err;
    return faults->count > 0 ? ERR_INVALID : ERR_OK;
}

enum err task_json_parse_item(const struct task_json_item *item, const struct task_json_opts *opts,
                              struct faults *faults, struct task **out)
{
    struct scan_value value;
    enum err err = item->err;

    *out = NULL;
    if (err == ERR_INVALID)
        faults_add(faults, "", "must not nest more than %d levels", SYNTAX_NESTING_MAX);
    if (err != ERR_OK)
        return err;
    if (!scan_root(item->json, item->bytes, &value))
        return ERR_INTERNAL;
    err = task_json_read(&value, opts, faults, out);
    if (err == ERR_OK)
        task_json_digest(*out, item->json, item->bytes);
    return err;
}
