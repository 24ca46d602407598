#include "task/fault.h"

#include "base/mem.h"
#include "base/parse.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETAIL_SIZE 512            /* a detail is one sentence: longer ones are cut */
#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

void faults_init(struct faults *f)
{
    *f = (struct faults){0};
}

void faults_deinit(struct faults *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->items[i].pointer);
        free(f->items[i].detail);
    }
    free(f->items);
    faults_init(f);
}

/* How many bytes at `s` are one well-formed UTF-8 character; 0 when none is. */
static size_t utf8_char_bytes(const char *s, size_t n)
{
    for (size_t bytes = 1; bytes <= 4 && bytes <= n; bytes++) {
        if (parse_is_utf8(s, bytes))
            return bytes;
    }
    return 0;
}

/* A copy in which every byte that is not UTF-8 became U+FFFD. */
static char *dup_as_utf8(const char *s)
{
    size_t n = strlen(s);
    char *copy = xcalloc(n + 1, strlen(REPLACEMENT));
    size_t len = 0;

    for (size_t i = 0; i < n;) {
        size_t bytes = utf8_char_bytes(s + i, n - i);
        const char *from = bytes ? s + i : REPLACEMENT;
        size_t add = bytes ? bytes : strlen(REPLACEMENT);

        memcpy(copy + len, from, add);
        len += add;
        i += bytes ? bytes : 1;
    }
    return copy;
}

void faults_add(struct faults *f, const char *pointer, const char *detail_fmt, ...)
{
    char detail[DETAIL_SIZE];
    va_list args;

    if (f->count == FAULTS_MAX) {
        f->dropped++;
        return;
    }
    va_start(args, detail_fmt);
    int len = vsnprintf(detail, sizeof(detail), detail_fmt, args);
    va_end(args);
    if (len < 0)
        detail[0] = '\0';

    /* Most requests have no fault and a wrong one a few, so the list starts when it is needed. */
    if (!f->items)
        f->items = xcalloc(FAULTS_MAX, sizeof(*f->items));
    f->items[f->count].pointer = dup_as_utf8(pointer);
    f->items[f->count].detail = dup_as_utf8(detail);
    f->count++;
}

char *fault_pointer(char *out, size_t size, const char *prefix, const char *token, size_t token_bytes)
{
    static const char cut[] = "...";
    int prefix_len = snprintf(out, size, "%s/", prefix);
    size_t len = prefix_len < 0 ? 0 : (size_t)prefix_len;

    if (len + sizeof(cut) > size)
        return out; /* the prefix alone fills it: cut by snprintf */
    for (size_t i = 0; i < token_bytes;) {
        size_t bytes = utf8_char_bytes(token + i, token_bytes - i);
        const char *piece = token + i;
        size_t add = bytes;

        if (bytes == 0 || token[i] == '\0') {
            piece = REPLACEMENT;
            add = strlen(REPLACEMENT);
        } else if (token[i] == '~' || token[i] == '/') {
            piece = token[i] == '~' ? "~0" : "~1";
            add = 2;
        }
        if (len + add + sizeof(cut) > size) {
            piece = cut;
            add = strlen(cut);
            token_bytes = 0; /* the last piece */
        }
        memcpy(out + len, piece, add);
        len += add;
        i += bytes ? bytes : 1;
    }
    out[len] = '\0';
    return out;
}
