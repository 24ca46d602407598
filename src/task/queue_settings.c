#include "task/queue_settings.h"

#include "base/mem.h"
#include "base/parse.h"
#include "task/member_priv.h"
#include "task/retry_priv.h"
#include "task/scan_priv.h"
#include "task/syntax_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The settings of a queue in their three forms: the body of PUT, the members of an answer, and the text in Redis. That
 * text begins with the three values that scripts look at, so that they need no JSON; the defaults for new tasks, which
 * only the gateway looks at, stand behind them in the form of the body. */

#define CONCURRENCY_MAX 1000000
#define RATE_MIN 0.001
#define RATE_MAX 1000000.0

enum setting {
    SETTING_PAUSED = 0,
    SETTING_MAX_CONCURRENCY,
    SETTING_MAX_PER_SECOND,
    SETTING_TIMEOUT,
    SETTING_RETRY,
    SETTING_COUNT /* number of settings, not one of them */
};

static const char *const names[SETTING_COUNT] = {
    [SETTING_PAUSED] = "paused",
    [SETTING_MAX_CONCURRENCY] = "max_concurrency",
    [SETTING_MAX_PER_SECOND] = "max_per_second",
    [SETTING_TIMEOUT] = "timeout",
    [SETTING_RETRY] = "retry",
};

void queue_settings_init(struct queue_settings *s)
{
    memset(s, 0, sizeof(*s));
}

void queue_settings_deinit(struct queue_settings *s)
{
    free(s->retry.schedule_ms);
    memset(s, 0, sizeof(*s));
}

bool queue_settings_are_default(const struct queue_settings *s)
{
    return !s->is_paused && s->max_concurrency == 0 && !(s->max_per_second > 0) && s->timeout_ms == 0 &&
           s->retry.given == 0;
}

/* ---------------------------------------------------------------- reading */

static void read_bool(const struct member *m, bool *out)
{
    if (m->value.kind == SCAN_BOOL)
        *out = m->value.raw[0] == 't';
    else
        faults_add(m->ctx->faults, m->pointer, "must be true or false");
}

static void read_setting(unsigned which, const struct member *m, void *settings)
{
    struct queue_settings *out = settings;

    switch ((enum setting)which) {
    case SETTING_PAUSED:
        read_bool(m, &out->is_paused);
        break;
    case SETTING_MAX_CONCURRENCY:
        (void)member_int(m, 1, CONCURRENCY_MAX, &out->max_concurrency);
        break;
    case SETTING_MAX_PER_SECOND:
        (void)member_real(m, RATE_MIN, RATE_MAX, &out->max_per_second);
        break;
    case SETTING_TIMEOUT:
        (void)member_duration(m, TASK_TIMEOUT_MIN_MS, TASK_TIMEOUT_MAX_MS, &out->timeout_ms);
        break;
    case SETTING_RETRY:
        retry_read(m, &out->retry);
        break;
    case SETTING_COUNT:
        faults_add(m->ctx->faults, m->pointer, "is not a setting of a queue");
        break;
    }
}

static unsigned find_setting(const char *name, size_t n)
{
    unsigned i = 0;

    while (i < SETTING_COUNT && !(strlen(names[i]) == n && memcmp(names[i], name, n) == 0))
        i++;
    return i;
}

/* What reads the members of one kind of body. */
struct reader {
    unsigned (*find)(const char *name, size_t n);
    void (*read)(unsigned which, const struct member *m, void *out);
    unsigned count; /* of members; what find() returns for a name that is none */
    void *out;
};

/* *given has bit i when the i-th member was there already. */
static void read_member(const struct reader *r, struct member *m, const struct scan_value *name, unsigned *given)
{
    char pointer[MEMBER_POINTER_SIZE];
    const char *s = NULL;
    size_t n = 0;

    if (scan_string(name, m->ctx->scratch, &s, &n) != ERR_OK) {
        m->ctx->err = ERR_NOMEM;
        return;
    }
    unsigned which = r->find(s, n);

    m->pointer = fault_pointer(pointer, sizeof(pointer), "", s, n);
    if (which < r->count && *given & 1u << which) {
        faults_add(m->ctx->faults, pointer, "is given more than once");
        return;
    }
    *given |= 1u << which;
    r->read(which, m, r->out);
}

static enum err read_object(const struct reader *r, const char *json, size_t n, struct faults *faults)
{
    struct buf scratch;
    struct member_ctx ctx = {.faults = faults, .scratch = &scratch, .err = ERR_OK};
    struct member m = {.ctx = &ctx};
    struct scan_value body, name;
    struct scan scan;
    unsigned given = 0;

    buf_init(&scratch, n);
    enum err err = syntax_check(json, n, faults);

    if (err != ERR_OK)
        goto out;
    err = ERR_INVALID;
    if (!scan_root(json, n, &body) || body.kind != SCAN_OBJECT) {
        faults_add(faults, "", "must be a JSON object");
        goto out;
    }
    scan_begin(&scan, &body);
    while (ctx.err == ERR_OK && scan_next_member(&scan, &name, &m.value))
        read_member(r, &m, &name, &given);
    if (ctx.err != ERR_OK)
        err = ctx.err;
    else if (faults->count == 0)
        err = ERR_OK;
out:
    buf_deinit(&scratch);
    return err;
}

