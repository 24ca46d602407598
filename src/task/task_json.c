#include "task/task_json.h"

#include "base/mem.h"
#include "base/parse.h"
#include "task/headers_priv.h"
#include "task/member_priv.h"
#include "task/retry_priv.h"
#include "task/scan_priv.h"
#include "task/signature.h"
#include "task/target.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Reading the body of POST /tasks, in two passes.
 *
 * First jansson decides whether the bytes are JSON at all: syntax, UTF-8, surrogates, numbers. Its tree is thrown
 * away, since it would have lost what we promise to keep (the digits of numbers, escapes, blanks in the payload) and
 * what we must see (duplicates, fractions in integers). Then the scanner walks the members in the text and each is
 * read by one row of the table below. Nothing stops at the first fault: a client learns all of them at once.
 *
 * A row reads one member only. What concerns several (required, excluding each other) is checked at the end from the
 * set of those given. Faults make the half-read task go away, so readers may leave it in any state. */

#define NESTING_MAX 1000 /* levels in the whole body */
#define TIMEOUT_MIN_MS 100
#define TIMEOUT_MAX_MS 1800000 /* 30 min */

enum task_member {
    MEMBER_URL = 0,
    MEMBER_DELAY,
    MEMBER_RUN_AT,
    MEMBER_ID,
    MEMBER_QUEUE,
    MEMBER_METHOD,
    MEMBER_HEADERS,
    MEMBER_PAYLOAD,
    MEMBER_BODY,
    MEMBER_BODY_BASE64,
    MEMBER_TIMEOUT,
    MEMBER_RETRY,
    MEMBER_DURABILITY,
    MEMBER_COUNT /* number of members, not one of them */
};

struct reader {
    struct member_ctx ctx;
    const struct task_json_opts *opts;
    struct task *task;
    unsigned given; /* bit i: the member of row i was given */
};

static void read_url(struct reader *r, const struct member *m)
{
    static const struct cidr_list nothing_allowed = {0};
    char detail[TARGET_DETAIL_SIZE];
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return;
    const struct cidr_list *allow_net = r->opts->allow_net ? r->opts->allow_net : &nothing_allowed;

    if (!target_check(s, n, allow_net, &r->task->url, detail))
        faults_add(r->ctx.faults, m->pointer, "%s", detail);
}

static void read_delay(struct reader *r, const struct member *m)
{
    r->task->is_due_absolute = false;
    (void)member_duration(m, 0, PARSE_MAX_DELAY_MS, &r->task->due_ms);
}

static void read_run_at(struct reader *r, const struct member *m)
{
    r->task->is_due_absolute = true;
    (void)member_time(m, &r->task->due_ms);
}

static void read_id(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return;
    if (task_id_is_valid(s, n))
        r->task->id = xstrndup(s, n);
    else
        faults_add(r->ctx.faults, m->pointer,
                   "must be 1 to %d letters, digits or one of . _ : -, and begin with a letter or digit", TASK_ID_MAX);
}

static void read_queue(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return;
    if (!task_queue_is_valid(s, n)) {
        faults_add(r->ctx.faults, m->pointer,
                   "must be 1 to %d lower-case letters, digits or one of . _ -, and begin with a letter or digit",
                   TASK_QUEUE_MAX);
        return;
    }
    free(r->task->queue);
    r->task->queue = xstrndup(s, n);
}

static void read_method(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (member_string(m, &s, &n) && !task_method_from_name(s, n, &r->task->method))
        faults_add(r->ctx.faults, m->pointer, "must be GET, POST, PUT, PATCH or DELETE");
}

static void read_headers(struct reader *r, const struct member *m)
{
    headers_read(m, r->task);
}

/* Take a copy as the task's body. With two body members the task has a fault anyway, but the first copy must not leak.
 */
static void set_body(struct reader *r, enum task_body_kind kind, const char *s, size_t n)
{
    free(r->task->body);
    r->task->body = member_copy(&r->ctx, s, n);
    r->task->body_bytes = r->task->body ? n : 0;
    r->task->body_kind = kind;
}

