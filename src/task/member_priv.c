#include "task/member_priv.h"

#include "base/clock.h"
#include "base/parse.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool member_string(const struct member *m, const char **s, size_t *n)
{
    if (m->value.kind != SCAN_STRING) {
        faults_add(m->ctx->faults, m->pointer, "must be a string");
        return false;
    }
    if (scan_string(&m->value, m->ctx->scratch, s, n) != ERR_OK) {
        m->ctx->err = ERR_NOMEM; /* the scratch buffer is as large as the request: it cannot be too small */
        return false;
    }
    return true;
}

/* Whether the number is written with digits alone. */
static bool is_digits(const struct scan_value *v)
{
    if (v->kind != SCAN_NUMBER || v->bytes == 0)
        return false;
    for (size_t i = 0; i < v->bytes; i++) {
        if (v->raw[i] < '0' || v->raw[i] > '9')
            return false;
    }
    return true;
}

/* The value of digits; INT64_MAX when they say more than that, so that a bound refuses them. */
static int64_t digits_value(const struct scan_value *v)
{
    int64_t value = INT64_MAX;

    if (!parse_int64(v->raw, v->bytes, &value))
        return INT64_MAX;
    return value;
}

bool member_int(const struct member *m, int min, int max, int *out)
{
    int64_t value = is_digits(&m->value) ? digits_value(&m->value) : -1;

    if (!is_digits(&m->value) || value < min || value > max) {
        faults_add(m->ctx->faults, m->pointer, "must be an integer from %d to %d, without fraction or exponent", min,
                   max);
        return false;
    }
    *out = (int)value;
    return true;
}

bool member_real(const struct member *m, double min, double max, double *out)
{
    double value = min;

    /* The scanner's bytes do not end with a NUL, but inside an object a number is always followed by something that
     * ends it, at the latest by the closing bracket. */
    if (m->value.kind == SCAN_NUMBER)
        value = strtod(m->value.raw, NULL);
    if (m->value.kind != SCAN_NUMBER || !(value >= min && value <= max)) {
        faults_add(m->ctx->faults, m->pointer, "must be a number from %.15g to %.15g", min, max);
        return false;
    }
    *out = value;
    return true;
}

bool member_duration(const struct member *m, int64_t min_ms, int64_t max_ms, int64_t *out_ms)
{
    const char *s = NULL;
    size_t n = 0;
    int64_t ms = 0;
    bool is_duration = is_digits(&m->value);

    if (is_duration) {
        ms = digits_value(&m->value);
    } else if (m->value.kind == SCAN_STRING) {
        if (!member_string(m, &s, &n))
            return false;
        is_duration = parse_duration(s, n, &ms);
    }
    if (!is_duration) {
        faults_add(
            m->ctx->faults, m->pointer,
            "must be a duration: a whole number of milliseconds, or a string like \"250ms\", \"30s\", \"1h30m\"");
        return false;
    }
    if (ms < min_ms || ms > max_ms) {
        faults_add(m->ctx->faults, m->pointer, "must be from %" PRId64 " ms to %" PRId64 " ms", min_ms, max_ms);
        return false;
    }
    *out_ms = ms;
    return true;
}

bool member_time(const struct member *m, int64_t *out_ms)
{
    const char *s = NULL;
    size_t n = 0;
    int64_t ms = 0;
    bool is_time = is_digits(&m->value);

    if (is_time) {
        ms = digits_value(&m->value);
    } else if (m->value.kind == SCAN_STRING) {
        if (!member_string(m, &s, &n))
            return false;
        is_time = parse_rfc3339(s, n, &ms);
    }
    if (!is_time) {
        faults_add(m->ctx->faults, m->pointer,
                   "must be a time: an RFC 3339 string with an offset, or a whole number of Unix milliseconds");
        return false;
    }
    if (ms > clock_wall_ms() + PARSE_MAX_DELAY_MS) {
        faults_add(m->ctx->faults, m->pointer, "must be at most 10 years (3653 days) from now");
        return false;
    }
    *out_ms = ms;
    return true;
}

bool member_is_object(const struct member *m)
{
    if (m->value.kind == SCAN_OBJECT)
        return true;
    faults_add(m->ctx->faults, m->pointer, "must be an object");
    return false;
}

char *member_copy(struct member_ctx *ctx, const char *s, size_t n)
{
    char *copy = malloc(n + 1);

    if (!copy) {
        ctx->err = ERR_NOMEM;
        return NULL;
    }
    if (n > 0)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}
