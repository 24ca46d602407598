#ifndef STORE_REPLY_PRIV_H
#define STORE_REPLY_PRIV_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Typed, checked readers of a redisReply: a server's answer is not believed before its form was looked at. */

static inline bool reply_is_array(const redisReply *r, size_t elements)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements == elements;
}

static inline bool reply_is_string(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING;
}

static inline bool reply_int(const redisReply *r, int64_t *out)
{
    *out = r->type == REDIS_REPLY_INTEGER ? r->integer : 0;
    return r->type == REDIS_REPLY_INTEGER;
}

#endif
