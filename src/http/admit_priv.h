#ifndef HTTP_ADMIT_PRIV_H
#define HTTP_ADMIT_PRIV_H

#include "http/request_priv.h"

/* Which requests get to their handler. All that is wrong before a handler could look is found here, in one order:
 * 414, 431, no room, shutting down, 401, 403, framing, Expect, path, method, query, size, media type.
 *
 * A parameter of the query or a header counts as FIELD_BYTES besides its text: libmicrohttpd keeps some 64 for each, in
 * the same memory. (RFC 9110, section 4.1, recommends 8000 bytes for a target.) */

#define TARGET_MAX_BYTES ((size_t)8 * 1024)
#define HEAD_MAX_BYTES ((size_t)15 * 1024)
#define FIELD_BYTES ((size_t)80)

enum admit {
    ADMIT_BODY = 0,     /* fine so far: read the body */
    ADMIT_ANSWER_LATER, /* the reply is set; read the body away first, so that the connection can go on */
    ADMIT_ANSWER_NOW,   /* the reply is set; the connection ends with it */
    ADMIT_REFUSE_BODY,  /* the reply is set; the body is too large to be waited for */
    ADMIT_COUNT         /* number of verdicts, not one of them */
};

/* Whether the target is as short as it must be. False: the reply is set. */
bool admit_target(struct request *r);

/* Whether a head of so many bytes, its request line included, and headers is; to be asked after admit_head(). False:
 * the reply is set, and is what admit_head() set when that is about the token. */
bool admit_size(struct request *r, size_t head_bytes, size_t header_count);

/* Judge the head. `is_excess`: the connection is one too many. */
enum admit admit_head(struct request *r, const char *method, bool is_excess);

/* The body grew past the limit (ERR_TOO_BIG) or memory: sets the reply. */
void admit_refuse_body(struct request *r, enum err err);

/* Judge the body of a call that takes none: it may be empty or `{}`. False: the reply is set. */
bool admit_no_body(struct request *r);

#endif
