#include "task/trace.h"

#include <string.h>

/* VERSION-TRACE-PARENT-FLAGS: 2, 32, 16 and 2 lower-case hex digits. */
#define TRACE_AT 3
#define TRACE_CHARS 32
#define PARENT_AT 36
#define PARENT_CHARS 16
#define FLAGS_AT 53
#define FLAGS_CHARS 2

static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
            return false;
    return true;
}

static bool is_zero(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != '0')
            return false;
    return true;
}

static bool has_form(const char *s)
{
    return is_hex(s, 2) && s[TRACE_AT - 1] == '-' && is_hex(s + TRACE_AT, TRACE_CHARS) && s[PARENT_AT - 1] == '-' &&
           is_hex(s + PARENT_AT, PARENT_CHARS) && s[FLAGS_AT - 1] == '-' && is_hex(s + FLAGS_AT, FLAGS_CHARS);
}

bool trace_read_parent(const char *s, size_t n, char out[TASK_TRACEPARENT_BYTES + 1])
{
    if (n < TASK_TRACEPARENT_BYTES || !has_form(s) || strncmp(s, "ff", 2) == 0)
        return false;
    if (is_zero(s + TRACE_AT, TRACE_CHARS) || is_zero(s + PARENT_AT, PARENT_CHARS))
        return false;
    bool is_later = strncmp(s, "00", 2) != 0;

    if (n > TASK_TRACEPARENT_BYTES && !(is_later && s[TASK_TRACEPARENT_BYTES] == '-'))
        return false;
    memcpy(out, s, TASK_TRACEPARENT_BYTES);
    out[TASK_TRACEPARENT_BYTES] = '\0';
    if (is_later) {
        bool is_sampled = strchr("13579bdf", s[FLAGS_AT + 1]) != NULL;

        memcpy(out, "00", 2);
        memcpy(out + FLAGS_AT, is_sampled ? "01" : "00", FLAGS_CHARS);
    }
    return true;
}
