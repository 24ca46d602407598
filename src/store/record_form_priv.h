#ifndef STORE_RECORD_FORM_PRIV_H
#define STORE_RECORD_FORM_PRIV_H

#include <stdbool.h>

/* What writing and reading a record agree on, besides the order that record_priv.h tells. */

#define RECORD_STATUS_WITH_TIMES 1024 /* added to the status of an attempt: kind and times follow */

enum member {
    MEMBER_DIGEST = 0,
    MEMBER_HEADERS,
    MEMBER_TIMEOUT,
    MEMBER_MAX_ATTEMPTS,
    MEMBER_INITIAL,
    MEMBER_MULTIPLIER,
    MEMBER_MAX,
    MEMBER_JITTER,
    MEMBER_SCHEDULE,
    MEMBER_MAX_AGE,
    MEMBER_ON_SUCCESS,
    MEMBER_ON_FAILURE,
    MEMBER_TRACEPARENT,
    MEMBER_COUNT /* number of members, not one of them */
};

static inline bool member_is_in(unsigned set, enum member m)
{
    return (set & (1u << m)) != 0;
}

/* Bits of the kinds, beside method and body kind; as in lua/common.lua. */
#define KIND_EXPIRES 32u
#define KIND_ON_SUCCESS 64u
#define KIND_ON_FAILURE 128u
#define EXPIRES_BYTES 6

/* What nearly every URL begins with is one byte: 1 for "http://", 2 for "https://". No URL begins with such a byte. */
#define RECORD_SCHEMES              \
    {                               \
        NULL, "http://", "https://" \
    }
#define RECORD_SCHEME_COUNT 3

#endif
