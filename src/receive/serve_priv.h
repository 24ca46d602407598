#ifndef RECEIVE_SERVE_PRIV_H
#define RECEIVE_SERVE_PRIV_H

#include "base/err.h"
#include "task/signature.h"
#include <stdbool.h>
#include <stdint.h>

/* The HTTP side of `duepost receive`: libmicrohttpd in a thread of its own, which prints to stdout. */

struct serve;

struct serve_opts {
    int listen_fd; /* takes */
    bool is_ipv6;
    int status; /* the answer's */
    bool is_quiet;
    const struct signature_secrets *secrets; /* keeps */
};

/* What came until the end. */
struct serve_totals {
    int64_t webhooks;
    int64_t others; /* requests without a webhook-id */
    int64_t right, wrong;
    int64_t max_late_ms; /* -1: no lateness was known */
};

/* Gives *out. ERR_IO when libmicrohttpd cannot start. */
enum err serve_start(const struct serve_opts *opts, struct serve **out) NODISCARD;

/* Stop, join the thread, free; *totals is complete then. */
void serve_stop(struct serve **s, struct serve_totals *totals);

#endif
