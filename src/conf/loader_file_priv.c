/* The configuration file: one JSON object whose members are settings.
 *
 * Faults of form (no JSON at all, a member twice) are shown by line and column only: the parser's own words quote
 * the text around the place, which may be a secret. */
#include "conf/loader_priv.h"
#include "base/log.h"
#include "conf/textfile_priv.h"
#include "conf/value_priv.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define WHERE_SIZE 512
#define NUMBER_SIZE 24
#define SHOWN_MAX 60 /* of a value of the wrong type */

/* The member's value as the text that a variable would hold, or NULL when its type is wrong. `number` is room. */
static const char *member_text(const struct option *o, const json_t *value, char number[NUMBER_SIZE])
{
    bool may_be_number = o->kind == OPTION_INT || o->kind == OPTION_DURATION;
    bool may_be_string = o->kind != OPTION_INT && o->kind != OPTION_BOOL;

    if (json_is_string(value) && may_be_string)
        return json_string_value(value);
    if (json_is_boolean(value) && o->kind == OPTION_BOOL)
        return json_is_true(value) ? "true" : "false";
    if (json_is_integer(value) && may_be_number) {
        (void)snprintf(number, NUMBER_SIZE, "%lld", (long long)json_integer_value(value));
        return number;
    }
    return NULL;
}

static const char *wanted_type(enum option_kind kind)
{
    if (kind == OPTION_INT)
        return "an integer";
    if (kind == OPTION_BOOL)
        return "true or false";
    return kind == OPTION_DURATION ? "a string with units or an integer of milliseconds" : "a string";
}

/* The value is shown unless it may hold a secret, which is told by the setting and not by the type. */
static void fault_of_type(struct loader *l, const struct option *o, const json_t *value, const char *where)
{
    bool is_secret = o->kind == OPTION_SECRETS || o->kind == OPTION_REDIS;
    size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15);
    char *shown = is_secret ? NULL : json_dumps(value, flags);

    if (!shown)
        loader_fault(l, where, "the value must be %s", wanted_type(o->kind));
    else
        loader_fault(l, where, "the value must be %s, not %.*s%s", wanted_type(o->kind), SHOWN_MAX, shown,
                     strlen(shown) > SHOWN_MAX ? "..." : "");
    free(shown);
}

static void read_member(struct loader *l, const char *path, const char *key, const json_t *value)
{
    size_t index = option_find(key, strlen(key));
    char number[NUMBER_SIZE];
    char where[WHERE_SIZE];
    const char *text = NULL;

    (void)snprintf(where, sizeof(where), "%s: %s", path, key);
    if (index == OPTION_NONE) {
        loader_fault(l, where, "there is no such setting");
        return;
    }
    if (option_at(index)->flags & OPTION_NO_MEMBER) {
        loader_fault(l, where, "cannot stand in the file itself");
        return;
    }
    text = member_text(option_at(index), value, number);
    if (text)
        loader_set(l, index, text, where);
    else
        fault_of_type(l, option_at(index), value, where);
    l->is_given[index] = true;
}

static void read_object(struct loader *l, const char *path, const struct buf *text)
{
    json_error_t error;
    const char *key = NULL;
    json_t *value = NULL;
    json_t *root = json_loadb(text->data ? text->data : "", text->len, 0, &error);
    json_t *strict = NULL;

    if (!root) {
        loader_fault(l, path, "is not valid JSON at line %d, column %d", error.line, error.column);
        return;
    }
    if (!json_is_object(root)) {
        loader_fault(l, path, "is not a JSON object");
        json_decref(root);
        return;
    }
    json_object_foreach(root, key, value) read_member(l, path, key, value);
    strict = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, &error);
    if (!strict)
        loader_fault(l, path, "has a member twice, at line %d, column %d", error.line, error.column);
    json_decref(strict);
    json_decref(root);
}

void loader_read_file(struct loader *l, const char *path)
{
    struct buf text;
    struct buf why;

    buf_init(&text, FILE_BYTES_MAX);
    buf_init(&why, SIZE_MAX - 1);
    if (textfile_read(path, &text, &why) == ERR_OK)
        read_object(l, path, &text);
    else
        loader_fault(l, "config", "the file %s %s", log_quote(path), why.data);
    if (text.data)
        explicit_bzero(text.data, text.capacity);
    buf_deinit(&text);
    buf_deinit(&why);
}
