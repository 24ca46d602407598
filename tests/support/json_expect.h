#ifndef SUPPORT_JSON_EXPECT_H
#define SUPPORT_JSON_EXPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Members of a JSON value by a dotted path, for instance "tasks.scheduled" or "errors.0.pointer". A member that is
 * missing or of another type fails the test and shows the whole value. */

json_t *json_at(json_t *value, const char *path); /* borrowed; NULL when it is not there */
const char *json_text_at(json_t *value, const char *path);
json_int_t json_integer_at(json_t *value, const char *path);
double json_number_at(json_t *value, const char *path);
bool json_bool_at(json_t *value, const char *path);
bool json_null_at(json_t *value, const char *path); /* whether it is there and null */

/* A time as the API gives it, `2026-11-30T10:20:30.123Z`, in Unix ms; any other form fails the test. */
int64_t json_time_at(json_t *value, const char *path);
int64_t time_to_ms(const char *rfc3339_utc_ms);

/* Whether both have the same members of the same types, at every depth; null stands for any. Of a problem (what has a
 * `code`), status, title and code are equal too. */
bool json_is_alike(const json_t *shown, const json_t *real);

#endif
