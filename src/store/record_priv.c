#include "store/record_priv.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Reading trusts nothing: bytes may have been changed by hand, so every length is checked against what is left, and the
 * reader carries its own verdict (`bad`) so that a record is read straight down and judged once at the end. */

#define FORMAT 1
#define HEAD_BYTES 20
#define WHEN_BYTES 6
#define SCHEDULE_MAX 100
#define HEADERS_MAX 100
#define ERROR_MAX 512

enum member {
    MEMBER_DIGEST = 0,
    MEMBER_HEADERS,
    MEMBER_TIMEOUT,
    MEMBER_MAX_ATTEMPTS,
    MEMBER_INITIAL,
    MEMBER_MULTIPLIER,
    MEMBER_MAX,
    MEMBER_JITTER,
    MEMBER_SCHEDULE,
    MEMBER_MAX_AGE,
};

/* -------------------------------------------------------------- writing */

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
    };
    unsigned set = 0;

    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].is_there)
            set |= 1u << members[i].member;
    return set;
}

static bool has(unsigned set, enum member m)
{
    return (set & (1u << m)) != 0;
}

static void put_members(struct buf *out, const struct task *t, unsigned set)
{
    const struct task_retry *r = &t->retry;

    if (has(set, MEMBER_DIGEST))
        buf_append(out, t->digest, TASK_DIGEST_BYTES);
    if (has(set, MEMBER_HEADERS))
        put_headers(out, t);
    if (has(set, MEMBER_TIMEOUT))
        put_varint(out, (uint64_t)t->timeout_ms);
    if (has(set, MEMBER_MAX_ATTEMPTS))
        put_varint(out, (uint64_t)r->max_attempts);
    if (has(set, MEMBER_INITIAL))
        put_varint(out, (uint64_t)r->initial_ms);
    if (has(set, MEMBER_MULTIPLIER))
        put_double(out, r->multiplier);
    if (has(set, MEMBER_MAX))
        put_varint(out, (uint64_t)r->max_ms);
    if (has(set, MEMBER_JITTER))
        put_double(out, r->jitter);
    if (has(set, MEMBER_SCHEDULE))
        put_schedule(out, r);
    if (has(set, MEMBER_MAX_AGE))
        put_varint(out, (uint64_t)r->max_age_ms);
}

static void put_spec_without_body(struct buf *out, const struct task *t)
{
    struct task *defaults = task_create();
    unsigned set = members_of(t, defaults);
    size_t queue_bytes = strcmp(t->queue, TASK_QUEUE_DEFAULT) == 0 ? 0 : strlen(t->queue);

    buf_putc(out, (char)queue_bytes);
    buf_append(out, t->queue, queue_bytes);
    buf_putc(out, (char)((unsigned)t->method | (unsigned)t->body_kind << 3));
    put_varint(out, set);
    put_bytes(out, t->url, strlen(t->url));
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

static void put_attempt(struct buf *out, const struct task_attempt *a)
{
    size_t error_bytes = a->error ? strlen(a->error) : 0;
    struct buf rest;

    if (error_bytes > ERROR_MAX)
        error_bytes = ERROR_MAX;
    buf_init(&rest, 1024);
    put_fixed(&rest, (uint64_t)a->at_ms, 6);
    put_varint(&rest, (uint64_t)a->duration_ms);
    put_varint(&rest, (uint64_t)a->status);
    buf_append(&rest, a->error ? a->error : "", error_bytes);
    put_bytes(out, rest.data, rest.len);
    buf_deinit(&rest);
}

void record_write_attempts(struct buf *out, const struct task *t, const struct task_attempt *last)
{
    size_t from = t->history_count + 1 > RECORD_ATTEMPTS_MAX ? t->history_count + 1 - RECORD_ATTEMPTS_MAX : 0;

    for (size_t i = from; i < t->history_count; i++)
        put_attempt(out, &t->history[i]);
    put_attempt(out, last);
}

/* -------------------------------------------------------------- reading */

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
    return v;
}

static char *get_text(struct reader *r, size_t n)
{
    const unsigned char *p = take(r, n);

    return xstrndup(p ? (const char *)p : "", p ? n : 0);
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

    if (set64 >> (MEMBER_MAX_AGE + 1))
        r->bad = true; /* written by a newer version */
    if (has(set, MEMBER_DIGEST)) {
        const unsigned char *p = take(r, TASK_DIGEST_BYTES);
        t->has_digest = true;
        if (p)
            memcpy(t->digest, p, TASK_DIGEST_BYTES);
    }
    if (has(set, MEMBER_HEADERS))
        get_headers(r, t);
    if (has(set, MEMBER_TIMEOUT))
        t->timeout_ms = (int64_t)get_varint(r);
    if (has(set, MEMBER_MAX_ATTEMPTS))
        retry->max_attempts = (int)get_varint(r);
    if (has(set, MEMBER_INITIAL))
        retry->initial_ms = (int64_t)get_varint(r);
    if (has(set, MEMBER_MULTIPLIER))
        retry->multiplier = get_double(r);
    if (has(set, MEMBER_MAX))
        retry->max_ms = (int64_t)get_varint(r);
    if (has(set, MEMBER_JITTER))
        retry->jitter = get_double(r);
    if (has(set, MEMBER_SCHEDULE))
        get_schedule(r, retry);
    if (has(set, MEMBER_MAX_AGE))
        retry->max_age_ms = (int64_t)get_varint(r);
}

static void get_spec(struct reader *r, struct task *t)
{
    unsigned kinds;
    const unsigned char *body;

    size_t queue_bytes = (size_t)get_fixed(r, 1);
    if (queue_bytes > 0) {
        free(t->queue);
        t->queue = get_text(r, queue_bytes);
    }
    kinds = (unsigned)get_fixed(r, 1);
    t->method = (enum task_method)(kinds & 7);
    t->body_kind = (enum task_body_kind)(kinds >> 3 & 3);
    if ((kinds & 7) >= TASK_METHOD_COUNT || kinds >> 5)
        r->bad = true;
    uint64_t set = get_varint(r);
    t->url = get_text(r, get_length(r));
    get_members(r, t, set);
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

static void get_attempt(struct reader *r, struct task_attempt *a)
{
    struct reader one = {.left = get_length(r)};

    one.at = take(r, one.left);
    if (!one.at)
        return;
    a->at_ms = (int64_t)get_fixed(&one, 6);
    a->duration_ms = (int64_t)get_varint(&one);
    a->status = (int)get_varint(&one);
    if (one.left > 0)
        a->error = get_text(&one, one.left);
    r->bad = r->bad || one.bad;
}

static void get_history(struct reader *r, struct task *t)
{
    if (r->left == 0)
        return;
    t->when_ms = (int64_t)get_fixed(r, WHEN_BYTES);
    while (!r->bad && r->left > 0) {
        t->history = xrealloc(t->history, (t->history_count + 1) * sizeof *t->history);
        memset(&t->history[t->history_count], 0, sizeof *t->history);
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

enum err record_read(const char *id, const char *data, size_t n, struct task **out)
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
    get_spec(&r, t);
    if (r.bad || history.bad) {
        task_destroy(&t);
        return ERR_INVALID;
    }
    *out = t;
    return ERR_OK;
}
