#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/buf.h"
#include "base/endpoint.h"
#include "base/err.h"
#include "base/netaddr.h"
#include "store/store.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The HTTP API: one thread that owns its connections, polls libmicrohttpd's epoll descriptor and its own queue of
 * finished store operations, and never waits for Redis. */

struct server;

struct server_opts {
    const char *host; /* borrowed: "127.0.0.1", "::", a name */
    int port;         /* 0: any */
    size_t max_body_bytes;
    size_t connection_max;
    char *tls_cert; /* keeps; both PEM texts that pass tls_check(); NULL: plain HTTP. libmicrohttpd takes no const */
    char *tls_key;
    const char *const *tokens;         /* keeps; NULL-terminated; NULL: no auth */
    const char *const *read_tokens;    /* keeps; NULL-terminated; good for GET and HEAD only; NULL: none */
    const struct cidr_list *allow_net; /* keeps */
    enum task_durability durability;   /* of a task that says nothing of it */
    const char *openapi;               /* keeps; the file's text */
    size_t openapi_bytes;
    const char *version; /* keeps */
    /* Append the parts of GET /stats this process knows, as JSON members with a comma after each:
     * "lateness_ms":{...},"mover":{...},"workers":{...}, . Called in the server's thread. */
    void (*write_stats)(void *ctx, struct buf *out);
    /* Append what this process counts to GET /metrics (base/exposition.h). Called in the server's thread. */
    void (*write_metrics)(void *ctx, struct buf *out);
    /* Append the objects of GET /destinations, separated by commas. */
    void (*write_destinations)(void *ctx, struct buf *out);
    /* Append reasons why nothing is delivered now, as JSON strings separated by commas; nothing when all is well. */
    void (*write_unready)(void *ctx, struct buf *out);
    void *ctx;
};

/* Binds and listens: clients wait in the backlog from now on. ERR_IO with one line in `detail` when the address cannot
 * be used. */
#define SERVER_DETAIL_SIZE 200
enum err server_create(const struct server_opts *opts, struct server **out, char detail[SERVER_DETAIL_SIZE]) NODISCARD;

/* Start the thread that answers, from this store (keeps). ERR_IO when the system has no thread left. */
enum err server_begin(struct server *s, struct store *store) NODISCARD;

/* Where it listens: the address it is really bound to, and the port that was taken. Borrowed. */
const struct endpoint *server_endpoint(const struct server *s);
int server_port(const struct server *s);

/* Take no new connections and requests from now on (503 shutting_down on open ones), and end when those under way are
 * answered, at deadline_mono_ms at the latest. Returns at once; another call sets another deadline. Threads: any. */
void server_quit(struct server *s, int64_t deadline_mono_ms);

/* Whether it has ended: server_stop will not wait. Threads: any. */
bool server_is_done(const struct server *s);

/* server_quit, wait for the end, close everything and free. */
void server_stop(struct server **s, int64_t deadline_mono_ms);

#endif
