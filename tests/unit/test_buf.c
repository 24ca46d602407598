#include "base/buf.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct buf b;

static void set_up(void)
{
    buf_init(&b, 1 << 20);
}

static void tear_down(void)
{
    buf_deinit(&b);
}

TestSuite(buf, .init = set_up, .fini = tear_down);

Test(buf, appends_of_all_kinds_follow_each_other)
{
    buf_puts(&b, "a");
    buf_putc(&b, 'b');
    buf_append(&b, "cd", 2);
    buf_printf(&b, "-%s-%03d", "x", 7);
    buf_put_int(&b, -12);
    cr_expect_str_eq(b.data, "abcd-x-007-12");
    cr_expect_eq(b.len, strlen(b.data));
    cr_expect_eq(buf_status(&b), ERR_OK);
}

Test(buf, growth_keeps_every_byte_and_the_final_nul)
{
    for (int i = 0; i < 100000; i++)
        buf_putc(&b, (char)('a' + i % 26));
    cr_assert_eq(b.len, 100000);
    cr_expect_eq(b.data[b.len], '\0');
    for (int i = 0; i < 100000; i++)
        cr_assert_eq(b.data[i], 'a' + i % 26);
}

Test(buf, printf_longer_than_the_first_allocation_is_whole)
{
    buf_printf(&b, "%1000d!", 5);
    cr_expect_eq(b.len, 1001);
    cr_expect_eq(b.data[1000], '!');
}

Test(buf, bytes_may_be_nul)
{
    buf_append(&b, "a\0b", 3);
    cr_expect_eq(b.len, 3);
    cr_expect_arr_eq(b.data, "a\0b", 4);
}

Test(buf, integers_are_decimal_up_to_both_ends_of_the_range)
{
    static const struct {
        int64_t value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {7, "7"},
        {-1, "-1"},
        {1000000, "1000000"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&b);
        buf_put_int(&b, rows[i].value);
        cr_expect_str_eq(b.data, rows[i].text);
    }
}

Test(buf, text_up_to_the_cap_fits_and_one_byte_more_fails_for_good)
{
    buf_init(&b, 4);
    buf_puts(&b, "abcd");
    cr_expect_eq(buf_status(&b), ERR_OK);
    buf_puts(&b, "e");
    cr_expect_eq(buf_status(&b), ERR_TOO_BIG);
    buf_puts(&b, "");
    cr_expect_eq(b.len, 4);
    cr_expect_str_eq(b.data, "abcd");
}

Test(buf, after_a_failure_shorter_appends_do_nothing)
{
    buf_init(&b, 4);
    buf_puts(&b, "ab");
    buf_puts(&b, "cde");
    buf_putc(&b, 'f');
    cr_expect_eq(b.len, 2);
}

Test(buf, clear_forgets_text_and_failure_but_keeps_memory)
{
    size_t capacity = 0;

    buf_init(&b, 4);
    buf_puts(&b, "abc");
    capacity = b.capacity;
    buf_puts(&b, "toolong");
    buf_clear(&b);
    cr_expect_eq(buf_status(&b), ERR_OK);
    cr_expect_eq(b.len, 0);
    cr_expect_str_eq(b.data, "");
    cr_expect_eq(b.capacity, capacity);
}

Test(buf, take_gives_the_text_and_leaves_an_empty_buffer)
{
    size_t len = 0;
    char *text = NULL;

    buf_puts(&b, "hello");
    text = buf_take(&b, &len);
    cr_expect_str_eq(text, "hello");
    cr_expect_eq(len, 5);
    cr_expect_null(b.data);
    cr_expect_eq(b.len, 0);
    free(text);
    buf_puts(&b, "again");
    cr_expect_str_eq(b.data, "again");
}

Test(buf, take_of_an_empty_buffer_is_an_empty_text)
{
    char *text = buf_take(&b, NULL);

    cr_assert_not_null(text);
    cr_expect_str_eq(text, "");
    free(text);
}

Test(buf, take_of_a_failed_buffer_is_null)
{
    size_t len = 99;

    buf_init(&b, 2);
    buf_puts(&b, "abc");
    cr_expect_null(buf_take(&b, &len));
    cr_expect_eq(len, 0);
}

Test(buf, json_strings_are_escaped_as_rfc_8259_asks)
{
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } rows[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
        {"\0\x01\x1f", 3, "\"\\u0000\\u0001\\u001f\""},
        {"/", 1, "\"/\""},
        {"gr\xc3\xbc\xc3\x9f", 6, "\"gr\xc3\xbc\xc3\x9f\""},
        {"\xf0\x9f\x98\x80 x", 6, "\"\xf0\x9f\x98\x80 x\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&b);
        buf_put_json(&b, rows[i].in, rows[i].n);
        cr_expect_str_eq(b.data, rows[i].out);
        buf_clear(&b);
        buf_put_json_lossy(&b, rows[i].in, rows[i].n);
        cr_expect_str_eq(b.data, rows[i].out);
    }
}

Test(buf, lossy_json_replaces_each_byte_that_is_no_utf8)
{
    buf_put_json_lossy(&b, "a\xff\xc3(\xed\xa0\x80z\xe2\x82", 10);
    cr_expect_str_eq(b.data, "\"a\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffdz\\ufffd\\ufffd\"");
}

Test(buf, base64_matches_the_vectors_of_rfc_4648)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff\xfe", "+//+"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&b);
        buf_puts(&b, "");
        buf_put_base64(&b, rows[i].in, strlen(rows[i].in));
        cr_expect_str_eq(b.data, rows[i].out);
    }
}
