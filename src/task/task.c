#include "task/task.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static const char *const state_names[TASK_STATE_COUNT] = {
    [TASK_SCHEDULED] = "scheduled", [TASK_READY] = "ready", [TASK_DELIVERING] = "delivering",
    [TASK_DELIVERED] = "delivered", [TASK_DEAD] = "dead",   [TASK_CANCELLED] = "cancelled",
    [TASK_EXPIRED] = "expired",
};

static const char *const method_names[TASK_METHOD_COUNT] = {
    [TASK_METHOD_POST] = "POST",   [TASK_METHOD_GET] = "GET",       [TASK_METHOD_PUT] = "PUT",
    [TASK_METHOD_PATCH] = "PATCH", [TASK_METHOD_DELETE] = "DELETE",
};

struct task *task_create(void)
{
    struct task *t = xcalloc(1, sizeof(*t));

    t->queue = xstrdup(TASK_QUEUE_DEFAULT);
    t->timeout_ms = TASK_TIMEOUT_DEFAULT_MS;
    t->retry = (struct task_retry)TASK_RETRY_DEFAULT;
    return t;
}

void task_destroy(struct task **t)
{
    struct task *dead = *t;

    if (!dead)
        return;
    *t = NULL;
    for (size_t i = 0; i < dead->header_count; i++) {
        free(dead->headers[i].name);
        free(dead->headers[i].value);
    }
    for (size_t i = 0; i < dead->history_count; i++)
        free(dead->history[i].error);
    free(dead->headers);
    free(dead->history);
    free(dead->retry.schedule_ms);
    free(dead->id);
    free(dead->queue);
    free(dead->url);
    free(dead->body);
    free(dead->on_success);
    free(dead->on_failure);
    free(dead->traceparent);
    free(dead);
}

const char *task_state_name(enum task_state s)
{
    return (unsigned)s < TASK_STATE_COUNT ? state_names[s] : "unknown";
}

const char *task_error_kind_name(enum task_error_kind k)
{
    static const char *const names[TASK_ERROR_KIND_COUNT] = {
        [TASK_ERROR_DNS] = "dns",         [TASK_ERROR_CONNECT] = "connect",   [TASK_ERROR_TLS] = "tls",
        [TASK_ERROR_TIMEOUT] = "timeout", [TASK_ERROR_RESET] = "reset",       [TASK_ERROR_STATUS] = "status",
        [TASK_ERROR_BLOCKED] = "blocked", [TASK_ERROR_PROTOCOL] = "protocol", [TASK_ERROR_WORKER_LOST] = "worker_lost",
    };

    return (unsigned)k < TASK_ERROR_KIND_COUNT ? names[k] : NULL;
}

const char *task_method_name(enum task_method m)
{
    return (unsigned)m < TASK_METHOD_COUNT ? method_names[m] : "unknown";
}

bool task_durability_from_name(const char *s, size_t n, enum task_durability *out)
{
    static const char *const names[TASK_DURABILITY_COUNT] = {
        [TASK_DURABILITY_MEMORY] = "memory", [TASK_DURABILITY_FSYNC] = "fsync", [TASK_DURABILITY_REPLICA] = "replica"};

    for (int i = 0; i < TASK_DURABILITY_COUNT; i++) {
        if (strlen(names[i]) == n && memcmp(names[i], s, n) == 0) {
            *out = (enum task_durability)i;
            return true;
        }
    }
    return false;
}

bool task_method_from_name(const char *s, size_t n, enum task_method *out)
{
    for (int m = 0; m < TASK_METHOD_COUNT; m++) {
        if (strlen(method_names[m]) == n && memcmp(method_names[m], s, n) == 0) {
            *out = (enum task_method)m;
            return true;
        }
    }
    return false;
}

bool task_state_is_finished(enum task_state s)
{
    return s == TASK_DELIVERED || s == TASK_DEAD || s == TASK_CANCELLED || s == TASK_EXPIRED;
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool task_id_is_valid(const char *s, size_t n)
{
    if (n == 0 || n > TASK_ID_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool is_word = is_lower(s[i]) || is_upper(s[i]) || is_digit(s[i]);
        bool is_mark = s[i] == '.' || s[i] == '_' || s[i] == ':' || s[i] == '-';

        if (!is_word && (i == 0 || !is_mark))
            return false;
    }
    return true;
}

bool task_queue_is_valid(const char *s, size_t n)
{
    if (n == 0 || n > TASK_QUEUE_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool is_word = is_lower(s[i]) || is_digit(s[i]);
        bool is_mark = s[i] == '.' || s[i] == '_' || s[i] == '-';

        if (!is_word && (i == 0 || !is_mark))
            return false;
    }
    return true;
}