enum err queue_settings_parse(const char *json, size_t n, struct faults *faults, struct queue_settings *out)
{
    const struct reader r = {.find = find_setting, .read = read_setting, .count = SETTING_COUNT, .out = out};

    queue_settings_init(out);
    return read_object(&r, json, n, faults);
}

/* The only member of the body of a redrive. */
static unsigned find_limit(const char *name, size_t n)
{
    return n == 5 && memcmp(name, "limit", n) == 0 ? 0 : 1;
}

static void read_limit(unsigned which, const struct member *m, void *out)
{
    if (which == 0)
        (void)member_int(m, 1, QUEUE_REDRIVE_MAX, out);
    else
        faults_add(m->ctx->faults, m->pointer, "is not a member of this call");
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the reader writes there */
enum err queue_redrive_parse(const char *json, size_t n, struct faults *faults, int *limit)
{
    const struct reader r = {.find = find_limit, .read = read_limit, .count = 1, .out = limit};

    return read_object(&r, json, n, faults);
}

/* ---------------------------------------------------------------- writing */

/* With as few digits as say exactly this number. */
static void put_real(struct buf *out, double value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) < value || strtod(text, NULL) > value)
        (void)snprintf(text, sizeof(text), "%.17g", value);
    buf_puts(out, text);
}

static void put_name(struct buf *out, const char *name, bool is_first)
{
    if (!is_first)
        buf_putc(out, ',');
    buf_putc(out, '"');
    buf_puts(out, name);
    buf_puts(out, "\":");
}

static void put_schedule(struct buf *out, const struct task_retry *retry)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < retry->schedule_count; i++) {
        if (i > 0)
            buf_putc(out, ',');
        buf_put_int(out, retry->schedule_ms[i]);
    }
    buf_putc(out, ']');
}

static void put_retry_value(struct buf *out, enum retry_member which, const struct task_retry *retry)
{
    switch (which) {
    case RETRY_MAX_ATTEMPTS:
        buf_put_int(out, retry->max_attempts);
        break;
    case RETRY_INITIAL:
        buf_put_int(out, retry->initial_ms);
        break;
    case RETRY_MULTIPLIER:
        put_real(out, retry->multiplier);
        break;
    case RETRY_MAX:
        buf_put_int(out, retry->max_ms);
        break;
    case RETRY_JITTER:
        put_real(out, retry->jitter);
        break;
    case RETRY_SCHEDULE:
        put_schedule(out, retry);
        break;
    case RETRY_MAX_AGE:
        buf_put_int(out, retry->max_age_ms);
        break;
    case RETRY_MEMBER_COUNT:
        break;
    }
}

/* The members that are set. */
static void put_retry(struct buf *out, const struct task_retry *retry)
{
    bool is_first = true;

    buf_putc(out, '{');
    for (int i = 0; i < RETRY_MEMBER_COUNT; i++) {
        if ((retry->given & 1u << i) == 0)
            continue;
        put_name(out, retry_member_name((enum retry_member)i), is_first);
        put_retry_value(out, (enum retry_member)i, retry);
        is_first = false;
    }
    buf_putc(out, '}');
}

static void put_or_null(struct buf *out, const char *name, int64_t value)
{
    put_name(out, name, false);
    if (value > 0)
        buf_put_int(out, value);
    else
        buf_puts(out, "null");
}

void queue_settings_write(struct buf *out, const struct queue_settings *s)
{
    queue_settings_write_limits(out, s);
    put_or_null(out, names[SETTING_TIMEOUT], s->timeout_ms);
    put_name(out, names[SETTING_RETRY], false);
    if (s->retry.given)
        put_retry(out, &s->retry);
    else
        buf_puts(out, "null");
}

void queue_settings_write_limits(struct buf *out, const struct queue_settings *s)
{
    put_name(out, names[SETTING_PAUSED], true);
    buf_puts(out, s->is_paused ? "true" : "false");
    put_or_null(out, names[SETTING_MAX_CONCURRENCY], s->max_concurrency);
    put_name(out, names[SETTING_MAX_PER_SECOND], false);
    if (s->max_per_second > 0)
        put_real(out, s->max_per_second);
    else
        buf_puts(out, "null");
}

/* ------------------------------------------------------------ kept in Redis */

void queue_settings_encode(struct buf *out, const struct queue_settings *s)
{
    bool is_first = true;

    buf_printf(out, "%d %d ", s->is_paused ? 1 : 0, s->max_concurrency);
    put_real(out, s->max_per_second);
    buf_puts(out, " {");
    if (s->timeout_ms > 0) {
        put_name(out, names[SETTING_TIMEOUT], true);
        buf_put_int(out, s->timeout_ms);
        is_first = false;
    }
    if (s->retry.given) {
        put_name(out, names[SETTING_RETRY], is_first);
        put_retry(out, &s->retry);
    }
    buf_putc(out, '}');
}

