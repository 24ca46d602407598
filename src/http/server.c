#include "http/server.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include "http/admit_priv.h"
#include "http/answer_priv.h"
#include "http/connection_priv.h"
#include "http/listen_priv.h"
#include "http/outbox_priv.h"
#include "http/request_priv.h"
#include "http/tls.h"
#include <malloc.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The server's thread: libmicrohttpd without a thread of its own, driven by our loop.
 *
 * One turn: wait for libmicrohttpd's epoll descriptor or for finished operations; answer what the store has finished;
 * let libmicrohttpd read, call handlers and write (MHD_run). The operations of a turn go to the store a few at a
 * time, what is left at its end.
 *
 * A request passes through on_request_line, on_call (head, body pieces, end) and on_completed. An operation is
 * submitted at the end of the body, but the connection is suspended only at the next call, which libmicrohttpd makes in
 * the next turn: a connection suspended at once would be read again when it is resumed, and a client that has sent its
 * request and closed its half of the connection would be taken for gone and get no answer. In between the client may
 * really go; so the request is held by its operation too (request_priv.h).
 *
 * libmicrohttpd takes no answer in the middle of a body, and has no memory for one when the head fills its pool. What
 * must not be read on is answered on the socket (answer_on_socket()), and the rest is only read and dropped, for two
 * seconds at most, so that the answer is not lost in a reset.
 *
 * Stopping: no new connections, 503 for new requests, the rest is finished; MHD_stop_daemon aborts while a connection
 * is suspended, and none is once every operation has come back, which the store promises by each one's deadline. */

/* libmicrohttpd's memory for a connection: heads, pieces of bodies, and the head of an answer. */
#define POOL_BYTES ((size_t)(HEAD_MAX_BYTES + 1024))
#define EXCESS_CONNECTIONS 64 /* over the limit, to be told so */
#define TURN_MAX_MS 250       /* after its limit libmicrohttpd accepts only at the next MHD_run */
#define LARGE_PEAK_BYTES ((size_t)8 * 1024 * 1024)
#define REPLY_FACTOR 6 /* a byte of a body is at most so many in JSON, \u0001 */
#define REPLY_SPARE_BYTES ((size_t)16 * 1024 * 1024)

struct server {
    struct request_env env;
    struct MHD_Daemon *daemon;
    struct loop *loop;
    struct thread *thread;
    int listen_fd;
    struct endpoint bound;
    struct connections connections;
    size_t request_count;   /* under way */
    size_t operation_count; /* with the store */
    size_t large_bytes, large_peak_bytes;
    struct outbox outbox;
    int64_t now_mono_ms; /* of this turn */
    int64_t next_sweep_mono_ms;
    atomic_llong stop_deadline_mono_ms; /* written before stop_asked is set, and again in a hurry */
    atomic_bool stop_asked;
    atomic_bool is_done;
};

/* ---- what libmicrohttpd calls ---- */

/* The connection lets go of its request: answered whole, or never to be. */
static void end_request(struct server *s, struct request *r)
{
    connection_end(r->connection, s->now_mono_ms);
    r->connection = NULL;
    r->mhd = NULL;
    s->request_count--;
    request_release(&r);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *s = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        *socket_context = connections_add(&s->connections, info->connect_fd, s->now_mono_ms);
    } else {
        struct connection *c = *socket_context;

        *socket_context = NULL;
        if (c->request) /* libmicrohttpd does not complete one whose head it could not keep */
            end_request(s, c->request);
        connections_remove(&s->connections, &c);
    }
}

static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

/* The request line is complete. What this returns is the request's context from now on. */
static void *on_request_line(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct server *s = cls;
    struct request *r = request_create(&s->env, target);

    r->mhd = mhd;
    r->connection = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    connection_begin(r->connection, r);
    s->request_count++;
    /* At once: libmicrohttpd may fail to keep the parameters, and then it just hangs up. */
    if (!admit_target(r) && answer_on_socket(r, s->now_mono_ms) == MHD_YES)
        r->phase = REQUEST_REFUSED_HEAD;
    return r;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
    struct server *s = cls;
    struct request *r = *context;

    (void)mhd;
    (void)code;
    *context = NULL;
    if (r)
        end_request(s, r);
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    head_note(cls, name, value);
    return MHD_YES;
}

