#include "task/scan_priv.h"

#include <string.h>

/* jansson validates but tells no offsets, so this scanner walks the same bytes again. It relies on their being
 * JSON for what it finds, and on its own bounds alone for memory: every step looks at `end`. A container is
 * skipped by counting brackets outside strings, without recursion, so nesting costs no stack. */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* `p` is behind the opening quote; returns the place behind the closing one. */
static const char *skip_string(const char *p, const char *end)
{
    while (p < end && *p != '"')
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p < end ? p + 1 : end;
}

static const char *skip_container(const char *p, const char *end, int *depth)
{
    int level = 0;

    *depth = 0;
    do {
        char c = *p++;

        if (c == '"') {
            p = skip_string(p, end);
        } else if (c == '{' || c == '[') {
            if (++level > *depth)
                *depth = level;
        } else if (c == '}' || c == ']') {
            level--;
        }
    } while (level > 0 && p < end);
    return p;
}

static const char *skip_word(const char *p, const char *end)
{
    while (p < end && !is_blank(*p) && *p != ',' && *p != ':' && *p != ']' && *p != '}')
        p++;
    return p;
}

/* Read the value at `p`, which is before `end`; returns the place behind it. */
static const char *take_value(const char *p, const char *end, struct scan_value *out)
{
    const char *past = NULL;

    out->raw = p;
    out->depth = 0;
    switch (*p) {
    case '{':
    case '[':
        out->kind = *p == '{' ? SCAN_OBJECT : SCAN_ARRAY;
        past = skip_container(p, end, &out->depth);
        break;
    case '"':
        out->kind = SCAN_STRING;
        past = skip_string(p + 1, end);
        break;
    case 't':
    case 'f':
        out->kind = SCAN_BOOL;
        past = skip_word(p, end);
        break;
    case 'n':
        out->kind = SCAN_NULL;
        past = skip_word(p, end);
        break;
    default:
        out->kind = SCAN_NUMBER;
        past = skip_word(p, end);
        break;
    }
    out->bytes = (size_t)(past - p);
    return past;
}

bool scan_root(const char *json, size_t n, struct scan_value *out)
{
    const char *end = json + n;
    const char *p = skip_blanks(json, end);

    if (p == end)
        return false;
    (void)take_value(p, end, out);
    return true;
}

void scan_begin(struct scan *s, const struct scan_value *container)
{
    s->pos = container->raw + 1; /* behind the opening bracket */
    s->end = container->raw + container->bytes;
}

/* Move to the next value or name; false behind the last one. */
static bool find_next(struct scan *s)
{
    s->pos = skip_blanks(s->pos, s->end);
    if (s->pos < s->end && *s->pos == ',')
        s->pos = skip_blanks(s->pos + 1, s->end);
    return s->pos < s->end && *s->pos != '}' && *s->pos != ']';
}

bool scan_next_item(struct scan *s, struct scan_value *value)
{
    if (!find_next(s))
        return false;
    const char *past = take_value(s->pos, s->end, value);
    bool has_moved = past > s->pos;

    s->pos = past;
    return has_moved;
}

bool scan_next_member(struct scan *s, struct scan_value *name, struct scan_value *value)
{
    if (!find_next(s) || *s->pos != '"')
        return false;
    s->pos = skip_blanks(take_value(s->pos, s->end, name), s->end);
    if (s->pos == s->end || *s->pos != ':')
        return false;
    s->pos = skip_blanks(s->pos + 1, s->end);
    if (s->pos == s->end)
        return false;
    s->pos = take_value(s->pos, s->end, value);
    return true;
}

static unsigned hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return (unsigned)((c | 0x20) - 'a' + 10) & 0xf;
}

static unsigned hex4(const char *p)
{
    return hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 | hex_digit(p[3]);
}

static void put_utf8(struct buf *out, unsigned code)
{
    char bytes[4];
    size_t n = 0;

    if (code < 0x80) {
        bytes[n++] = (char)code;
    } else if (code < 0x800) {
        bytes[n++] = (char)(0xc0 | code >> 6);
        bytes[n++] = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        bytes[n++] = (char)(0xe0 | code >> 12);
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (code & 0x3f));
    } else {
        bytes[n++] = (char)(0xf0 | code >> 18);
        bytes[n++] = (char)(0x80 | (code >> 12 & 0x3f));
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (code & 0x3f));
    }
    buf_append(out, bytes, n);
}

/* Decode a \u escape whose digits begin at `p`, with the second half of a surrogate pair; returns the place behind. */
static const char *put_unicode_escape(struct buf *out, const char *p, const char *end)
{
    if (end - p < 4)
        return end;
    unsigned code = hex4(p);

    p += 4;
    /* Validation refused lone surrogates, so a first half is followed by "\u" and the second half. */
    if (code >= 0xd800 && code < 0xdc00 && end - p >= 6) {
        code = 0x10000 + ((code - 0xd800) << 10) + ((hex4(p + 2) - 0xdc00) & 0x3ff);
        p += 6;
    }
    put_utf8(out, code);
    return p;
}

static char plain_escape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* quote, backslash, slash */
    }
}

enum err scan_string(const struct scan_value *string, struct buf *scratch, const char **s, size_t *n)
{
    const char *p = string->raw + 1;
    const char *end = string->raw + string->bytes - 1;

    *s = p;
    *n = end > p ? (size_t)(end - p) : 0;
    if (*n == 0 || !memchr(p, '\\', *n))
        return ERR_OK;
    buf_clear(scratch);
    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));

        if (!escape || end - escape < 2) {
            buf_append(scratch, p, (size_t)(end - p));
            break;
        }
        buf_append(scratch, p, (size_t)(escape - p));
        p = escape + 2;
        if (escape[1] == 'u')
            p = put_unicode_escape(scratch, p, end);
        else
            buf_putc(scratch, plain_escape(escape[1]));
    }
    *s = scratch->data;
    *n = scratch->len;
    return buf_status(scratch);
}
