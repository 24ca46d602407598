#include "store/batch_kind_priv.h"
#include "store/stats_priv.h"

/* What operators ask: the counts, and whether a script can write. */

#define QUEUES_LISTED_MAX 1000

static void build_stats(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    (void)ops;
    (void)count;
    call_begin_args(call, env->keys);
    call_add_int(call, QUEUES_LISTED_MAX);
}

static enum err read_stats(struct store_op *const *ops, size_t count, const redisReply *reply,
                           struct batch_due *earliest)
{
    (void)count;
    (void)earliest;
    if (!ops[0])
        return ERR_OK;
    ops[0]->err = stats_read(reply, &ops[0]->stats);
    return ops[0]->err;
}

const struct batch_kind batch_stats = {.script = SCRIPT_STATS, .max = 1, .build = build_stats, .read = read_stats};

static void build_probe(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    (void)ops;
    (void)count;
    call_add_str(call, env->keys->probe);
    call_begin_args(call, env->keys);
}

const struct batch_kind batch_probe = {
    .script = SCRIPT_PROBE, .max = 1, .build = build_probe, .read = batch_read_number};