/* libmicrohttpd keeps cookies twice. */
static enum MHD_Result on_cookie(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    size_t *bytes = cls;

    (void)kind;
    *bytes += FIELD_BYTES + strlen(name) + (value ? strlen(value) : 0);
    return MHD_YES;
}

static enum MHD_Result on_head(struct server *s, struct request *r, const char *method, const char *version)
{
    size_t bytes = MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    int count = MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, on_header, &r->head);

    (void)MHD_get_connection_values(r->mhd, MHD_COOKIE_KIND, on_cookie, &bytes);
    r->phase = REQUEST_BODY;
    r->head.is_http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    r->reply.is_to_head = strcmp(method, "HEAD") == 0;
    enum admit verdict = admit_head(r, method, r->connection->is_excess);
    if (!admit_size(r, bytes, (size_t)count))
        return answer_on_socket(r, s->now_mono_ms);
    switch (verdict) {
    case ADMIT_ANSWER_LATER:
        r->phase = REQUEST_ANSWERED;
        break;
    case ADMIT_ANSWER_NOW:
        return answer_queue(r);
    case ADMIT_REFUSE_BODY:
        return answer_on_socket(r, s->now_mono_ms);
    case ADMIT_BODY:
    case ADMIT_COUNT:
        break;
    }
    return MHD_YES;
}

static enum MHD_Result on_body(struct server *s, struct request *r, const char *data, size_t n)
{
    enum err err = ERR_OK;

    if (r->phase == REQUEST_BODY) {
        err = request_add_body(r, data, n);
        if (err != ERR_OK)
            admit_refuse_body(r, err);
    } else if (r->phase == REQUEST_ANSWERED) {
        err = request_skip_body(r, n);
    }
    return err == ERR_OK ? MHD_YES : answer_on_socket(r, s->now_mono_ms);
}

static void gather_operation(struct server *s, struct request *r)
{
    outbox_add(&s->outbox, r);
    s->operation_count++;
}

/* Call the handler; it answers or leaves an operation for the store. */
static enum MHD_Result on_end(struct server *s, struct request *r)
{
    if ((r->match.route->flags & (ROUTE_BODY | ROUTE_MAYBE_BODY)) || admit_no_body(r))
        r->match.route->handle(r);
    if (r->phase != REQUEST_WAITING)
        return answer_queue(r);
    gather_operation(s, r);
    return MHD_YES;
}

/* NOLINTNEXTLINE(readability-function-size): the library decides the parameters */
static enum MHD_Result on_call(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *data, size_t *n, void **context)
{
    struct server *s = cls;
    struct request *r = *context;

    (void)url;
    if (!r)
        return MHD_NO;
    if (r->phase == REQUEST_HEAD)
        return on_head(s, r, method, version);
    if (*n > 0) {
        size_t given = *n;

        *n = 0;
        return on_body(s, r, data, given);
    }
    switch (r->phase) {
    case REQUEST_REFUSED_HEAD:
        r->phase = REQUEST_REFUSED;
        return MHD_YES;
    case REQUEST_BODY:
        return on_end(s, r);
    case REQUEST_ANSWERED:
        return answer_queue(r);
    case REQUEST_WAITING:
        r->phase = REQUEST_SUSPENDED;
        MHD_suspend_connection(mhd);
        return MHD_YES;
    case REQUEST_HEAD:
    case REQUEST_REFUSED: /* its body has ended, and it was answered long ago */
    case REQUEST_SUSPENDED:
    case REQUEST_PHASE_COUNT:
        break;
    }
    return MHD_NO;
}

