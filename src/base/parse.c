/* Strict readers of small texts; dates are in parse_time.c.
 *
 * Each reader takes the whole text or nothing: it never skips, trims or stops early, so "1s " is no duration, and it
 * writes its result only at the end. Overflow is tested before a value grows, never after. Where a value could be
 * written in two ways that differ by a slip (left-over bits in base64, units out of order), only one is read. */
#include "base/parse.h"
#include "base/text_priv.h"
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool parse_int64(const char *s, size_t n, int64_t *out)
{
    bool is_negative = n > 0 && s[0] == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (is_negative ? 1 : 0);
    uint64_t value = 0;
    size_t i = is_negative ? 1 : 0;

    if (i == n)
        return false;
    for (; i < n; i++) {
        uint64_t digit = (uint64_t)(s[i] - '0');

        if (!is_digit(s[i]) || value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

struct unit {
    const char *name;
    int64_t ms;
};

/* Largest first: a duration may only walk down this list. */
static const struct unit units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

/* The index of the unit named by these letters, at or after `from`; UNIT_COUNT when there is none. */
static size_t find_unit(const char *s, size_t n, size_t from)
{
    for (size_t i = from; i < UNIT_COUNT; i++)
        if (strlen(units[i].name) == n && memcmp(units[i].name, s, n) == 0)
            return i;
    return UNIT_COUNT;
}

bool parse_duration(const char *s, size_t n, int64_t *out_ms)
{
    int64_t total_ms = 0;
    size_t unit = 0;
    size_t i = 0;

    if (n == 0)
        return false;
    while (i < n) {
        size_t digits = 0;
        size_t letters = 0;
        int64_t value = 0;

        while (i + digits < n && is_digit(s[i + digits]))
            digits++;
        if (digits == 0 || !parse_int64(s + i, digits, &value))
            return false;
        i += digits;
        while (i + letters < n && !is_digit(s[i + letters]))
            letters++;
        unit = find_unit(s + i, letters, unit);
        if (unit == UNIT_COUNT || value > (INT64_MAX / 2 - total_ms) / units[unit].ms)
            return false;
        total_ms += value * units[unit].ms;
        unit++; /* each at most once */
        i += letters;
    }
    *out_ms = total_ms;
    return true;
}

/* The value of a base64 character, -1 for any other. */
static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (is_digit(c))
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* Decode `count` (2..4) characters of one group; false for a foreign character or bits that no byte holds. */
static bool base64_group(const char *s, size_t count, unsigned char bytes[3])
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i < count ? base64_value(s[i]) : 0;

        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    bytes[0] = (unsigned char)(bits >> 16);
    bytes[1] = (unsigned char)(bits >> 8);
    bytes[2] = (unsigned char)bits;
    /* One text for one value: the bits between the last byte and the padding must be zero. */
    return (count > 3 || bytes[2] == 0) && (count > 2 || bytes[1] == 0);
}

bool parse_base64(const char *s, size_t n, unsigned char *out, size_t *out_bytes)
{
    size_t padding = 0;
    size_t written = 0;

    if (n % 4 != 0)
        return false;
    while (padding < 2 && padding < n && s[n - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < n; i += 4) {
        size_t count = i + 4 == n ? 4 - padding : 4;
        unsigned char bytes[3] = {0};

        if (!base64_group(s + i, count, bytes))
            return false;
        if (out)
            memcpy(out + written, bytes, count - 1);
        written += count - 1;
    }
    *out_bytes = written;
    return true;
}

bool parse_is_utf8(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t eight = 0;
        size_t length = 0;

        if (n - i >= sizeof(eight)) { /* most text is ASCII: eight bytes at a time */
            memcpy(&eight, s + i, sizeof(eight));
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof(eight);
                continue;
            }
        }
        length = text_utf8_length(s + i, n - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}
