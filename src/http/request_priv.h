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
    REQUEST_HEAD = 0,     /* its headers are still coming */
    REQUEST_BODY,         /* its body is read */
    REQUEST_ANSWERED,     /* the reply is ready; what is left of the body is read away first */
    REQUEST_REFUSED_HEAD, /* was answered on the socket before its head had ended; what still comes is read away */
    REQUEST_REFUSED,      /* was answered on the socket in the middle of its body; what still comes is read away */
    REQUEST_WAITING,      /* its operation is with the store */
    REQUEST_SUSPENDED,    /* the same, and libmicrohttpd has suspended the connection */
    REQUEST_PHASE_COUNT   /* number of phases, not one of them */
};

/* What requests need of the server. */
struct request_env {
    struct server_opts opts;
    struct store *store;
    int64_t started_mono_ms;
    size_t reply_max_bytes;
    struct queue *done; /* operations the store has finished */
    bool is_stopping;
    size_t *large_bytes;      /* what bodies hold beyond max-body, all together */
    size_t *large_peak_bytes; /* the most that was since somebody set it to 0 */
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
    size_t large_bytes; /* what of env->large_bytes is this body's */

    struct reply reply;
    struct task *task;                 /* owned; the one to create */
    struct store_key key;              /* of the task to create, when it has an Idempotency-Key */
    void (*finish)(struct request *r); /* once the operation is done: answers, or submits the next one */
    struct store_op *first_part;       /* a chain that goes to the store instead of `op`; NULL: there is none */
    struct store_op *last_part;
    void *work; /* owned; of a call that takes several operations */
    void (*destroy_work)(void *work);

    struct connection *connection; /* NULL once it is gone */
    struct MHD_Connection *mhd;    /* NULL once it is gone */
    int64_t began_mono_ms;
    int64_t begin_mono_ms; /* when its operation goes to the store; 0: at once */
    char target[];         /* as in the request line */
};

_Static_assert(sizeof(struct request) <= 1024, "a request stays small: there is one for each request under way");

/* Held once, by the connection. Aborts when out of memory: the target is bounded by libmicrohttpd's buffer. */
struct request *request_create(const struct request_env *env, const char *target);

/* One holder lets go; sets *r NULL; NULL-safe. */
void request_release(struct request **r);

/* How many bytes its body may have. */
size_t request_body_max(const struct request *r);

/* Add to the body. ERR_TOO_BIG past the limit, ERR_NOMEM; the body is dropped then. */
enum err request_add_body(struct request *r, const char *data, size_t n) NODISCARD;
void request_drop_body(struct request *r);

/* Count the piece of a body that nobody wants. ERR_TOO_BIG past the limit. */
enum err request_skip_body(struct request *r, size_t n) NODISCARD;

/* Give the request what its call keeps from one operation to the next. */
void request_keep(struct request *r, void *work, void (*destroy)(void *work));

/* Whether nobody waits for the answer any more, or soon will not: a call of many steps ends then. */
bool request_is_given_up(const struct request *r);

/* Ask the store; `finish` is called in the server's thread when it has answered, at the latest after wait_ms, and fills
 * the reply from r->op. The caller has filled what this kind of operation takes. The operation holds the request. */
void request_submit(struct request *r, enum store_kind kind, int64_t wait_ms, void (*finish)(struct request *r));

/* The same in `delay_ms`, from when on wait_ms counts; without the delay when the server stops meanwhile. */
void request_submit_later(struct request *r, int64_t delay_ms, enum store_kind kind, int64_t wait_ms,
                          void (*finish)(struct request *r));

/* Ask the store for a chain of operations, which are the caller's own. `op` only comes back when they are all done: the
 * one of them that is done last calls request_parts_done(), in the store's thread. Then as request_submit(). */
void request_submit_parts(struct request *r, struct store_op *first, struct store_op *last,
                          void (*finish)(struct request *r));
void request_parts_done(struct request *r);

#define REQUEST_STORE_WAIT_MS 1800 /* Redis trouble becomes a 503 within 2 s */
/* The same when the answer waits for a disk or a replica, its own and that of those before. */
#define REQUEST_DURABLE_WAIT_MS 3800

/* What is said of a store operation that failed in a way that is not its call's own; and the answer that says it. */
struct problem request_store_problem(const struct store_op *op);
void request_reply_store_fault(struct request *r);

#endif