/* ---- the loop ---- */

static void finish_operation(struct server *s, struct request *r)
{
    bool is_suspended = r->phase == REQUEST_SUSPENDED;

    s->operation_count--;
    r->phase = REQUEST_ANSWERED;
    r->finish(r);                      /* also when the client is gone: it frees what the store gave */
    if (r->phase == REQUEST_WAITING) { /* it asked for another one */
        gather_operation(s, r);
        if (is_suspended)
            r->phase = REQUEST_SUSPENDED;
    } else if (is_suspended) {
        MHD_resume_connection(r->mhd);
    }
    request_release(&r);
}

static void on_operations_done(void *ctx, int fd, unsigned events)
{
    struct server *s = ctx;
    struct queue_node *node = queue_take_all(s->env.done);

    (void)fd;
    (void)events;
    while (node) {
        struct store_op *op = (struct store_op *)node;

        node = node->next;
        finish_operation(s, op->owner);
    }
}

/* MHD_run() follows every turn, so there is nothing to do but wake up. */
static void on_daemon_ready(void *ctx, int fd, unsigned events)
{
    (void)ctx;
    (void)fd;
    (void)events;
}

static int64_t turn_timeout_ms(const struct server *s)
{
    MHD_UNSIGNED_LONG_LONG wanted_ms = 0;
    int64_t deadline_ms;
    int64_t timeout_ms = TURN_MAX_MS;

    if (MHD_get_timeout(s->daemon, &wanted_ms) == MHD_YES && wanted_ms < TURN_MAX_MS)
        timeout_ms = (int64_t)wanted_ms;
    if (outbox_next_mono_ms(&s->outbox) < s->now_mono_ms + timeout_ms)
        timeout_ms = outbox_next_mono_ms(&s->outbox) - s->now_mono_ms;
    deadline_ms = atomic_load(&s->stop_deadline_mono_ms);
    if (s->env.is_stopping && s->now_mono_ms + timeout_ms > deadline_ms)
        timeout_ms = deadline_ms > s->now_mono_ms ? deadline_ms - s->now_mono_ms : 1;
    return timeout_ms;
}

static void begin_stop(struct server *s)
{
    s->env.is_stopping = true;
    (void)MHD_quiesce_daemon(s->daemon); /* gives the listening socket back */
    (void)close(s->listen_fd);
    s->listen_fd = -1;
}

static bool is_stopped(const struct server *s)
{
    if (!s->env.is_stopping || s->operation_count > 0)
        return false;
    return s->request_count == 0 || s->now_mono_ms >= atomic_load(&s->stop_deadline_mono_ms);
}

/* Whether most of what large bodies held is free again, and it was much. */
static bool large_bodies_have_gone(struct server *s)
{
    if (s->large_peak_bytes < LARGE_PEAK_BYTES || s->large_bytes > s->large_peak_bytes / 4)
        return false;
    s->large_peak_bytes = s->large_bytes;
    return true;
}

static void turn(struct server *s)
{
    loop_turn(s->loop, turn_timeout_ms(s) * 1000);
    s->now_mono_ms = clock_mono_ms();
    if (!s->env.is_stopping && atomic_load(&s->stop_asked))
        begin_stop(s);
    (void)MHD_run(s->daemon);
    outbox_submit(&s->outbox, s->now_mono_ms, s->env.is_stopping);
    if (s->now_mono_ms >= s->next_sweep_mono_ms) {
        connections_sweep(&s->connections, s->now_mono_ms);
        bool have_gone = large_bodies_have_gone(s);
        if (connections_have_fallen(&s->connections) || have_gone)
            (void)malloc_trim(0); /* by itself the allocator keeps what connections and bodies once took */
        s->next_sweep_mono_ms = s->now_mono_ms + CONNECTION_SWEEP_MS;
    }
}

