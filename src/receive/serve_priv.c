#include "receive/serve_priv.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "receive/show_priv.h"
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One thread of libmicrohttpd does everything, so nothing here needs a lock; serve_stop() reads the totals after the
 * thread has ended.
 *
 * A body is kept whole, since its signature covers all of it. All bodies under way share one budget, so memory is
 * bounded however many connections send at once; what goes over it is answered 413. */

#define BODY_MAX_BYTES ((size_t)32 * 1024 * 1024)
#define BUDGET_BYTES ((size_t)64 * 1024 * 1024)
#define LINE_MAX_BYTES ((size_t)64 * 1024)
#define CONNECTIONS_MAX 2000u
#define IDLE_S 60u

struct serve {
    struct serve_opts opts;
    struct MHD_Daemon *daemon;
    struct MHD_Response *answer;
    struct MHD_Response *too_large;
    struct serve_totals totals;
    size_t held_bytes; /* of all bodies under way */
    struct buf line;
};

/* A request under way. */
struct request {
    struct buf body;
    bool is_too_large;
    int64_t arrived_ms;
};

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static void count(struct serve *s, const struct shown *shown, enum shown_signature judgement)
{
    int64_t late_ms = 0;

    if (shown->id == NULL) {
        s->totals.others++;
        return;
    }
    s->totals.webhooks++;
    s->totals.right += judgement == SHOWN_RIGHT;
    s->totals.wrong += judgement == SHOWN_WRONG;
    if (show_lateness(shown, &late_ms) && late_ms > s->totals.max_late_ms)
        s->totals.max_late_ms = late_ms;
}

static void show(struct serve *s, const struct shown *shown, enum shown_signature judgement)
{
    buf_clear(&s->line);
    show_request(&s->line, shown, judgement);
    if (buf_status(&s->line) == ERR_OK) {
        (void)fwrite(s->line.data, 1, s->line.len, stdout);
        (void)fflush(stdout);
    } else {
        buf_deinit(&s->line);
    }
}

static enum MHD_Result finish(struct serve *s, struct MHD_Connection *c, const struct request *r, const char *method,
                              const char *url)
{
    struct shown shown = {
        .method = method,
        .target = url,
        .id = header(c, "webhook-id"),
        .attempt = header(c, "Duepost-Attempt"),
        .due = header(c, "Duepost-Due"),
        .timestamp = header(c, "webhook-timestamp"),
        .signature = header(c, "webhook-signature"),
        .body = r->body.data,
        .body_bytes = r->body.len,
        .arrived_ms = r->arrived_ms,
    };
    enum shown_signature judgement = show_judge(&shown, s->opts.secrets);

    if (r->is_too_large)
        return MHD_queue_response(c, MHD_HTTP_CONTENT_TOO_LARGE, s->too_large);
    count(s, &shown, judgement);
    if (!s->opts.is_quiet)
        show(s, &shown, judgement);
    return MHD_queue_response(c, (unsigned)s->opts.status, s->answer);
}

static void drop_body(struct serve *s, struct request *r)
{
    s->held_bytes -= r->body.len;
    buf_deinit(&r->body);
}

static void keep_body(struct serve *s, struct request *r, const char *data, size_t n)
{
    if (!r->is_too_large && s->held_bytes + n <= BUDGET_BYTES) {
        size_t before = r->body.len;
        buf_append(&r->body, data, n);
        s->held_bytes += r->body.len - before;
        if (buf_status(&r->body) == ERR_OK)
            return;
    }
    r->is_too_large = true;
    drop_body(s, r);
}

/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd decides the parameters */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_bytes, void **context)
{
    struct serve *s = cls;
    struct request *r = *context;

    (void)version;
    if (r == NULL) {
        r = xcalloc(1, sizeof(*r));
        buf_init(&r->body, BODY_MAX_BYTES);
        r->arrived_ms = clock_wall_ms();
        *context = r;
        return MHD_YES;
    }
    if (*data_bytes > 0) {
        keep_body(s, r, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return finish(s, c, r, method, url);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode code)
{
    struct request *r = *context;

    (void)c;
    (void)code;
    if (r == NULL)
        return;
    drop_body(cls, r);
    free(r);
    *context = NULL;
}

/* Show a path as it came, "%0A" and all. */
static size_t keep_escapes(void *cls, struct MHD_Connection *c, char *text)
{
    (void)cls;
    (void)c;
    return strlen(text);
}

static struct MHD_Response *make_response(const char *text)
{
    /* Persistent memory is only read, although the parameter is not const. */
    union {
        const char *in;
        void *out;
    } body = {.in = text};

    return MHD_create_response_from_buffer(strlen(text), body.out, MHD_RESPMEM_PERSISTENT);
}

static struct MHD_Daemon *start_daemon(struct serve *s)
{
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | (s->opts.is_ipv6 ? (unsigned)MHD_USE_IPv6 : 0u);

    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, s->opts.listen_fd,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes,
                            NULL, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
                            MHD_OPTION_END);
}

static void serve_free(struct serve *s)
{
    if (s->answer != NULL)
        MHD_destroy_response(s->answer);
    if (s->too_large != NULL)
        MHD_destroy_response(s->too_large);
    buf_deinit(&s->line);
    free(s);
}

enum err serve_start(const struct serve_opts *opts, struct serve **out)
{
    struct serve *s = xcalloc(1, sizeof(*s));

    *out = NULL;
    s->opts = *opts;
    s->totals.max_late_ms = -1;
    buf_init(&s->line, LINE_MAX_BYTES);
    s->answer = make_response("ok\n");
    s->too_large = make_response("the body is over the limit of this receiver\n");
    if (s->answer != NULL && s->too_large != NULL)
        s->daemon = start_daemon(s);
    if (s->daemon == NULL) {
        (void)close(opts->listen_fd);
        serve_free(s);
        return ERR_IO;
    }
    *out = s;
    return ERR_OK;
}

void serve_stop(struct serve **s, struct serve_totals *totals)
{
    MHD_stop_daemon((*s)->daemon); /* closes the socket it listens on */
    *totals = (*s)->totals;
    serve_free(*s);
    *s = NULL;
}
