#ifndef TASK_MEMBER_PRIV_H
#define TASK_MEMBER_PRIV_H

#include "base/err.h"
#include "task/fault.h"
#include "task/scan_priv.h"
#include <stdint.h>

/* Strict readers of one member's value. Each returns true with *out set, or false after adding a fault at the
 * member's pointer (or after setting `ctx->err`, when memory ran out). */

#define MEMBER_POINTER_SIZE 320

/* What all readers of one request share. */
struct member_ctx {
    struct faults *faults;
    struct buf *scratch; /* for decoded strings */
    enum err err;        /* ERR_NOMEM when a reader found no memory; else ERR_OK */
};

struct member {
    struct member_ctx *ctx;
    const char *pointer;
    struct scan_value value;
};

/* A string's decoded bytes, valid until the next string is read. */
bool member_string(const struct member *m, const char **s, size_t *n);

/* An integer without fraction or exponent. */
bool member_int(const struct member *m, int min, int max, int *out);

/* Any JSON number. */
bool member_real(const struct member *m, double min, double max, double *out);

/* Digits (milliseconds) or a string such as "1h30m". */
bool member_duration(const struct member *m, int64_t min_ms, int64_t max_ms, int64_t *out_ms);

/* Digits (Unix milliseconds) or an RFC 3339 string; at most 10 years from now. */
bool member_time(const struct member *m, int64_t *out_ms);

bool member_is_object(const struct member *m);

/* Copies bytes sized by input; NULL and ctx->err = ERR_NOMEM when memory is out. The copy ends with a NUL. */
char *member_copy(struct member_ctx *ctx, const char *s, size_t n);

#endif
