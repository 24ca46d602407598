#ifndef STORE_BATCH_PRIV_H
#define STORE_BATCH_PRIV_H

#include "store/script_priv.h"
#include "store/settings_priv.h"
#include "store/store.h"

#include <hiredis/hiredis.h>

/* Operations of one kind as one Redis call, and its reply as their results. No I/O here. */

struct batch_env {
    const struct keys *keys;
    int64_t max_pending;             /* 0: any number */
    struct buf *scratch;             /* for records on their way into the call */
    const struct settings *settings; /* of the queues, for what new records take over from them */
};

/* Build the call for `count` operations, at most batch_max(kind). `sha` is that of batch_script(kind); unused when it
 * has none. */
void batch_build(struct call *call, const struct batch_env *env, const char *sha, enum store_kind kind,
                 struct store_op *const *ops, size_t count);

/* The script of a kind; false for GET, which is a plain MGET. */
bool batch_script(enum store_kind kind, enum script *out);

/* Whether env->settings must be known for this kind. */
bool batch_rests_on_settings(enum store_kind kind);

/* How many operations of a kind fit one call. */
size_t batch_max(enum store_kind kind);

/* Fill in the results from a reply that is no error. An entry of `ops` may be NULL: its owner was answered already.
 * *earliest_due_ms becomes the earliest due time that was scheduled, -1 when none was.
 * ERR_INVALID when the reply has not the form of the script's answer; then no result was set.
 * ERR_STATE_CONFLICT when env->settings were old: nothing was done, and the operations are to be sent again. */
enum err batch_read(enum store_kind kind, struct store_op *const *ops, size_t count, const redisReply *reply,
                    int64_t *earliest_due_ms) NODISCARD;

/* About how many bytes this operation adds to a call. */
size_t batch_weight(const struct store_op *op);

#endif
