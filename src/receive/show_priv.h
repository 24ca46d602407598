#ifndef RECEIVE_SHOW_PRIV_H
#define RECEIVE_SHOW_PRIV_H

#include "base/buf.h"
#include "task/signature.h"
#include <stddef.h>
#include <stdint.h>

/* How a request is shown on the terminal. */

#define SHOW_BODY_BYTES 1024 /* of a body; more is cut */

/* A request as it came; a header that is absent is NULL. */
struct shown {
    const char *method;
    const char *target;
    const char *id;        /* webhook-id */
    const char *attempt;   /* Duepost-Attempt */
    const char *due;       /* Duepost-Due */
    const char *timestamp; /* webhook-timestamp */
    const char *signature; /* webhook-signature */
    const char *body;      /* NULL when empty */
    size_t body_bytes;
    int64_t arrived_ms; /* Unix ms of its head */
};

enum shown_signature {
    SHOWN_UNSIGNED = 0,
    SHOWN_UNCHECKED, /* signed, but there is no secret here */
    SHOWN_RIGHT,
    SHOWN_WRONG,
    SHOWN_SIGNATURE_COUNT
};

enum shown_signature show_judge(const struct shown *s, const struct signature_secrets *secrets);

/* The lateness by its due time. False when it has none, or is a retry. */
bool show_lateness(const struct shown *s, int64_t *late_ms);

/* Append a line about the request and, when it has a body, an indented one with it. Nothing foreign gets through to
 * the terminal but printable UTF-8. */
void show_request(struct buf *out, const struct shown *s, enum shown_signature judgement);

#endif
