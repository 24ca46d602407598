#ifndef STORE_STATS_PRIV_H
#define STORE_STATS_PRIV_H

#include "store/store.h"

#include <hiredis/hiredis.h>

/* Read the answer of stats.lua. Gives *out. ERR_INVALID when it has another form. */
enum err stats_read(const redisReply *reply, struct store_stats **out) NODISCARD;

/* Read the answer of INFO memory; *used_bytes stays as it was when it does not say. */
void stats_read_memory(const redisReply *reply, int64_t *used_bytes);

/* Read what describe_queue() of lua/common.lua tells of a queue. False when it has another form; *q, which was zeros,
 * is to be freed all the same. */
bool stats_read_queue(redisReply *const *fields, size_t count, struct store_queue_stats *q);

#endif
