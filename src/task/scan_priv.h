#ifndef TASK_SCAN_PRIV_H
#define TASK_SCAN_PRIV_H

#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>

/* Finds the raw bytes of members and items in JSON that was validated before. Never reads past the bytes it was
 * given, whatever they are; what it finds in text that is not JSON means nothing. Nothing is copied. */

enum scan_kind {
    SCAN_OBJECT = 0,
    SCAN_ARRAY,
    SCAN_STRING,
    SCAN_NUMBER,
    SCAN_BOOL,
    SCAN_NULL,
};

/* A value as it stands in the text: a string with its quotes, a container with its brackets. */
struct scan_value {
    const char *raw;
    size_t bytes;
    enum scan_kind kind;
    int depth; /* levels of nesting: a scalar has 0, [] has 1, [{}] has 2 */
};

/* A walk over the members of an object or the items of an array. */
struct scan {
    const char *pos;
    const char *end;
};

/* The first value of the text; false when there is none. */
bool scan_root(const char *json, size_t n, struct scan_value *out);

void scan_begin(struct scan *s, const struct scan_value *container);
bool scan_next_member(struct scan *s, struct scan_value *name, struct scan_value *value);
bool scan_next_item(struct scan *s, struct scan_value *value);

/* A string's decoded bytes (they may hold NUL). They lie inside the text, or in `scratch` when there are escapes:
 * valid until `scratch` is used again. ERR_TOO_BIG or ERR_NOMEM by `scratch`. */
enum err scan_string(const struct scan_value *string, struct buf *scratch, const char **s, size_t *n) NODISCARD;

#endif
