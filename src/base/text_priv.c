#include "base/text_priv.h"
#include <string.h>

static int is_in(unsigned char c, unsigned char low, unsigned char high)
{
    return c >= low && c <= high;
}

/* RFC 3629, section 4: the second byte's range shuts out overlong forms, surrogates and values over U+10FFFF. */
size_t text_utf8_length(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    size_t length = 0;

    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    if (is_in(u[0], 0xC2, 0xDF))
        length = 2;
    else if (is_in(u[0], 0xE0, 0xEF))
        length = 3;
    else if (is_in(u[0], 0xF0, 0xF4))
        length = 4;
    if (length == 0 || length > n)
        return 0;
    if (u[0] == 0xE0)
        low = 0xA0;
    else if (u[0] == 0xED)
        high = 0x9F;
    else if (u[0] == 0xF0)
        low = 0x90;
    else if (u[0] == 0xF4)
        high = 0x8F;
    if (!is_in(u[1], low, high))
        return 0;
    for (size_t i = 2; i < length; i++)
        if (!is_in(u[i], 0x80, 0xBF))
            return 0;
    return length;
}

static char short_escape(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

size_t text_escape(const char *s, size_t n, char out[TEXT_ESCAPE_SIZE], size_t *used)
{
    static const char hex[] = "0123456789abcdef";
    static const char replacement[TEXT_ESCAPE_SIZE] = {'\\', 'u', 'f', 'f', 'f', 'd'};
    static const char control[4] = {'\\', 'u', '0', '0'};
    size_t length = text_utf8_length(s, n);
    unsigned char c = (unsigned char)s[0];
    char letter = short_escape(s[0]);

    *used = length ? length : 1;
    if (length == 0) {
        memcpy(out, replacement, sizeof(replacement));
        return sizeof(replacement);
    }
    if (letter) {
        out[0] = '\\';
        out[1] = letter;
        return 2;
    }
    if (c < 0x20 || c == 0x7F) {
        memcpy(out, control, sizeof(control));
        out[4] = hex[c >> 4];
        out[5] = hex[c & 15];
        return 6;
    }
    memcpy(out, s, length);
    return length;
}
