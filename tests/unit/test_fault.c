#include "base/parse.h"
#include "task/fault.h"
#include <criterion/criterion.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

Test(fault, a_fault_keeps_copies_of_its_texts)
{
    char pointer[] = "/url";
    struct faults f;

    faults_init(&f);
    faults_add(&f, pointer, "must be at most %d bytes", 2048);
    pointer[1] = 'X';
    cr_assert_eq(f.count, 1);
    cr_expect_str_eq(f.items[0].pointer, "/url");
    cr_expect_str_eq(f.items[0].detail, "must be at most 2048 bytes");
    cr_expect_eq(f.dropped, 0);
    faults_deinit(&f);
    cr_expect_eq(f.count, 0);
    cr_expect_null(f.items);
}

Test(fault, the_first_hundred_are_listed_and_the_rest_counted)
{
    struct faults f;

    faults_init(&f);
    for (int i = 0; i < FAULTS_MAX + 7; i++)
        faults_add(&f, "/x", "%d", i);
    cr_expect_eq(f.count, FAULTS_MAX);
    cr_expect_eq(f.dropped, 7);
    cr_expect_str_eq(f.items[FAULTS_MAX - 1].detail, "99");
    faults_deinit(&f);
}

Test(fault, bytes_that_are_not_utf8_are_replaced)
{
    static const struct {
        const char *text;
        const char *shown;
    } rows[] = {
        {"plain", "plain"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"a\xc3(b", "a\xef\xbf\xbd(b"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"},
        {"\xff", "\xef\xbf\xbd"},
    };
    struct faults f;

    faults_init(&f);
    for (size_t i = 0; i < COUNT(rows); i++) {
        faults_add(&f, rows[i].text, "%s", rows[i].text);
        cr_expect_str_eq(f.items[i].detail, rows[i].shown, "row %zu", i);
        cr_expect_str_eq(f.items[i].pointer, rows[i].shown, "row %zu", i);
    }
    faults_deinit(&f);
}

Test(fault, a_long_detail_is_cut_and_stays_utf8)
{
    struct faults f;
    char text[2000];

    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[sizeof(text) - 2] = '\0';
    faults_init(&f);
    faults_add(&f, "", "x%s", text);
    faults_add(&f, "", "xx%s", text);
    for (size_t i = 0; i < f.count; i++) {
        cr_expect_gt(strlen(f.items[i].detail), 400);
        cr_expect_lt(strlen(f.items[i].detail), 600);
        cr_expect(parse_is_utf8(f.items[i].detail, strlen(f.items[i].detail)));
    }
    faults_deinit(&f);
}

Test(fault, pointers_escape_what_json_pointer_asks_for)
{
    static const struct {
        const char *prefix;
        const char *token;
        const char *pointer;
    } rows[] = {
        {"", "url", "/url"},
        {"", "", "/"},
        {"/headers", "a/b", "/headers/a~1b"},
        {"/headers", "~", "/headers/~0"},
        {"/headers", "~1/", "/headers/~01~1"},
        {"/headers", "b\xc3(", "/headers/b\xef\xbf\xbd("},
        {"", "\xe2\x82\xac", "/\xe2\x82\xac"},
        {"", "a\"b\n", "/a\"b\n"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char out[64];

        cr_expect_str_eq(fault_pointer(out, sizeof(out), rows[i].prefix, rows[i].token, strlen(rows[i].token)),
                         rows[i].pointer);
    }
}

Test(fault, a_nul_in_a_name_is_replaced)
{
    char out[64];

    cr_expect_str_eq(fault_pointer(out, sizeof(out), "", "a\0b", 3), "/a\xef\xbf\xbd"
                                                                     "b");
}

Test(fault, a_long_name_is_cut_between_characters)
{
    char token[500];

    for (size_t i = 0; i < sizeof(token); i += 2)
        memcpy(token + i, "\xc3\xa9", 2);
    for (size_t size = 8; size < 80; size++) {
        char out[80];

        memset(out, 'X', sizeof(out));
        (void)fault_pointer(out, size, "/a", token, sizeof(token));
        size_t n = strlen(out);

        cr_expect_lt(n, size);
        cr_expect(parse_is_utf8(out, n), "size %zu", size);
        cr_expect_str_eq(out + n - 3, "...", "size %zu", size);
    }
}

Test(fault, a_tiny_room_is_never_left)
{
    for (size_t size = 1; size < 12; size++) {
        char out[16];

        memset(out, 'X', sizeof(out));
        (void)fault_pointer(out, size, "/headers", "name", 4);
        cr_expect_lt(strnlen(out, sizeof(out)), size);
        cr_expect_eq(out[size], 'X');
    }
}
