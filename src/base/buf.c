/* A growing byte buffer that is checked once, at the end.
 *
 * Every append goes through reserve(), and what grows, caps and fails is in grow(); after a failure it refuses all
 * further appends, so what is in the buffer is always a prefix of what was meant. Capacity doubles, so n appends
 * cost O(n). One byte beyond `len` always holds a NUL, which lets the text be read as a C string at any time. */
#include "base/buf.h"
#include "base/text_priv.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 128
#define PADDING 64 /* where '=' stands behind the base64 alphabet */

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_deinit(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = ERR_OK;
    if (b->data)
        b->data[0] = '\0';
}

static bool grow(struct buf *b, size_t n)
{
    size_t capacity = b->capacity ? b->capacity : FIRST_CAPACITY;
    char *data = NULL;

    if (n > b->max - b->len || b->len + n == SIZE_MAX) {
        b->failed = ERR_TOO_BIG;
        return false;
    }
    while (capacity <= b->len + n)
        capacity = capacity > SIZE_MAX / 2 ? SIZE_MAX : capacity * 2;
    data = realloc(b->data, capacity);
    if (!data) {
        b->failed = ERR_NOMEM;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

/* Make room for `n` more bytes and the NUL. There nearly always is: hence the short way first. */
static inline bool reserve(struct buf *b, size_t n)
{
    if (b->failed != ERR_OK)
        return false;
    return (n < b->capacity - b->len && n <= b->max - b->len) || grow(b, n);
}

void buf_append(struct buf *b, const void *data, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    if (!reserve(b, 1))
        return;
    b->data[b->len++] = c;
    b->data[b->len] = '\0';
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    int n = 0;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        b->failed = ERR_NOMEM;
        return;
    }
    if (!reserve(b, (size_t)n))
        return;
    va_start(args, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
}

void buf_put_int(struct buf *b, int64_t value)
{
    char digits[20]; /* "-9223372036854775808" */
    size_t at = sizeof(digits);
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        digits[--at] = '-';
    buf_append(b, digits + at, sizeof(digits) - at);
}

static bool is_plain(char c)
{
    unsigned char u = (unsigned char)c;

    return u >= 0x20 && u < 0x7F && u != '"' && u != '\\';
}

/* Runs of plain ASCII are copied at once; `keep_bytes` leaves bytes over 0x7F as they are, too. */
static void put_json(struct buf *b, const char *s, size_t n, bool keep_bytes)
{
    char escaped[TEXT_ESCAPE_SIZE];
    size_t start = 0;
    size_t i = 0;

    buf_putc(b, '"');
    while (i < n) {
        size_t used = 1;

        if (is_plain(s[i]) || (keep_bytes && (unsigned char)s[i] >= 0x80)) {
            i++;
            continue;
        }
        buf_append(b, s + start, i - start);
        buf_append(b, escaped, text_escape(s + i, n - i, escaped, &used));
        i += used;
        start = i;
    }
    buf_append(b, s + start, i - start);
    buf_putc(b, '"');
}

void buf_put_json(struct buf *b, const char *s, size_t n)
{
    put_json(b, s, n, true);
}

void buf_put_json_lossy(struct buf *b, const char *s, size_t n)
{
    put_json(b, s, n, false);
}

void buf_put_base64(struct buf *b, const void *data, size_t n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const unsigned char *in = data;

    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        unsigned bits = (unsigned)in[i] << 16;
        char out[4];

        if (left > 1)
            bits |= (unsigned)in[i + 1] << 8;
        if (left > 2)
            bits |= in[i + 2];
        out[0] = alphabet[bits >> 18];
        out[1] = alphabet[bits >> 12 & 63];
        out[2] = alphabet[left > 1 ? bits >> 6 & 63 : PADDING];
        out[3] = alphabet[left > 2 ? bits & 63 : PADDING];
        buf_append(b, out, sizeof(out));
    }
}

enum err buf_status(const struct buf *b)
{
    return b->failed;
}

char *buf_take(struct buf *b, size_t *len)
{
    char *data = NULL;
    size_t n = 0;

    buf_append(b, "", 0); /* an empty buffer gives "" */
    if (b->failed == ERR_OK) {
        data = b->data;
        n = b->len;
        b->data = NULL;
    }
    buf_deinit(b);
    if (len)
        *len = n;
    return data;
}