static void read_payload(struct reader *r, const struct member *m)
{
    set_body(r, TASK_BODY_PAYLOAD, m->value.raw, m->value.bytes);
}

static void read_body(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (member_string(m, &s, &n))
        set_body(r, TASK_BODY_TEXT, s, n);
}

static void read_body_base64(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;
    size_t decoded_bytes = 0;

    if (!member_string(m, &s, &n))
        return;
    if (!parse_base64(s, n, NULL, &decoded_bytes)) {
        faults_add(r->ctx.faults, m->pointer, "must be standard base64 with padding");
        return;
    }
    set_body(r, TASK_BODY_BYTES, s, n); /* room enough: decoded bytes are fewer */
    if (r->task->body && parse_base64(s, n, (unsigned char *)r->task->body, &decoded_bytes)) {
        r->task->body[decoded_bytes] = '\0';
        r->task->body_bytes = decoded_bytes;
    }
}

static void read_timeout(struct reader *r, const struct member *m)
{
    (void)member_duration(m, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS, &r->task->timeout_ms);
}

static void read_retry(struct reader *r, const struct member *m)
{
    retry_read(m, &r->task->retry);
}

static void read_durability(struct reader *r, const struct member *m)
{
    const char *s = NULL;
    size_t n = 0;

    if (member_string(m, &s, &n) && !task_durability_from_name(s, n, &r->task->durability))
        faults_add(r->ctx.faults, m->pointer, "must be memory, fsync or replica");
}

static const struct {
    const char *name;
    void (*read)(struct reader *r, const struct member *m);
} members[MEMBER_COUNT] = {
    [MEMBER_URL] = {"url", read_url},
    [MEMBER_DELAY] = {"delay", read_delay},
    [MEMBER_RUN_AT] = {"run_at", read_run_at},
    [MEMBER_ID] = {"id", read_id},
    [MEMBER_QUEUE] = {"queue", read_queue},
    [MEMBER_METHOD] = {"method", read_method},
    [MEMBER_HEADERS] = {"headers", read_headers},
    [MEMBER_PAYLOAD] = {"payload", read_payload},
    [MEMBER_BODY] = {"body", read_body},
    [MEMBER_BODY_BASE64] = {"body_base64", read_body_base64},
    [MEMBER_TIMEOUT] = {"timeout", read_timeout},
    [MEMBER_RETRY] = {"retry", read_retry},
    [MEMBER_DURABILITY] = {"durability", read_durability},
};

static bool is_given(const struct reader *r, enum task_member which)
{
    return r->given & 1u << which;
}

static size_t find_member(const char *name, size_t n)
{
    size_t i = 0;

    while (i < MEMBER_COUNT && !(strlen(members[i].name) == n && memcmp(members[i].name, name, n) == 0))
        i++;
    return i;
}

static void read_member(struct reader *r, const struct scan_value *name, const struct scan_value *value)
{
    char pointer[MEMBER_POINTER_SIZE];
    struct member m = {.ctx = &r->ctx, .pointer = pointer, .value = *value};
    const char *s = NULL;
    size_t n = 0;

    if (scan_string(name, r->ctx.scratch, &s, &n) != ERR_OK) {
        r->ctx.err = ERR_NOMEM;
        return;
    }
    size_t which = find_member(s, n);

    (void)fault_pointer(pointer, sizeof(pointer), "", s, n);
    if (which == MEMBER_COUNT) {
        faults_add(r->ctx.faults, pointer, "is not a member of a task");
        return;
    }
    if (is_given(r, (enum task_member)which)) {
        faults_add(r->ctx.faults, pointer, "is given more than once");
        return;
    }
    r->given |= 1u << which;
    if (value->depth + 1 > NESTING_MAX) /* the body's own braces are the first level */
        faults_add(r->ctx.faults, pointer, "must not make the body nest more than %d levels", NESTING_MAX);
    else
        members[which].read(r, &m);
}

