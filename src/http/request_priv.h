#ifndef HTTP_REQUEST_PRIV_H
#define HTTP_REQUEST_PRIV_H

#include "http/head_priv.h"
#include "http/reply_priv.h"
#include "http/route_priv.h"
#include "http/server.h"
#include "store/store.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request, from its request line to the last byte of its answer.
 *
 * It is the context that libmicrohttpd carries, and it holds the store operation that is under way for it. So it has up
 * to two holders, the connection and the operation, and is freed when the last one lets go. Threads: the server's; the
 * store's thread touches nothing but `op`. */

struct connection;
struct MHD_Connection;

enum request_phase {
    REQUEST_HEAD = 0,   /* its headers are still coming */
    REQUEST_BODY,       /* its body is read */
    REQUEST_ANSWERED,   /* the reply is ready; what is left of the body is read away first */
    REQUEST_REFUSED,    /* was answered on the socket in the middle of its body; what still comes is read away */
    REQUEST_WAITING,    /* its operation is with the store */
    REQUEST_SUSPENDED,  /* the same, and libmicrohttpd has suspended the connection */
    REQUEST_PHASE_COUNT /* number of phases, not one of them */
};

/* What requests need of the server. */
struct request_env {
    struct server_opts opts;
    struct store *store;
    int64_t started_mono_ms;
    size_t reply_max_bytes;
    struct queue *done; /* operations the store has finished */
    bool is_stopping;
};

struct request {
    struct store_op op; /* first member: an operation that comes back is its request */
    const struct request_env *env;
    enum request_phase phase;
    int holders;

    struct head head;
    struct route_match match;
    char *body; /* NULL: empty; NUL-terminated otherwise */
    size_t body_bytes;
    size_t body_capacity;

    struct reply reply;
    struct task *task;                 /* owned; the one to create */
    struct store_key key;              /* of the task to create, when it has an Idempotency-Key */
    void (*finish)(struct request *r); /* answers once the operation is done */

    struct connection *connection; /* NULL once it is gone */
    struct MHD_Connection *mhd;    /* NULL once it is gone */
    int64_t began_mono_ms;
    char target[]; /* as in the request line */
};

_Static_assert(sizeof(struct request) <= 1024, "a request stays small: there is one for each request under way");

/* Held once, by the connection. Aborts when out of memory: the target is bounded by libmicrohttpd's buffer. */
struct request *request_create(const struct request_env *env, const char *target);

/* One holder lets go; sets *r NULL; NULL-safe. */
void request_release(struct request **r);

/* Add to the body. ERR_TOO_BIG past the limit, ERR_NOMEM; the body is dropped then. */
enum err request_add_body(struct request *r, const char *data, size_t n) NODISCARD;
void request_drop_body(struct request *r);

/* Count the piece of a body that nobody wants. ERR_TOO_BIG past the limit. */
enum err request_skip_body(struct request *r, size_t n) NODISCARD;

/* Ask the store; `finish` is called in the server's thread when it has answered, at the latest after wait_ms, and fills
 * the reply from r->op. The caller has filled what this kind of operation takes. The operation holds the request. */
void request_submit(struct request *r, enum store_kind kind, int64_t wait_ms, void (*finish)(struct request *r));

/* Answer for a store operation that failed in a way that is not this call's own. */
void request_reply_store_fault(struct request *r);

#endif
