#include "store/record_priv.h"

#include "base/mem.h"
#include "base/parse.h"
#include "store/record_form_priv.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reading a record trusts nothing: bytes may have been changed by hand, so every length is checked against what is
 * left, and the reader carries its own verdict (`bad`) so that a record is read straight down and judged once at the
 * end. record_write_priv.c is the other half. */

#define FORMAT 1
#define WHEN_BYTES 6
#define SCHEDULE_MAX 100
#define HEADERS_MAX 100

struct reader {
    const unsigned char *at;
    size_t left;
    bool bad;
};

static const unsigned char *take(struct reader *r, size_t n)
{
    const unsigned char *at = r->at;

    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    r->at += n;
    r->left -= n;
    return at;
}

static uint64_t get_fixed(struct reader *r, size_t bytes)
{
    const unsigned char *p = take(r, bytes);
    uint64_t v = 0;

    for (size_t i = 0; p && i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static uint64_t get_varint(struct reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 63; shift += 7) {
        const unsigned char *p = take(r, 1);
        if (!p)
            return 0;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80))
            return v;
    }
    r->bad = true;
    return 0;
}

static int get_int(struct reader *r)
{
    uint64_t n = get_varint(r);

    if (n > INT_MAX)
        r->bad = true;
    return r->bad ? 0 : (int)n;
}

/* A length that must fit what is left. */
static size_t get_length(struct reader *r)
{
    uint64_t n = get_varint(r);

    if (n > r->left)
        r->bad = true;
    return r->bad ? 0 : (size_t)n;
}

static double get_double(struct reader *r)
{
    uint64_t bits = get_fixed(r, 8);
    double v;

    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v))
        r->bad = true;
    return v;
}

static char *get_bytes(struct reader *r, size_t n)
{
    const unsigned char *p = take(r, n);

    return xstrndup(p ? (const char *)p : "", p ? n : 0);
}

/* What is shown in answers as it is, of which one may tell of many tasks. */
static char *get_text(struct reader *r, size_t n)
{
    char *text = get_bytes(r, n);

    if (!parse_is_utf8(text, strlen(text)))
        r->bad = true;
    return text;
}

static void get_headers(struct reader *r, struct task *t)
{
    uint64_t n = get_varint(r);

    if (r->bad || n > HEADERS_MAX) {
        r->bad = true;
        return;
    }
    t->headers = xcalloc((size_t)n, sizeof *t->headers);
    t->header_count = (size_t)n;
    for (size_t i = 0; i < n; i++) {
        t->headers[i].name = get_text(r, get_length(r));
        t->headers[i].value = get_text(r, get_length(r));
    }
}

static void get_schedule(struct reader *r, struct task_retry *retry)
{
    uint64_t n = get_varint(r);

    if (r->bad || n == 0 || n > SCHEDULE_MAX) {
        r->bad = true;
        return;
    }
    retry->schedule_ms = xcalloc((size_t)n, sizeof *retry->schedule_ms);
    retry->schedule_count = (size_t)n;
    for (size_t i = 0; i < n; i++)
        retry->schedule_ms[i] = (int64_t)get_varint(r);
}

static void get_members(struct reader *r, struct task *t, uint64_t set64)
{
    unsigned set = (unsigned)set64;
    struct task_retry *retry = &t->retry;

    if (set64 >> MEMBER_COUNT)
        r->bad = true; /* written by a newer version */
    if (member_is_in(set, MEMBER_DIGEST)) {
        const unsigned char *p = take(r, TASK_DIGEST_BYTES);
        t->has_digest = true;
        if (p)
            memcpy(t->digest, p, TASK_DIGEST_BYTES);
    }
    if (member_is_in(set, MEMBER_HEADERS))
        get_headers(r, t);
    if (member_is_in(set, MEMBER_TIMEOUT))
        t->timeout_ms = (int64_t)get_varint(r);
    if (member_is_in(set, MEMBER_MAX_ATTEMPTS))
        retry->max_attempts = get_int(r);
    if (member_is_in(set, MEMBER_INITIAL))
        retry->initial_ms = (int64_t)get_varint(r);
    if (member_is_in(set, MEMBER_MULTIPLIER))
        retry->multiplier = get_double(r);
    if (member_is_in(set, MEMBER_MAX))
        retry->max_ms = (int64_t)get_varint(r);
    if (member_is_in(set, MEMBER_JITTER))
        retry->jitter = get_double(r);
    if (member_is_in(set, MEMBER_SCHEDULE))
        get_schedule(r, retry);
    if (member_is_in(set, MEMBER_MAX_AGE))
        retry->max_age_ms = (int64_t)get_varint(r);
    if (member_is_in(set, MEMBER_ON_SUCCESS))
        t->on_success = get_text(r, get_length(r));
    if (member_is_in(set, MEMBER_ON_FAILURE))
        t->on_failure = get_text(r, get_length(r));
    if (member_is_in(set, MEMBER_TRACEPARENT))
        t->traceparent = get_text(r, get_length(r));
}

static void get_kinds(struct reader *r, struct task *t)
{
    unsigned kinds = (unsigned)get_fixed(r, 1);

    t->method = (enum task_method)(kinds & 7);
    t->body_kind = (enum task_body_kind)(kinds >> 3 & 3);
    if ((kinds & 7) >= TASK_METHOD_COUNT)
        r->bad = true;
    if (kinds & KIND_EXPIRES) {
        t->has_expiry = true;
        t->expires_ms = (int64_t)get_fixed(r, EXPIRES_BYTES);
    }
}