/* The next word of the text, up to a blank, as a NUL-terminated string; false when there is none or it is too long. */
static bool next_word(const char **at, const char *end, char word[32])
{
    const char *blank = memchr(*at, ' ', (size_t)(end - *at));
    size_t n = blank ? (size_t)(blank - *at) : 0;

    if (n == 0 || n >= 32)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at = blank + 1;
    return true;
}

static bool decode_int(const char **at, const char *end, int64_t max, int64_t *out)
{
    char word[32];

    return next_word(at, end, word) && parse_int64(word, strlen(word), out) && *out >= 0 && *out <= max;
}

static bool decode_rate(const char **at, const char *end, double *out)
{
    char word[32];
    char *word_end = NULL;

    if (!next_word(at, end, word))
        return false;
    *out = strtod(word, &word_end);
    return *word_end == '\0' && *out >= 0 && *out <= RATE_MAX && (!(*out > 0) || *out >= RATE_MIN);
}

bool queue_settings_decode(const char *text, size_t n, struct queue_settings *out)
{
    const char *at = text, *end = text + n;
    int64_t paused = 0, concurrency = 0;
    double rate = 0;
    struct faults faults;

    queue_settings_init(out);
    if (!decode_int(&at, end, 1, &paused) || !decode_int(&at, end, CONCURRENCY_MAX, &concurrency) ||
        !decode_rate(&at, end, &rate))
        return false;
    faults_init(&faults);
    bool is_good = queue_settings_parse(at, (size_t)(end - at), &faults, out) == ERR_OK;

    faults_deinit(&faults);
    out->is_paused = paused == 1;
    out->max_concurrency = (int)concurrency;
    out->max_per_second = rate;
    return is_good;
}

/* ---------------------------------------------------------------- defaults */

#define BACKOFF (1u << RETRY_INITIAL | 1u << RETRY_MULTIPLIER | 1u << RETRY_MAX | 1u << RETRY_JITTER)

static void copy_schedule(struct task_retry *to, const struct task_retry *from)
{
    free(to->schedule_ms);
    to->schedule_ms = NULL;
    to->schedule_count = from->schedule_count;
    if (from->schedule_count > 0) {
        to->schedule_ms = xcalloc(from->schedule_count, sizeof(*to->schedule_ms));
        memcpy(to->schedule_ms, from->schedule_ms, from->schedule_count * sizeof(*to->schedule_ms));
    }
}

static void copy_member(enum retry_member which, struct task_retry *to, const struct task_retry *from)
{
    switch (which) {
    case RETRY_MAX_ATTEMPTS:
        to->max_attempts = from->max_attempts;
        break;
    case RETRY_INITIAL:
        to->initial_ms = from->initial_ms;
        break;
    case RETRY_MULTIPLIER:
        to->multiplier = from->multiplier;
        break;
    case RETRY_MAX:
        to->max_ms = from->max_ms;
        break;
    case RETRY_JITTER:
        to->jitter = from->jitter;
        break;
    case RETRY_SCHEDULE:
        copy_schedule(to, from);
        break;
    case RETRY_MAX_AGE:
        to->max_age_ms = from->max_age_ms;
        break;
    case RETRY_MEMBER_COUNT:
        break;
    }
}

/* What of the queue's retry counts for this task. A schedule and a backoff exclude each other, so the task's own choice
 * of one sets aside the queue's other. */
static unsigned from_queue(const struct task_retry *queue, const struct task_retry *own)
{
    unsigned set = queue->given & ~own->given;

    if (own->given & 1u << RETRY_SCHEDULE)
        set &= ~BACKOFF;
    if (own->given & BACKOFF)
        set &= ~(1u << RETRY_SCHEDULE);
    return set;
}

void queue_settings_apply(const struct queue_settings *s, struct task *t)
{
    const struct task_retry contract = TASK_RETRY_DEFAULT;
    struct task_retry *own = &t->retry;
    unsigned queue_set = s ? from_queue(&s->retry, own) : 0;

    if (!t->is_timeout_given)
        t->timeout_ms = s && s->timeout_ms > 0 ? s->timeout_ms : TASK_TIMEOUT_DEFAULT_MS;
    for (int i = 0; i < RETRY_MEMBER_COUNT; i++) {
        if ((own->given & 1u << i) == 0)
            copy_member((enum retry_member)i, own, s && queue_set & 1u << i ? &s->retry : &contract);
    }
    if (own->max_ms >= own->initial_ms)
        return;
    /* One of the two is nearer to the client's wish: the task's own before the queue's, the queue's before ours. */
    bool has_initial = own->given & 1u << RETRY_INITIAL;
    bool is_max_kept = (own->given | (has_initial ? 0 : queue_set)) & 1u << RETRY_MAX;

    if (is_max_kept)
        own->initial_ms = own->max_ms;
    else
        own->max_ms = own->initial_ms;
}
