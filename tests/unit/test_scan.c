#include "task/scan_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The scanner that finds the bytes of members. Behind jansson it sees only JSON; here it must keep to its bounds with
 * anything. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static bool is_text(const struct scan_value *v, const char *text)
{
    return v->bytes == strlen(text) && memcmp(v->raw, text, v->bytes) == 0;
}

Test(scan, values_are_found_with_their_kind_and_depth)
{
    static const struct {
        const char *json;
        const char *raw;
        enum scan_kind kind;
        int depth;
    } rows[] = {
        {"5", "5", SCAN_NUMBER, 0},
        {" -1.5e+3\n", "-1.5e+3", SCAN_NUMBER, 0},
        {"true", "true", SCAN_BOOL, 0},
        {"\tfalse ", "false", SCAN_BOOL, 0},
        {"null", "null", SCAN_NULL, 0},
        {"\"a\\\"b\\\\\"", "\"a\\\"b\\\\\"", SCAN_STRING, 0},
        {"[]", "[]", SCAN_ARRAY, 1},
        {" { } ", "{ }", SCAN_OBJECT, 1},
        {"[[],{\"a\":[{}]}]", "[[],{\"a\":[{}]}]", SCAN_ARRAY, 4},
        {"[\"]]]\",\"[[[\\\"[\"]", "[\"]]]\",\"[[[\\\"[\"]", SCAN_ARRAY, 1},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scan_value v;

        cr_assert(scan_root(rows[i].json, strlen(rows[i].json), &v), "%s", rows[i].json);
        cr_expect(is_text(&v, rows[i].raw), "%s: %.*s", rows[i].json, (int)v.bytes, v.raw);
        cr_expect_eq(v.kind, rows[i].kind, "%s", rows[i].json);
        cr_expect_eq(v.depth, rows[i].depth, "%s", rows[i].json);
    }
}

Test(scan, nothing_is_found_in_nothing)
{
    struct scan_value v;

    cr_expect_not(scan_root("", 0, &v));
    cr_expect_not(scan_root(" \r\n\t", 4, &v));
}

Test(scan, members_come_in_their_order)
{
    static const char json[] = "{ \"a\" : 1,\"b\":\"x\" ,\"c\\u0000\":[1,{\"d\":2}],\"\":null}";
    static const char *const expected[] = {"\"a\"",         "1",    "\"b\"", "\"x\"", "\"c\\u0000\"",
                                           "[1,{\"d\":2}]", "\"\"", "null"};
    struct scan_value object, name, value;
    struct scan scan;
    size_t i = 0;

    cr_assert(scan_root(json, strlen(json), &object));
    scan_begin(&scan, &object);
    for (; scan_next_member(&scan, &name, &value); i += 2) {
        cr_assert_lt(i, COUNT(expected));
        cr_expect(is_text(&name, expected[i]), "%zu: %.*s", i, (int)name.bytes, name.raw);
        cr_expect(is_text(&value, expected[i + 1]), "%zu: %.*s", i, (int)value.bytes, value.raw);
    }
    cr_expect_eq(i, COUNT(expected));
    cr_expect_not(scan_next_member(&scan, &name, &value), "the end stays the end");
}

Test(scan, items_come_in_their_order)
{
    static const char json[] = "[1, \"2,\" ,[3],{\"4\":4}\n]";
    static const char *const expected[] = {"1", "\"2,\"", "[3]", "{\"4\":4}"};
    struct scan_value array, value;
    struct scan scan;
    size_t i = 0;

    cr_assert(scan_root(json, strlen(json), &array));
    scan_begin(&scan, &array);
    for (; scan_next_item(&scan, &value); i++) {
        cr_assert_lt(i, COUNT(expected));
        cr_expect(is_text(&value, expected[i]), "%zu: %.*s", i, (int)value.bytes, value.raw);
    }
    cr_expect_eq(i, COUNT(expected));
}

Test(scan, strings_without_escapes_are_not_copied)
{
    static const char json[] = "\"plain\"";
    struct scan_value v;
    struct buf scratch;
    const char *s = NULL;
    size_t n = 0;

    buf_init(&scratch, 100);
    cr_assert(scan_root(json, strlen(json), &v));
    cr_expect_eq(scan_string(&v, &scratch, &s, &n), ERR_OK);
    cr_expect_eq(s, json + 1);
    cr_expect_eq(n, 5);
    buf_deinit(&scratch);
}

Test(scan, a_scratch_buffer_that_is_too_small_is_reported)
{
    static const char json[] = "\"12345\\n\"";
    struct scan_value v;
    struct buf scratch;
    const char *s = NULL;
    size_t n = 0;

    buf_init(&scratch, 3);
    cr_assert(scan_root(json, strlen(json), &v));
    cr_expect_eq(scan_string(&v, &scratch, &s, &n), ERR_TOO_BIG);
    buf_deinit(&scratch);
}

/* Walk everything in `json`, in memory that ends with its last byte. */
static void walk_all(const char *json, size_t n)
{
    char *exact = malloc(n > 0 ? n : 1);
    struct scan_value root, name, value;
    struct buf scratch;
    struct scan scan;
    const char *s = NULL;
    size_t bytes = 0;
    size_t found = 0;

    cr_assert_not_null(exact);
    memcpy(exact, json, n);
    buf_init(&scratch, 6 * n + 8);
    if (scan_root(exact, n, &root)) {
        cr_expect(root.raw >= exact && root.raw + root.bytes <= exact + n, "%s", json);
        scan_begin(&scan, &root);
        while (scan_next_member(&scan, &name, &value) && ++found <= n) {
            cr_expect(value.raw + value.bytes <= exact + n, "%s", json);
            cr_expect_eq(scan_string(&name, &scratch, &s, &bytes), ERR_OK);
        }
        scan_begin(&scan, &root);
        while (scan_next_item(&scan, &value) && ++found <= 2 * n)
            cr_expect(value.raw + value.bytes <= exact + n, "%s", json);
    }
    cr_expect_leq(found, 2 * n, "the walk ends: %s", json);
    buf_deinit(&scratch);
    free(exact);
}

Test(scan, every_beginning_of_a_text_is_walked_within_its_bounds)
{
    static const char *const rows[] = {
        "{\"a\\u00e9\\ud83d\\ude00\":[1,{\"b\\n\":\"c\\\"\"}],\"d\\\\\":null , \"e\":-1.5}",
        "[\"a\\u12\",{\"b\":",
        "{\"\\ud800\\\":1}",
        "{\"\\ud800\\u\":1,\"\\",
        "{\"a\" 1,\"b\"::2,,}",
        "[:::]",
        "[,,1,,2]",
        "]]]}}}",
        "{5:6}",
        "{\"a\":}",
        "\"\\\"",
        "\"",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t n = 0; n <= strlen(rows[i]); n++)
            walk_all(rows[i], n);
    }
}