static char *get_url(struct reader *r)
{
    static const char *const schemes[RECORD_SCHEME_COUNT] = RECORD_SCHEMES;
    char *text = get_text(r, get_length(r));
    size_t first = (unsigned char)text[0];

    if (first == 0 || first >= RECORD_SCHEME_COUNT)
        return text;
    size_t scheme_bytes = strlen(schemes[first]);
    size_t rest_size = strlen(text + 1) + 1;
    char *url = xcalloc(scheme_bytes + rest_size, 1);

    memcpy(url, schemes[first], scheme_bytes);
    memcpy(url + scheme_bytes, text + 1, rest_size);
    free(text);
    return url;
}

static void get_spec_without_body(struct reader *r, struct task *t)
{
    size_t queue_bytes = (size_t)get_fixed(r, 1);
    if (queue_bytes > 0) {
        free(t->queue);
        t->queue = get_bytes(r, queue_bytes);
        if (!task_queue_is_valid(t->queue, queue_bytes))
            r->bad = true;
    }
    get_kinds(r, t);
    uint64_t set = get_varint(r);
    t->url = get_url(r);
    get_members(r, t, set);
}

static void get_body(struct reader *r, struct task *t)
{
    const unsigned char *body;

    if (r->bad || r->left == 0)
        return; /* no body, or dropped after delivery */
    if (t->body_kind == TASK_BODY_NONE) {
        r->bad = true;
        return;
    }
    t->body_bytes = get_length(r);
    body = take(r, t->body_bytes);
    t->body = xstrndup(body ? (const char *)body : "", body ? t->body_bytes : 0);
    if (r->left > 0)
        r->bad = true;
}

static int64_t get_time(struct reader *r)
{
    return (int64_t)get_varint(r) - 1;
}

/* What follows a status that says so. */
static void get_times(struct reader *r, struct task_attempt *a)
{
    uint64_t kind = get_fixed(r, 1);

    a->error_kind = kind < TASK_ERROR_KIND_COUNT ? (enum task_error_kind)kind : TASK_ERROR_NONE;
    a->lateness_us = get_time(r);
    a->phases.dns_us = get_time(r);
    a->phases.connect_us = get_time(r);
    a->phases.tls_us = get_time(r);
    a->phases.first_byte_us = get_time(r);
}

static void get_attempt(struct reader *r, struct task_attempt *a)
{
    struct reader one = {.left = get_length(r)};
    uint64_t duration, status;

    *a = (struct task_attempt){.lateness_us = TASK_TIME_NONE, .phases = TASK_PHASES_NONE};
    one.at = take(r, one.left);
    if (!one.at)
        return;
    a->at_ms = (int64_t)get_fixed(&one, 6);
    duration = get_varint(&one);
    status = get_varint(&one);
    if (status < RECORD_STATUS_WITH_TIMES)
        duration = duration <= INT64_MAX / 1000 ? duration * 1000 : INT64_MAX;
    a->duration_us = (int64_t)duration;
    a->status = (int)(status % RECORD_STATUS_WITH_TIMES);
    if (status >= RECORD_STATUS_WITH_TIMES)
        get_times(&one, a);
    if (one.left > 0)
        a->error = get_bytes(&one, one.left); /* what a receiver answered need not be text */
    r->bad = r->bad || one.bad || status >= (uint64_t)2 * RECORD_STATUS_WITH_TIMES;
}

/* The newest attempts; recover.lua appends one of its own, so there may be one more than the gateway writes. */
static void get_history(struct reader *r, struct task *t)
{
    if (r->left == 0)
        return;
    t->when_ms = (int64_t)get_fixed(r, WHEN_BYTES);
    t->history = xcalloc(RECORD_ATTEMPTS_MAX, sizeof *t->history);
    while (!r->bad && r->left > 0) {
        if (t->history_count == RECORD_ATTEMPTS_MAX) {
            free(t->history[0].error);
            memmove(t->history, t->history + 1, --t->history_count * sizeof *t->history);
        }
        get_attempt(r, &t->history[t->history_count++]);
    }
}

/* Returns the bytes of history that follow. */
static size_t get_head(struct reader *r, struct task *t)
{
    unsigned first = (unsigned)get_fixed(r, 1);
    unsigned marks = (unsigned)get_fixed(r, 1);

    if (first >> 4 != FORMAT || (first & 15) >= TASK_STATE_COUNT)
        r->bad = true;
    t->state = (enum task_state)(first & 15);
    t->cancel_requested = (marks & 128) != 0;
    t->takeovers = (int)(marks & 127);
    t->attempts = (int)get_fixed(r, 2);
    t->generation = (unsigned)get_fixed(r, 2);
    t->run_at_ms = (int64_t)get_fixed(r, 6);
    t->created_at_ms = (int64_t)get_fixed(r, 6);
    return (size_t)get_fixed(r, 2);
}

static enum err read_record(const char *id, const char *data, size_t n, bool with_body, struct task **out)
{
    struct task *t = task_create();
    struct reader r = {.at = (const unsigned char *)data, .left = n};
    struct reader history = {0};

    *out = NULL;
    t->id = xstrdup(id);
    history.left = get_head(&r, t);
    history.at = take(&r, history.left);
    if (history.at)
        get_history(&history, t);
    get_spec_without_body(&r, t);
    if (with_body)
        get_body(&r, t);
    if (r.bad || history.bad) {
        task_destroy(&t);
        return ERR_INVALID;
    }
    *out = t;
    return ERR_OK;
}

enum err record_read(const char *id, const char *data, size_t n, struct task **out)
{
    return read_record(id, data, n, true, out);
}

enum err record_read_beginning(const char *id, const char *data, size_t n, struct task **out)
{
    return read_record(id, data, n, false, out);
}
