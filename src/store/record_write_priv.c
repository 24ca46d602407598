#include "store/record_priv.h"

#include "store/record_form_priv.h"

#include <string.h>

/* Writing a record: the specification, and the attempts. The head and the time before the attempts are the scripts'.
 *
 * A member that has its default is left out, which is found by comparing with a new task. An attempt is written into a
 * buffer of its own first, since its length stands before it. A failed append is remembered by the buffer, so nothing
 * is checked here. */

#define ERROR_MAX 512
#define EXPIRES_FROM_NOW ((uint64_t)1 << 47)

static void put_varint(struct buf *out, uint64_t v)
{
    while (v >= 0x80) {
        buf_putc(out, (char)(v | 0x80));
        v >>= 7;
    }
    buf_putc(out, (char)v);
}

static void put_bytes(struct buf *out, const char *data, size_t n)
{
    put_varint(out, n);
    buf_append(out, data, n);
}

static void put_fixed(struct buf *out, uint64_t v, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        buf_putc(out, (char)(v >> shift));
}

static void put_double(struct buf *out, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    put_fixed(out, bits, 8);
}

static void put_headers(struct buf *out, const struct task *t)
{
    put_varint(out, t->header_count);
    for (size_t i = 0; i < t->header_count; i++) {
        put_bytes(out, t->headers[i].name, strlen(t->headers[i].name));
        put_bytes(out, t->headers[i].value, strlen(t->headers[i].value));
    }
}

static void put_schedule(struct buf *out, const struct task_retry *r)
{
    put_varint(out, r->schedule_count);
    for (size_t i = 0; i < r->schedule_count; i++)
        put_varint(out, (uint64_t)r->schedule_ms[i]);
}

static unsigned members_of(const struct task *t, const struct task *defaults)
{
    const struct task_retry *r = &t->retry;
    const struct task_retry *d = &defaults->retry;
    const struct {
        enum member member;
        bool is_there;
    } members[] = {
        {MEMBER_DIGEST, t->has_digest},
        {MEMBER_HEADERS, t->header_count > 0},
        {MEMBER_TIMEOUT, t->timeout_ms != defaults->timeout_ms},
        {MEMBER_MAX_ATTEMPTS, r->max_attempts != d->max_attempts},
        {MEMBER_INITIAL, r->initial_ms != d->initial_ms},
        {MEMBER_MULTIPLIER, r->multiplier < d->multiplier || r->multiplier > d->multiplier},
        {MEMBER_MAX, r->max_ms != d->max_ms},
        {MEMBER_JITTER, r->jitter < d->jitter || r->jitter > d->jitter},
        {MEMBER_SCHEDULE, r->schedule_count > 0},
        {MEMBER_MAX_AGE, r->max_age_ms != d->max_age_ms},
        {MEMBER_ON_SUCCESS, t->on_success != NULL},
        {MEMBER_ON_FAILURE, t->on_failure != NULL},
        {MEMBER_TRACEPARENT, t->traceparent != NULL},
    };
    unsigned set = 0;

    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].is_there)
            set |= 1u << members[i].member;
    return set;
}

static void put_members(struct buf *out, const struct task *t, unsigned set)
{
    const struct task_retry *r = &t->retry;

    if (member_is_in(set, MEMBER_DIGEST))
        buf_append(out, t->digest, TASK_DIGEST_BYTES);
    if (member_is_in(set, MEMBER_HEADERS))
        put_headers(out, t);
    if (member_is_in(set, MEMBER_TIMEOUT))
        put_varint(out, (uint64_t)t->timeout_ms);
    if (member_is_in(set, MEMBER_MAX_ATTEMPTS))
        put_varint(out, (uint64_t)r->max_attempts);
    if (member_is_in(set, MEMBER_INITIAL))
        put_varint(out, (uint64_t)r->initial_ms);
    if (member_is_in(set, MEMBER_MULTIPLIER))
        put_double(out, r->multiplier);
    if (member_is_in(set, MEMBER_MAX))
        put_varint(out, (uint64_t)r->max_ms);
    if (member_is_in(set, MEMBER_JITTER))
        put_double(out, r->jitter);
    if (member_is_in(set, MEMBER_SCHEDULE))
        put_schedule(out, r);
    if (member_is_in(set, MEMBER_MAX_AGE))
        put_varint(out, (uint64_t)r->max_age_ms);
    if (member_is_in(set, MEMBER_ON_SUCCESS))
        put_bytes(out, t->on_success, strlen(t->on_success));
    if (member_is_in(set, MEMBER_ON_FAILURE))
        put_bytes(out, t->on_failure, strlen(t->on_failure));
    if (member_is_in(set, MEMBER_TRACEPARENT))
        put_bytes(out, t->traceparent, strlen(t->traceparent));
}

