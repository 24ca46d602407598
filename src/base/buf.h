#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing byte buffer with a cap. Appending never fails half way: once the cap or memory is exceeded the
 * buffer remembers it (`failed`), further appends do nothing, and buf_status() tells. So a writer appends
 * freely and checks once. Threads: one owner. */
struct buf {
    char *data;      /* NULL until the first append; always NUL-terminated after it */
    size_t len;      /* bytes in use, without the NUL */
    size_t capacity; /* bytes allocated */
    size_t max;      /* cap on len */
    enum err failed; /* ERR_OK, ERR_TOO_BIG or ERR_NOMEM */
};

void buf_init(struct buf *b, size_t max);
void buf_deinit(struct buf *b); /* frees; the buffer is empty and usable again with the same cap */
void buf_clear(struct buf *b);  /* keeps the memory */

void buf_append(struct buf *b, const void *data, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_put_int(struct buf *b, int64_t value); /* decimal; faster than buf_printf */

/* Append a JSON string with quotes (RFC 8259): escapes `"`, `\`, control characters; other bytes as they are.
 * The caller vouches for UTF-8; buf_put_json_lossy() replaces bytes that are not UTF-8 by U+FFFD. */
void buf_put_json(struct buf *b, const char *s, size_t n);
void buf_put_json_lossy(struct buf *b, const char *s, size_t n);

/* Append standard base64 with padding (RFC 4648 section 4). */
void buf_put_base64(struct buf *b, const void *data, size_t n);

/* ERR_OK, ERR_TOO_BIG (over the cap) or ERR_NOMEM. */
enum err buf_status(const struct buf *b) NODISCARD;

/* Gives the bytes to the caller (free with free()), NUL-terminated; *len may be NULL. The buffer is empty after
 * it. Returns NULL when buf_status() is not ERR_OK (the buffer is freed then, too). An empty buffer gives "". */
char *buf_take(struct buf *b, size_t *len);

#endif
