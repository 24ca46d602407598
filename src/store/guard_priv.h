#ifndef STORE_GUARD_PRIV_H
#define STORE_GUARD_PRIV_H

#include "store/answer_memory_priv.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>

/* Makes the values of an answer in hiredis' place, in memory of its own, and refuses what hiredis itself would end the
 * process for, or take without measure: an answer that nobody asked for, a message that is none, an array larger or
 * deeper than any of ours, a value of RESP3. What is refused ends the connection like any other broken answer. */

#define GUARD_ELEMENTS_MAX 65536 /* in one array; our calls ask for 1000 at most */
#define GUARD_DEPTH_MAX 8        /* arrays in arrays; XREADGROUP has 4 */

struct guard {
    redisReplyObjectFunctions functions;
    struct answer_memory memory; /* of the answer that is being read, or was read last */
    const int *outstanding;      /* commands that wait for an answer */
    bool takes_messages;         /* subscribed to a channel: answers come unasked */
    bool is_in_message;          /* the answer being read is such a one */
    const char *refusal;         /* why, a static text; NULL: nothing was refused */
};

/* Watch a new reader; the guard is zero at first, or that of a reader that is gone. `outstanding` is borrowed; both
 * outlive the reader. An answer lives until hiredis frees it, or reads the next one. */
void guard_install(struct guard *g, redisReader *reader, bool takes_messages, const int *outstanding);
void guard_deinit(struct guard *g);

#endif