/* The scripts read these without knowing the members. */
static void put_kinds(struct buf *out, const struct task *t)
{
    unsigned kinds = (unsigned)t->method | (unsigned)t->body_kind << 3;

    kinds |= t->has_expiry ? KIND_EXPIRES : 0;
    kinds |= t->on_success ? KIND_ON_SUCCESS : 0;
    kinds |= t->on_failure ? KIND_ON_FAILURE : 0;
    buf_putc(out, (char)kinds);
    if (t->has_expiry)
        put_fixed(out, (uint64_t)t->expires_ms | (t->is_expiry_relative ? EXPIRES_FROM_NOW : 0), EXPIRES_BYTES);
}

static void put_url(struct buf *out, const char *url)
{
    static const char *const schemes[RECORD_SCHEME_COUNT] = RECORD_SCHEMES;

    for (size_t i = 1; i < RECORD_SCHEME_COUNT; i++) {
        size_t n = strlen(schemes[i]);
        if (strncmp(url, schemes[i], n) == 0) {
            put_varint(out, strlen(url) - n + 1);
            buf_putc(out, (char)i);
            buf_puts(out, url + n);
            return;
        }
    }
    put_bytes(out, url, strlen(url));
}

static void put_spec_without_body(struct buf *out, const struct task *t)
{
    struct task *defaults = task_create();
    unsigned set = members_of(t, defaults);
    size_t queue_bytes = strcmp(t->queue, TASK_QUEUE_DEFAULT) == 0 ? 0 : strlen(t->queue);

    buf_putc(out, (char)queue_bytes);
    buf_append(out, t->queue, queue_bytes);
    put_kinds(out, t);
    put_varint(out, set);
    put_url(out, t->url);
    put_members(out, t, set);
    task_destroy(&defaults);
}

void record_write_spec(struct buf *out, const struct task *t)
{
    put_spec_without_body(out, t);
    if (t->body_kind != TASK_BODY_NONE)
        put_bytes(out, t->body ? t->body : "", t->body_bytes);
}

size_t record_kept_bytes(const struct task *t)
{
    struct buf b;
    size_t n;

    buf_init(&b, SIZE_MAX / 2);
    put_spec_without_body(&b, t);
    n = b.len;
    buf_deinit(&b);
    return n;
}

/* At most `max` bytes of it, and no part of a UTF-8 character at its end. */
static size_t error_bytes(const char *error, size_t max)
{
    size_t n = error ? strlen(error) : 0;

    if (n <= max)
        return n;
    for (n = max; n > 0 && ((unsigned char)error[n] & 0xc0) == 0x80;)
        n--;
    return n;
}

static void put_time(struct buf *out, int64_t us)
{
    put_varint(out, us < 0 ? 0 : (uint64_t)us + 1);
}

static void put_attempt(struct buf *out, const struct task_attempt *a, size_t error_max)
{
    struct buf rest;

    buf_init(&rest, 1024);
    put_fixed(&rest, (uint64_t)a->at_ms, 6);
    put_varint(&rest, (uint64_t)a->duration_us);
    put_varint(&rest, (uint64_t)a->status + RECORD_STATUS_WITH_TIMES);
    buf_putc(&rest, (char)a->error_kind);
    put_time(&rest, a->lateness_us);
    put_time(&rest, a->phases.dns_us);
    put_time(&rest, a->phases.connect_us);
    put_time(&rest, a->phases.tls_us);
    put_time(&rest, a->phases.first_byte_us);
    buf_append(&rest, a->error ? a->error : "", error_bytes(a->error, error_max));
    put_bytes(out, rest.data, rest.len);
    buf_deinit(&rest);
}

void record_write_attempts(struct buf *out, const struct task *t, const struct task_attempt *last)
{
    size_t from = t->history_count + 1 > RECORD_ATTEMPTS_MAX ? t->history_count + 1 - RECORD_ATTEMPTS_MAX : 0;

    for (size_t i = from; i < t->history_count; i++)
        put_attempt(out, &t->history[i], RECORD_OLD_ERROR_BYTES);
    put_attempt(out, last, ERROR_MAX);
}

void record_write_lost(struct buf *out)
{
    char error[] = "worker_lost";
    const struct task_attempt lost = {.error_kind = TASK_ERROR_WORKER_LOST,
                                      .error = error,
                                      .lateness_us = TASK_TIME_NONE,
                                      .phases = TASK_PHASES_NONE};

    put_attempt(out, &lost, ERROR_MAX);
}