static void run(void *ctx)
{
    struct server *s = ctx;

    do {
        while (!is_stopped(s))
            turn(s);
        (void)MHD_run(s->daemon); /* what was resumed in the last turn; a body may end here, too */
    } while (s->operation_count > 0);
    atomic_store(&s->is_done, true);
}

/* ---- start and stop ---- */

static enum err start_daemon(struct server *s, char detail[SERVER_DETAIL_SIZE])
{
    unsigned limit = (unsigned)(s->connections.max + EXCESS_CONNECTIONS);
    const union MHD_DaemonInfo *info = NULL;
    char priorities[] = TLS_PRIORITIES;
    struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->env.opts.tls_cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, s->env.opts.tls_key},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
                                   {MHD_OPTION_END, 0, NULL}};
    bool is_tls = s->env.opts.tls_cert != NULL;

    s->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (is_tls ? MHD_USE_TLS : 0U), 0, NULL, NULL,
                                 on_call, s, MHD_OPTION_LISTEN_SOCKET, s->listen_fd, MHD_OPTION_CONNECTION_LIMIT, limit,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES, MHD_OPTION_URI_LOG_CALLBACK,
                                 on_request_line, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
                                 on_completed, s, MHD_OPTION_ARRAY, is_tls ? tls : plain, MHD_OPTION_END);
    if (s->daemon)
        info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info) {
        (void)snprintf(detail, SERVER_DETAIL_SIZE, "the HTTP server does not start");
        return ERR_IO;
    }
    loop_set(s->loop, info->epoll_fd, LOOP_READ, on_daemon_ready, s);
    loop_set(s->loop, queue_fd(s->env.done), LOOP_READ, on_operations_done, s);
    return ERR_OK;
}

static void destroy(struct server *s)
{
    if (s->daemon)
        MHD_stop_daemon(s->daemon); /* closes the listening socket too, unless begin_stop() took it back */
    else if (s->listen_fd != -1)
        (void)close(s->listen_fd);
    loop_destroy(&s->loop);
    queue_destroy(&s->env.done);
    free(s);
}

enum err server_create(const struct server_opts *opts, struct server **out, char detail[SERVER_DETAIL_SIZE])
{
    enum err err = ERR_OK;
    struct server *s = xcalloc(1, sizeof(*s));

    *out = NULL;
    detail[0] = '\0';
    s->env.opts = *opts;
    s->env.started_mono_ms = clock_mono_ms();
    s->env.reply_max_bytes = opts->max_body_bytes * REPLY_FACTOR + REPLY_SPARE_BYTES;
    s->env.done = queue_create();
    s->env.large_bytes = &s->large_bytes;
    s->env.large_peak_bytes = &s->large_peak_bytes;
    s->loop = loop_create();
    s->connections.max = opts->connection_max;
    s->now_mono_ms = s->env.started_mono_ms;
    err = listen_open(opts->host, opts->port, &s->listen_fd, &s->bound, detail);
    if (err != ERR_OK)
        goto out;
    err = start_daemon(s, detail);
out:
    if (err != ERR_OK)
        destroy(s);
    else
        *out = s;
    return err;
}

enum err server_begin(struct server *s, struct store *store)
{
    s->env.store = store;
    s->outbox.store = store;
    return thread_start("http", run, s, &s->thread);
}

const struct endpoint *server_endpoint(const struct server *s)
{
    return &s->bound;
}

int server_port(const struct server *s)
{
    return s->bound.port;
}

void server_quit(struct server *s, int64_t deadline_mono_ms)
{
    atomic_store(&s->stop_deadline_mono_ms, deadline_mono_ms);
    atomic_store(&s->stop_asked, true);
    loop_wake(s->loop);
}

bool server_is_done(const struct server *s)
{
    return atomic_load(&s->is_done);
}

void server_stop(struct server **s, int64_t deadline_mono_ms)
{
    struct server *self = *s;

    *s = NULL;
    if (!self)
        return;
    server_quit(self, deadline_mono_ms);
    thread_join(&self->thread);
    destroy(self);
}