/* A fault at each of these when more than one was given. */
static void check_exclusive(struct reader *r, const enum task_member *set, size_t count, const char *detail)
{
    size_t given_count = 0;

    for (size_t i = 0; i < count; i++)
        given_count += is_given(r, set[i]);
    for (size_t i = 0; i < count && given_count > 1; i++) {
        char pointer[MEMBER_POINTER_SIZE];
        const char *name = members[set[i]].name;

        if (is_given(r, set[i]))
            faults_add(r->ctx.faults, fault_pointer(pointer, sizeof(pointer), "", name, strlen(name)), "%s", detail);
    }
}

static void check_together(struct reader *r)
{
    static const enum task_member times[] = {MEMBER_DELAY, MEMBER_RUN_AT};
    static const enum task_member bodies[] = {MEMBER_PAYLOAD, MEMBER_BODY, MEMBER_BODY_BASE64};

    if (!is_given(r, MEMBER_URL))
        faults_add(r->ctx.faults, "/url", "is required");
    check_exclusive(r, times, 2, "only one of delay and run_at can be given");
    check_exclusive(r, bodies, 3, "only one of payload, body and body_base64 can be given");
}

/* jansson reports most failed allocations as wrong syntax, so they are noted here. Its hooks have no context argument;
 * a request is parsed by one thread, which makes the note the thread's. */
static _Thread_local bool is_memory_out;

static void *noting_malloc(size_t n)
{
    void *p = malloc(n);

    if (!p)
        is_memory_out = true;
    return p;
}

void task_json_global_init(void)
{
    json_set_alloc_funcs(noting_malloc, free);
    json_object_seed(0);
}

/* Whether the bytes are JSON, by jansson's judgement. */
static enum err validate(const char *json, size_t n, struct faults *faults)
{
    /* Integers are read as doubles so that any number of digits passes; the scanner keeps the digits themselves. */
    size_t flags = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    json_error_t error;

    is_memory_out = false;
    json_t *tree = json_loadb(n > 0 ? json : "", n, flags, &error);

    if (tree) {
        json_decref(tree);
        return ERR_OK;
    }
    if (is_memory_out || json_error_code(&error) == json_error_out_of_memory)
        return ERR_NOMEM;
    if (json_error_code(&error) == json_error_stack_overflow) {
        faults_add(faults, "", "must not nest more than %d levels", NESTING_MAX);
        return ERR_INVALID;
    }
    faults_add(faults, "", "%s (line %d, column %d)", error.text, error.line, error.column);
    return ERR_INVALID_JSON;
}

enum err task_json_parse(const char *json, size_t n, const struct task_json_opts *opts, struct faults *faults,
                         struct task **out)
{
    struct buf scratch;
    struct reader r = {.ctx = {.faults = faults, .scratch = &scratch, .err = ERR_OK}, .opts = opts};
    struct scan_value body, name, value;
    struct scan scan;

    *out = NULL;
    buf_init(&scratch, n);
    enum err err = validate(json, n, faults);

    if (err != ERR_OK)
        goto out;
    err = ERR_INVALID;
    if (!scan_root(json, n, &body) || body.kind != SCAN_OBJECT) {
        faults_add(faults, "", "must be a JSON object");
        goto out;
    }
    r.task = task_create();
    r.task->durability = opts->durability;
    scan_begin(&scan, &body);
    while (r.ctx.err == ERR_OK && scan_next_member(&scan, &name, &value))
        read_member(&r, &name, &value);
    check_together(&r);
    if (r.ctx.err != ERR_OK || faults->count > 0) {
        err = r.ctx.err != ERR_OK ? r.ctx.err : ERR_INVALID;
        goto out;
    }
    if (is_given(&r, MEMBER_ID)) {
        r.task->has_digest = true;
        signature_digest(json, n, r.task->digest);
    }
    *out = r.task;
    r.task = NULL;
    err = ERR_OK;
out:
    task_destroy(&r.task);
    buf_deinit(&scratch);
    return err;
}
