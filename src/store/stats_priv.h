#ifndef STORE_STATS_PRIV_H
#define STORE_STATS_PRIV_H

#include "store/store.h"

#include <hiredis/hiredis.h>

/* Read the answer of stats.lua. Gives *out. ERR_INVALID when it has another form. */
enum err stats_read(const redisReply *reply, struct store_stats **out) NODISCARD;

#endif
