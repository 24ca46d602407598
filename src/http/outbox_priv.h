#ifndef HTTP_OUTBOX_PRIV_H
#define HTTP_OUTBOX_PRIV_H

#include "http/request_priv.h"

/* Operations on their way to the store. Those of one turn go together, a few at a time, so that Redis begins with them
 * while the rest of the turn is read; one that is to begin later waits here for its time. Threads: the server's. */

struct outbox {
    struct store *store; /* borrowed */
    struct store_op *first, *last;
    int count;
    struct store_op *delayed; /* whose requests say when they begin; in no order, they are few */
};

/* Take the operation of this request, or its parts. */
void outbox_add(struct outbox *o, struct request *r);

/* Hand over what is gathered, and what was delayed until `now_mono_ms`. `is_hurried`: all that was delayed. */
void outbox_submit(struct outbox *o, int64_t now_mono_ms, bool is_hurried);

/* When the next delayed operation begins; INT64_MAX: there is none. */
int64_t outbox_next_mono_ms(const struct outbox *o);

#endif
