#include "task/task_patch.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define ALL_GIVEN (~0u)

void task_patch_init(struct task_patch *p)
{
    memset(p, 0, sizeof(*p));
    p->values = task_create();
}

void task_patch_deinit(struct task_patch *p)
{
    task_destroy(&p->values);
}

static void replace_text(char **old, const char *text)
{
    if (!text)
        return;
    free(*old);
    *old = xstrdup(text);
}

static void replace_headers(struct task *t, const struct task *values)
{
    for (size_t i = 0; i < t->header_count; i++) {
        free(t->headers[i].name);
        free(t->headers[i].value);
    }
    free(t->headers);
    t->headers = values->header_count > 0 ? xcalloc(values->header_count, sizeof(*t->headers)) : NULL;
    t->header_count = values->header_count;
    for (size_t i = 0; i < values->header_count; i++) {
        t->headers[i].name = xstrdup(values->headers[i].name);
        t->headers[i].value = xstrdup(values->headers[i].value);
    }
}

static void replace_body(struct task *t, const struct task *values)
{
    free(t->body);
    t->body = xstrndup(values->body, values->body_bytes);
    t->body_bytes = values->body_bytes;
    t->body_kind = values->body_kind;
}

static void replace_retry(struct task_retry *retry, const struct task_retry *values)
{
    int64_t *schedule_ms = NULL;

    if (values->schedule_count > 0) {
        schedule_ms = xcalloc(values->schedule_count, sizeof(*schedule_ms));
        memcpy(schedule_ms, values->schedule_ms, values->schedule_count * sizeof(*schedule_ms));
    }
    free(retry->schedule_ms);
    *retry = *values;
    retry->schedule_ms = schedule_ms;
}

void task_apply_patch(struct task *t, const struct task_patch *p)
{
    const struct task *values = p->values;

    replace_text(&t->url, values->url);
    replace_text(&t->on_success, values->on_success);
    replace_text(&t->on_failure, values->on_failure);
    if (p->has_method)
        t->method = values->method;
    if (p->has_headers)
        replace_headers(t, values);
    if (p->has_body)
        replace_body(t, values);
    if (p->has_timeout)
        t->timeout_ms = values->timeout_ms;
    t->is_timeout_given = true;
    t->retry.given = ALL_GIVEN;
    if (p->has_retry)
        replace_retry(&t->retry, &values->retry);
    if (values->has_expiry) {
        t->has_expiry = true;
        t->is_expiry_relative = values->is_expiry_relative;
        t->expires_ms = values->expires_ms;
    }
    if (p->has_due) {
        t->is_due_absolute = values->is_due_absolute;
        t->due_ms = values->due_ms;
    }
}
