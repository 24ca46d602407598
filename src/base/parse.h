#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strict readers of small texts. All return true when the whole text is exactly one value within bounds, and
 * false otherwise, with *out untouched. None skips blanks, none reads a prefix. Threads: any. */

#define PARSE_MAX_DELAY_MS ((int64_t)3653 * 24 * 3600 * 1000) /* 10 years: the longest delay (DESIGN section 2) */

/* A decimal integer: an optional '-' and digits; no '+', fraction or exponent. */
bool parse_int64(const char *s, size_t n, int64_t *out);

/* A duration string: integers with units, largest unit first, each at most once: "250ms", "1h30m", "7d".
 * Units d h m s ms. False for an empty string, a bare number, or over INT64_MAX / 2. *out in milliseconds. */
bool parse_duration(const char *s, size_t n, int64_t *out_ms);

/* RFC 3339 date-time with offset: "2035-06-30T23:59:59.5+02:00". `t` and `z` in lower case are accepted, up to
 * nine digits of fraction, rounded up to the next millisecond. A leap second (:60) is accepted only at 23:59:60
 * UTC on the last day of June or December and means the next second; every other :60 is false. Years 1970 to
 * 9999. *out in Unix milliseconds. */
bool parse_rfc3339(const char *s, size_t n, int64_t *out_ms);

/* All three date forms of RFC 9110 section 5.6.7 (IMF-fixdate, RFC 850, asctime). *out in Unix seconds. */
bool parse_http_date(const char *s, size_t n, int64_t *out_s);

/* Standard base64 (RFC 4648 section 4), padding required, no blanks. Writes at most n / 4 * 3 bytes to `out`,
 * which may be NULL to only check. */
bool parse_base64(const char *s, size_t n, unsigned char *out, size_t *out_bytes);

/* Whether these bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool parse_is_utf8(const char *s, size_t n);

/* Write Unix milliseconds as "2035-06-30T23:59:59.000Z" (24 characters and a NUL). Years past 9999 are clamped. */
#define PARSE_RFC3339_SIZE 25
void parse_format_rfc3339(int64_t ms, char out[PARSE_RFC3339_SIZE]);

#endif
