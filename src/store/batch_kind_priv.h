#ifndef STORE_BATCH_KIND_PRIV_H
#define STORE_BATCH_KIND_PRIV_H

#include "store/batch_priv.h"

/* The earliest due time that a call has scheduled. */
struct batch_due {
    int64_t earliest_ms; /* -1: none */
};

/* One kind of operation: its call and its answer. Each is a row of a file batch_*_priv.c, listed in batch_priv.c; what
 * a script's arguments and answer mean is said at the top of the script. */

struct batch_kind {
    enum script script;
    bool is_plain; /* no script: `build` begins the call itself */
    size_t max;    /* operations in one call */

    /* Keys first; then, for a script, call_begin_args() and the arguments. */
    void (*build)(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count);

    /* As batch_read(); looks at the whole reply before it sets the first result. */
    enum err (*read)(struct store_op *const *ops, size_t count, const redisReply *reply, struct batch_due *earliest);

    /* About how many bytes this operation adds to a call; NULL: few. */
    size_t (*weight)(const struct store_op *op);
};

extern const struct batch_kind batch_create, batch_get, batch_cancel, batch_settle, batch_renew, batch_stats,
    batch_probe, batch_list, batch_glance, batch_patch, batch_run, batch_redrive, batch_queue, batch_purge,
    batch_redrive_queue;

#define BATCH_STATE_GONE (-1) /* in answers: there is no such task, or it is not ours */

/* What readers share. */
void batch_note_due(struct batch_due *earliest, int64_t due_ms);
bool batch_is_state_pair(const redisReply *r, int64_t *state);

void batch_report_bad_record(const char *id);

/* The reader of a kind whose only operation has nothing to learn but that it was done: any number. */
enum err batch_read_number(struct store_op *const *ops, size_t count, const redisReply *reply,
                           struct batch_due *earliest) NODISCARD;

/* Read the beginning of the record of an operation's task: all but its body. ERR_INTERNAL, and said in the log, when
 * it is none. */
enum err batch_read_beginning(const char *id, const redisReply *record, struct task **out) NODISCARD;

#endif
