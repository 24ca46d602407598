#include "json_expect.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *step(json_t *value, const char *name, size_t n)
{
    if (json_is_array(value))
        return json_array_get(value, strtoul(name, NULL, 10));
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        if (strlen(key) == n && strncmp(key, name, n) == 0)
            return member;
    }
    return NULL;
}

json_t *json_at(json_t *value, const char *path)
{
    for (const char *name = path; value && *name;) {
        size_t n = strcspn(name, ".");
        value = step(value, name, n);
        name += n;
        name += *name == '.';
    }
    return value;
}

static json_t *expect(json_t *value, const char *path, bool is_right(const json_t *), const char *type)
{
    json_t *found = json_at(value, path);

    if (!found || !is_right(found)) {
        char *all = json_dumps(value, JSON_ENCODE_ANY | JSON_INDENT(2));
        cr_assert_fail("%s is not %s in: %s", path, type, all ? all : "(no JSON)");
    }
    return found;
}

static bool is_string(const json_t *j)
{
    return json_is_string(j);
}

static bool is_integer(const json_t *j)
{
    return json_is_integer(j);
}

static bool is_number(const json_t *j)
{
    return json_is_number(j);
}

static bool is_boolean(const json_t *j)
{
    return json_is_boolean(j);
}

const char *json_text_at(json_t *value, const char *path)
{
    return json_string_value(expect(value, path, is_string, "a string"));
}

json_int_t json_integer_at(json_t *value, const char *path)
{
    return json_integer_value(expect(value, path, is_integer, "an integer"));
}

double json_number_at(json_t *value, const char *path)
{
    return json_number_value(expect(value, path, is_number, "a number"));
}

bool json_bool_at(json_t *value, const char *path)
{
    return json_is_true(expect(value, path, is_boolean, "a boolean"));
}

bool json_null_at(json_t *value, const char *path)
{
    return json_is_null(json_at(value, path));
}

/* Whether `s` has the shape of `pattern`, where 0 stands for any digit. */
static bool has_shape(const char *s, const char *pattern)
{
    for (; *s && *pattern; s++, pattern++) {
        bool is_right = *pattern == '0' ? isdigit((unsigned char)*s) != 0 : *s == *pattern;
        if (!is_right)
            return false;
    }
    return *s == *pattern;
}

int64_t time_to_ms(const char *text)
{
    struct tm tm = {0};

    cr_assert(has_shape(text, "0000-00-00T00:00:00.000Z"), "not a time in UTC with milliseconds: %s", text);
    const char *dot = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    cr_assert(dot && *dot == '.', "not a time: %s", text);
    return (int64_t)timegm(&tm) * 1000 + strtol(dot + 1, NULL, 10);
}

int64_t json_time_at(json_t *value, const char *path)
{
    return time_to_ms(json_text_at(value, path));
}

static bool is_fixed(const char *member)
{
    return strcmp(member, "status") == 0 || strcmp(member, "title") == 0 || strcmp(member, "code") == 0;
}

bool json_is_alike(const json_t *shown_value, const json_t *real)
{
    const char *key;
    json_t *member;

    if (json_is_null(shown_value) || json_is_null(real))
        return true;
    if (json_is_number(shown_value) || json_is_boolean(shown_value))
        return json_is_number(shown_value) ? json_is_number(real) : json_is_boolean(real);
    if (!real || json_typeof(shown_value) != json_typeof(real))
        return false;
    if (!json_is_object(shown_value))
        return true;
    if (json_object_size(shown_value) != json_object_size(real))
        return false;
    json_object_foreach((json_t *)(uintptr_t)shown_value, key, member)
    {
        const json_t *real_member = json_object_get(real, key);
        bool is_fine = is_fixed(key) && !json_is_object(member) && json_object_get(shown_value, "code")
                           ? json_equal(member, real_member)
                           : real_member && json_is_alike(member, real_member);
        if (!is_fine)
            return false;
    }
    return true;
}
