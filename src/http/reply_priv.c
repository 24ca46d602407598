#include "http/reply_priv.h"
#include "base/clock.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Answers and their wire form.
 *
 * A problem is written in one place, reply_put_problem(), so that every error of every call has the same shape: type,
 * title, status, detail, code, and what the error adds (`state`, `errors`). The texts come from the
 * error table in base/err.h and from the edge itself, never from Redis or a library. */

#define SUMMARY_SIZE 400 /* of the only fault; a longer one is cut, `errors` has it whole */

void reply_init(struct reply *r, size_t body_max_bytes)
{
    memset(r, 0, sizeof(*r));
    buf_init(&r->body, body_max_bytes);
}

void reply_deinit(struct reply *r)
{
    buf_deinit(&r->body);
}

static void begin(struct reply *r, int status, const char *content_type)
{
    if (buf_status(&r->body) == ERR_OK)
        buf_clear(&r->body);
    else
        buf_deinit(&r->body); /* only this forgets that an earlier text did not fit */
    r->status = status;
    r->content_type = content_type;
    r->location[0] = '\0';
    r->has_retry_after = false;
    r->is_challenge = false;
}

struct buf *reply_begin(struct reply *r, int status, const char *content_type)
{
    begin(r, status, content_type);
    return &r->body;
}

struct buf *reply_json(struct reply *r, int status)
{
    return reply_begin(r, status, REPLY_JSON);
}

void reply_text(struct reply *r, const char *content_type, const char *data, size_t n)
{
    begin(r, 200, content_type);
    buf_append(&r->body, data, n);
}

void reply_empty(struct reply *r, int status)
{
    begin(r, status, NULL);
}

static void put_text(struct buf *b, const char *s)
{
    buf_put_json_lossy(b, s, strlen(s));
}

static const char *subject(const char *key, const struct fault *f)
{
    if (f->pointer && f->pointer[0] != '\0')
        return f->pointer;
    return strcmp(key, "parameter") == 0 ? "A parameter without a name" : "The body";
}

static void put_summary(struct buf *b, const char *key, const struct faults *faults)
{
    char detail[SUMMARY_SIZE];
    size_t count = faults->count + faults->dropped;

    if (count == 1)
        (void)snprintf(detail, sizeof(detail), "%s: %s", subject(key, &faults->items[0]), faults->items[0].detail);
    else if (faults->dropped == 0)
        (void)snprintf(detail, sizeof(detail), "%zu faults, see errors", count);
    else
        (void)snprintf(detail, sizeof(detail), "%zu faults, see errors for the first %zu", count, faults->count);
    put_text(b, detail);
}

static void put_faults(struct buf *b, const char *key, const struct faults *faults)
{
    buf_puts(b, ",\"errors\":[");
    for (size_t i = 0; i < faults->count; i++) {
        buf_puts(b, i == 0 ? "{\"" : ",{\"");
        buf_puts(b, key);
        buf_puts(b, "\":");
        put_text(b, faults->items[i].pointer ? faults->items[i].pointer : "");
        buf_puts(b, ",\"detail\":");
        put_text(b, faults->items[i].detail);
        buf_putc(b, '}');
    }
    buf_putc(b, ']');
}

void reply_put_problem(struct buf *out, const struct problem *p)
{
    buf_puts(out, "{\"type\":\"about:blank\",\"title\":");
    put_text(out, err_title(p->err));
    buf_puts(out, ",\"status\":");
    buf_put_int(out, err_status(p->err));
    buf_puts(out, ",\"detail\":");
    if (p->faults)
        put_summary(out, p->fault_key, p->faults);
    else
        put_text(out, p->detail ? p->detail : err_title(p->err));
    buf_puts(out, ",\"code\":");
    put_text(out, err_code(p->err));
    if (p->state) {
        buf_puts(out, ",\"state\":");
        put_text(out, p->state);
    }
    if (p->faults)
        put_faults(out, p->fault_key, p->faults);
    buf_putc(out, '}');
}

void reply_with(struct reply *r, const struct problem *p)
{
    int status = err_status(p->err);

    begin(r, status, REPLY_PROBLEM);
    r->is_challenge = status == 401;
    r->has_retry_after = status == 503;
    reply_put_problem(&r->body, p);
    buf_putc(&r->body, '\n');
}

void reply_problem(struct reply *r, enum err err, const char *detail)
{
    reply_with(r, &(struct problem){.err = err, .detail = detail});
}

void reply_problem_state(struct reply *r, enum err err, const char *detail, const char *state)
{
    reply_with(r, &(struct problem){.err = err, .detail = detail, .state = state});
}

void reply_problem_faults(struct reply *r, enum err err, const char *key, const struct faults *faults)
{
    if (faults->count + faults->dropped == 0) { /* memory, not what was sent, was at fault */
        reply_problem(r, err, NULL);
        return;
    }
    reply_with(r, &(struct problem){.err = err, .fault_key = key, .faults = faults});
}

void reply_finish(struct reply *r)
{
    enum err err = buf_status(&r->body);

    if (err == ERR_OK)
        return;
    if (err == ERR_NOMEM)
        reply_problem(r, ERR_NOMEM, "There was no memory for the answer");
    else
        reply_problem(r, ERR_INTERNAL, "The answer is larger than this gateway sends");
}

size_t reply_headers(const struct reply *r, struct reply_header out[REPLY_HEADERS_MAX])
{
    size_t n = 0;

    if (r->content_type)
        out[n++] = (struct reply_header){"Content-Type", r->content_type};
    if (r->location[0] != '\0')
        out[n++] = (struct reply_header){"Location", r->location};
    if (r->allow)
        out[n++] = (struct reply_header){"Allow", r->allow};
    if (r->is_challenge)
        out[n++] = (struct reply_header){"WWW-Authenticate", "Bearer realm=\"duepost\""};
    if (r->has_retry_after)
        out[n++] = (struct reply_header){"Retry-After", "1"};
    if (r->must_close)
        out[n++] = (struct reply_header){"Connection", "close"};
    return n;
}

static void put_date(struct buf *out)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm parts = {0};
    char text[64];

    if (gmtime_r(&now, &parts) && strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts) > 0)
        buf_printf(out, "Date: %s\r\n", text);
}

void reply_put_wire(const struct reply *r, const char *reason, struct buf *out)
{
    struct reply_header headers[REPLY_HEADERS_MAX];
    size_t count = reply_headers(r, headers);

    buf_printf(out, "HTTP/1.1 %d %s\r\n", r->status, reason);
    put_date(out);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s: %s\r\n", headers[i].name, headers[i].value);
    if (!r->must_close)
        buf_puts(out, "Connection: close\r\n");
    buf_printf(out, "Content-Length: %zu\r\n\r\n", r->body.len);
    if (!r->is_to_head)
        buf_append(out, r->body.data, r->body.len);
}
