#include "task/task_json.h"

#include "base/parse.h"
#include "task/headers_priv.h"
#include <string.h>

/* Writing a task as an answer. Every answer to POST goes through here, so it appends to the buffer directly instead
 * of building a tree. Members are in the order of DESIGN section 2; a failed append is remembered by the buffer. */

/* A name or value that needs no escapes: ids, queues, words of our own. */
static void put_plain(struct buf *out, const char *name, const char *value)
{
    buf_puts(out, name);
    buf_putc(out, '"');
    buf_puts(out, value);
    buf_putc(out, '"');
}

static void put_time(struct buf *out, const char *name, int64_t ms)
{
    char text[PARSE_RFC3339_SIZE];

    parse_format_rfc3339(ms, text);
    put_plain(out, name, text);
}

static void put_time_or_null(struct buf *out, const char *name, bool is_set, int64_t ms)
{
    if (is_set) {
        put_time(out, name, ms);
    } else {
        buf_puts(out, name);
        buf_puts(out, "null");
    }
}

static void put_text_or_null(struct buf *out, const char *name, const char *value)
{
    buf_puts(out, name);
    if (value)
        buf_put_json(out, value, strlen(value));
    else
        buf_puts(out, "null");
}

/* The members of an attempt up to its duration, without the braces. */
static void put_attempt(struct buf *out, const struct task_attempt *a)
{
    put_time(out, "\"at\":", a->at_ms);
    buf_puts(out, ",\"status\":");
    if (a->status > 0)
        buf_put_int(out, a->status);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"error\":");
    if (a->error)
        buf_put_json_lossy(out, a->error, strlen(a->error)); /* may hold what the receiver answered */
    else
        buf_puts(out, "null");
    put_text_or_null(out, ",\"error_kind\":", task_error_kind_name(a->error_kind));
    buf_puts(out, ",\"duration_ms\":");
}

static void put_last_attempt(struct buf *out, const struct task *t)
{
    buf_puts(out, ",\"last_attempt\":");
    if (t->history_count == 0) {
        buf_puts(out, "null");
        return;
    }
    buf_putc(out, '{');
    put_attempt(out, &t->history[t->history_count - 1]);
    buf_put_int(out, t->history[t->history_count - 1].duration_us / 1000);
    buf_putc(out, '}');
}

static void put_ms(struct buf *out, int64_t us)
{
    buf_printf(out, "%lld.%03d", (long long)(us / 1000), (int)(us % 1000));
}

static void put_ms_or_null(struct buf *out, const char *name, int64_t us)
{
    buf_puts(out, name);
    if (us >= 0)
        put_ms(out, us);
    else
        buf_puts(out, "null");
}

static void put_history(struct buf *out, const struct task *t)
{
    buf_puts(out, ",\"history\":[");
    for (size_t i = 0; i < t->history_count; i++) {
        const struct task_attempt *a = &t->history[i];

        buf_puts(out, i > 0 ? ",{" : "{");
        put_attempt(out, a);
        put_ms(out, a->duration_us);
        put_ms_or_null(out, ",\"lateness_ms\":", a->lateness_us);
        put_ms_or_null(out, ",\"dns_ms\":", a->phases.dns_us);
        put_ms_or_null(out, ",\"connect_ms\":", a->phases.connect_us);
        put_ms_or_null(out, ",\"tls_ms\":", a->phases.tls_us);
        put_ms_or_null(out, ",\"first_byte_ms\":", a->phases.first_byte_us);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void put_headers(struct buf *out, const struct task *t)
{
    buf_puts(out, ",\"headers\":{");
    for (size_t i = 0; i < t->header_count; i++) {
        const struct task_header *h = &t->headers[i];
        const char *shown = headers_is_secret(h->name) ? "***" : h->value;

        if (i > 0)
            buf_putc(out, ',');
        buf_put_json(out, h->name, strlen(h->name));
        buf_putc(out, ':');
        buf_put_json(out, shown, strlen(shown));
    }
    buf_putc(out, '}');
}

/* Nothing when there is no body, or when it was dropped after delivery. */
static void put_body(struct buf *out, const struct task *t)
{
    if (!t->body)
        return;
    switch (t->body_kind) {
    case TASK_BODY_NONE:
        break;
    case TASK_BODY_PAYLOAD:
        buf_puts(out, ",\"payload\":");
        buf_append(out, t->body, t->body_bytes);
        break;
    case TASK_BODY_TEXT:
        buf_puts(out, ",\"body\":");
        buf_put_json(out, t->body, t->body_bytes);
        break;
    case TASK_BODY_BYTES:
        buf_puts(out, ",\"body_base64\":\"");
        buf_put_base64(out, t->body, t->body_bytes);
        buf_putc(out, '"');
        break;
    }
}

/* All that every answer has, without the last brace. */
static void put_summary(struct buf *out, const struct task *t)
{
    bool is_waiting = t->state == TASK_SCHEDULED || t->state == TASK_READY;
    int64_t next_ms = t->attempts == 0 ? t->run_at_ms : t->when_ms;

    put_plain(out, "{\"id\":", t->id);
    put_plain(out, ",\"queue\":", t->queue);
    put_plain(out, ",\"state\":", task_state_name(t->state));
    buf_puts(out, ",\"url\":");
    buf_put_json(out, t->url, strlen(t->url));
    put_plain(out, ",\"method\":", task_method_name(t->method));
    put_time(out, ",\"run_at\":", t->run_at_ms);
    put_time(out, ",\"created_at\":", t->created_at_ms);
    buf_puts(out, ",\"attempts\":");
    buf_put_int(out, t->attempts);
    buf_puts(out, ",\"max_attempts\":");
    buf_put_int(out, t->retry.max_attempts);
    put_time_or_null(out, ",\"next_attempt_at\":", is_waiting, next_ms);
    put_time_or_null(out, ",\"expires_at\":", t->has_expiry, t->expires_ms);
    put_time_or_null(out, ",\"finished_at\":", task_state_is_finished(t->state), t->when_ms);
    buf_puts(out, ",\"cancel_requested\":");
    buf_puts(out, t->cancel_requested ? "true" : "false");
    put_last_attempt(out, t);
}

void task_json_write(struct buf *out, const struct task *t, enum task_json_form form)
{
    put_summary(out, t);
    if (form == TASK_JSON_FULL) {
        put_history(out, t);
        put_text_or_null(out, ",\"on_success\":", t->on_success);
        put_text_or_null(out, ",\"on_failure\":", t->on_failure);
        put_text_or_null(out, ",\"traceparent\":", t->traceparent);
        put_headers(out, t);
        put_body(out, t);
    }
    buf_putc(out, '}');
}

void task_json_write_created(struct buf *out, const struct task *t, bool is_durable)
{
    put_summary(out, t);
    buf_puts(out, ",\"durable\":");
    buf_puts(out, is_durable ? "true" : "false");
    buf_putc(out, '}');
}
