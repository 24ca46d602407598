#ifndef SUPPORT_RECORD_BYTES_H
#define SUPPORT_RECORD_BYTES_H

#include "base/buf.h"
#include "base/err.h"
#include "task/task.h"

/* Records byte by byte, as lua/common.lua composes them. */

void record_put_number(struct buf *out, uint64_t v, int bytes); /* big endian */

/* What pack_head() of lua/common.lua does. */
void record_put_head(struct buf *out, const struct task *t, size_t history_bytes);

/* record_read() from a copy of exactly these bytes, so that a sanitizer sees a read beyond them. */
enum err record_read_copy(const char *data, size_t n, struct task **out);

#endif
