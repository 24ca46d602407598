#include "http/reply_priv.h"
#include "base/clock.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Answers and their wire form.
 *
 * A problem's body is written in one place, begin_problem() to end_problem(), so that every error of every call has the
 * same shape: type, title, status, detail, code, and what the error adds (`state`, `errors`). The texts come from the
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

struct buf *reply_json(struct reply *r, int status)
{
    begin(r, status, REPLY_JSON);
    return &r->body;
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

static void begin_problem(struct reply *r, enum err err, const char *detail)
{
    int status = err_status(err);

    begin(r, status, REPLY_PROBLEM);
    r->is_challenge = status == 401;
    r->has_retry_after = status == 503;
    buf_puts(&r->body, "{\"type\":\"about:blank\",\"title\":");
    put_text(&r->body, err_title(err));
    buf_puts(&r->body, ",\"status\":");
    buf_put_int(&r->body, status);
    buf_puts(&r->body, ",\"detail\":");
    put_text(&r->body, detail);
    buf_puts(&r->body, ",\"code\":");
    put_text(&r->body, err_code(err));
}

static void end_problem(struct reply *r)
{
    buf_puts(&r->body, "}\n");
}

void reply_problem(struct reply *r, enum err err, const char *detail)
{
    begin_problem(r, err, detail);
    end_problem(r);
}

void reply_problem_state(struct reply *r, enum err err, const char *detail, const char *state)
{
    begin_problem(r, err, detail);
    buf_puts(&r->body, ",\"state\":");
    put_text(&r->body, state);
    end_problem(r);
}

static const char *subject(const struct fault *f)
{
    return f->pointer && f->pointer[0] != '\0' ? f->pointer : "The body";
}

void reply_problem_faults(struct reply *r, enum err err, const char *key, const struct faults *faults)
{
    char detail[SUMMARY_SIZE];
    size_t count = faults->count + faults->dropped;

    if (count == 1)
        (void)snprintf(detail, sizeof(detail), "%s: %s", subject(&faults->items[0]), faults->items[0].detail);
    else if (faults->dropped == 0)
        (void)snprintf(detail, sizeof(detail), "%zu faults, see errors", count);
    else
        (void)snprintf(detail, sizeof(detail), "%zu faults, see errors for the first %zu", count, faults->count);
    begin_problem(r, err, detail);
    buf_puts(&r->body, ",\"errors\":[");
    for (size_t i = 0; i < faults->count; i++) {
        buf_puts(&r->body, i == 0 ? "{\"" : ",{\"");
        buf_puts(&r->body, key);
        buf_puts(&r->body, "\":");
        put_text(&r->body, faults->items[i].pointer ? faults->items[i].pointer : "");
        buf_puts(&r->body, ",\"detail\":");
        put_text(&r->body, faults->items[i].detail);
        buf_putc(&r->body, '}');
    }
    buf_putc(&r->body, ']');
    end_problem(r);
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
    buf_append(out, r->body.data, r->body.len);
}
