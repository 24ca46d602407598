#ifndef HTTP_ADMIT_PRIV_H
#define HTTP_ADMIT_PRIV_H

#include "http/request_priv.h"

/* Which requests get to their handler. All that is wrong before a handler could look is found here, in one order:
 * no room, shutting down, 401, 403, framing, Expect, path, method, query, size, media type. */

enum admit {
    ADMIT_BODY = 0,     /* fine so far: read the body */
    ADMIT_ANSWER_LATER, /* the reply is set; read the body away first, so that the connection can go on */
    ADMIT_ANSWER_NOW,   /* the reply is set; the connection ends with it */
    ADMIT_REFUSE_BODY,  /* the reply is set; the body is too large to be waited for */
    ADMIT_COUNT         /* number of verdicts, not one of them */
};

/* Judge the head. `is_excess`: the connection is one too many. */
enum admit admit_head(struct request *r, const char *method, bool is_excess);

/* The body grew past the limit (ERR_TOO_BIG) or memory: sets the reply. */
void admit_refuse_body(struct request *r, enum err err);

/* Judge the body of a call that takes none: it may be empty or `{}`. False: the reply is set. */
bool admit_no_body(struct request *r);

#endif
