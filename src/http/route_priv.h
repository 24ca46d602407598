#ifndef HTTP_ROUTE_PRIV_H
#define HTTP_ROUTE_PRIV_H

#include "base/err.h"
#include "task/task.h"
#include <stdbool.h>

/* Which call a method and a target mean: one constant table, a pure decision. */

struct request;

enum route_flag {
    ROUTE_PLAIN = 0,
    ROUTE_PUBLIC = 1,      /* needs no token */
    ROUTE_BODY = 2,        /* takes JSON; otherwise an empty body or `{}` is fine */
    ROUTE_MAYBE_BODY = 16, /* reads its body if there is one, and decides on its type itself */
    ROUTE_QUERY = 4,       /* reads its query; otherwise it must be empty */
    ROUTE_BATCH = 8,       /* its body may be ROUTE_BATCH_BODIES times as large as others */
};

#define ROUTE_BATCH_BODIES 16

struct route {
    const char *method;
    const char *pattern; /* segments; one in braces takes any */
    /* Either fills the request's reply or submits a store operation. */
    void (*handle)(struct request *r);
    unsigned flags; /* of enum route_flag */
};

#define ROUTE_ALLOW_SIZE 48

struct route_match {
    const struct route *route;    /* NULL unless ERR_OK */
    bool is_public;               /* also known when the method is wrong */
    char id[TASK_ID_MAX + 1];     /* the decoded segment in braces; "" when it is too long for any */
    char allow[ROUTE_ALLOW_SIZE]; /* for OPTIONS and a wrong method: what this path has, "GET, HEAD, OPTIONS" */
    const char *query;            /* borrowed from target: what follows '?'; NULL: none */
};

/* Find the call. Methods are case-sensitive, HEAD is GET, OPTIONS is there for every path and for "*". The target may
 * be in absolute form. Segments are percent-decoded here and strictly: a bad escape or a NUL matches nothing.
 *
 * Errors: ERR_NOT_FOUND; ERR_METHOD_NOT_ALLOWED. */
enum err route_find(const char *method, const char *target, struct route_match *out) NODISCARD;

#endif
