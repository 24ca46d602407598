#ifndef HTTP_ROUTE_PRIV_H
#define HTTP_ROUTE_PRIV_H

#include "base/err.h"
#include "task/task.h"
#include <stdbool.h>

/* Which call a method and a target mean: one constant table, a pure decision. */

struct request;

struct route {
    const char *method;
    const char *pattern; /* segments; "{id}" takes any one */
    /* Either fills the request's reply or submits a store operation. */
    void (*handle)(struct request *r);
    bool is_public;  /* needs no token */
    bool takes_body; /* JSON; otherwise an empty body or `{}` is fine */
};

#define ROUTE_ALLOW_SIZE 48

struct route_match {
    const struct route *route;    /* NULL unless ERR_OK */
    bool is_public;               /* also known when the method is wrong */
    char id[TASK_ID_MAX + 1];     /* the decoded {id}; "" when the segment cannot be an id */
    char allow[ROUTE_ALLOW_SIZE]; /* for OPTIONS and a wrong method: what this path has, "GET, HEAD, OPTIONS" */
    const char *query;            /* borrowed from target: what follows '?'; NULL: none */
};

/* Find the call. Methods are case-sensitive, HEAD is GET, OPTIONS is there for every path and for "*". The target may
 * be in absolute form. Segments are percent-decoded here and strictly: a bad escape or a NUL matches nothing.
 *
 * Errors: ERR_NOT_FOUND; ERR_METHOD_NOT_ALLOWED. */
enum err route_find(const char *method, const char *target, struct route_match *out) NODISCARD;

#endif
