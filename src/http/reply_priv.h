#ifndef HTTP_REPLY_PRIV_H
#define HTTP_REPLY_PRIV_H

#include "base/buf.h"
#include "base/err.h"
#include "task/fault.h"
#include "task/task.h"
#include <stdbool.h>
#include <stddef.h>

/* What a call answers: a status, a body and the few headers this API has. A value of its request; knows nothing of
 * libmicrohttpd. There is one writer of problem+json (RFC 9457) and it is here. */

#define REPLY_JSON "application/json"
#define REPLY_PROBLEM "application/problem+json"
#define REPLY_LOCATION_SIZE (sizeof("/tasks/") + TASK_ID_MAX)

struct reply {
    int status;               /* 0: not answered yet */
    const char *content_type; /* static; NULL: no body */
    struct buf body;
    char location[REPLY_LOCATION_SIZE]; /* "": none */
    const char *allow;                  /* borrowed from the request; NULL: none */
    bool is_challenge;                  /* WWW-Authenticate: Bearer */
    bool has_retry_after;               /* try again in a second */
    bool must_close;                    /* the connection ends after this answer */
    bool is_to_head;                    /* the request is HEAD: no body goes out with it */
};

/* One header of an answer. */
struct reply_header {
    const char *name;
    const char *value;
};
#define REPLY_HEADERS_MAX 6

void reply_init(struct reply *r, size_t body_max_bytes);
void reply_deinit(struct reply *r);

/* Answer with JSON; the caller appends it to the buffer returned. */
struct buf *reply_json(struct reply *r, int status);

/* The same with another static content type. */
struct buf *reply_begin(struct reply *r, int status, const char *content_type);

/* Answer 200 with a copy of these bytes; `content_type` is static. */
void reply_text(struct reply *r, const char *content_type, const char *data, size_t n);

void reply_empty(struct reply *r, int status);

/* A problem (RFC 9457). Status, title and code come from `err`. */
struct problem {
    enum err err;
    const char *detail;          /* one sentence for people; NULL: the title says it, or the faults do */
    const char *state;           /* the task's; NULL: none */
    const struct faults *faults; /* NULL: none */
    const char *fault_key;       /* "pointer", "parameter" or "header" */
};

/* Append it as a JSON object. */
void reply_put_problem(struct buf *out, const struct problem *p);

/* Answer with a problem; replaces whatever was written before. 503 gets Retry-After, 401 the challenge. */
void reply_with(struct reply *r, const struct problem *p);

/* The same with `detail` alone. */
void reply_problem(struct reply *r, enum err err, const char *detail);

/* The same, and with the task's state as the member `state`. */
void reply_problem_state(struct reply *r, enum err err, const char *detail, const char *state);

/* The same with `errors`: each fault's text under `key`, and its detail. Without any fault `err` alone says it. */
void reply_problem_faults(struct reply *r, enum err err, const char *key, const struct faults *faults);

/* To be called once when the answer is complete: an answer that grew past its cap or out of memory becomes a problem.
 */
void reply_finish(struct reply *r);

/* Fill `out` with the headers besides length and date; returns their number. The values are borrowed. */
size_t reply_headers(const struct reply *r, struct reply_header out[REPLY_HEADERS_MAX]);

/* Append the whole answer as it stands on the wire, with a Date and `Connection: close`. */
void reply_put_wire(const struct reply *r, const char *reason, struct buf *out);

#endif
