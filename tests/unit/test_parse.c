#include "base/clock.h"
#include "base/parse.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define UNTOUCHED INT64_C(-777)
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

typedef bool reader(const char *s, size_t n, int64_t *out);

struct good {
    const char *text;
    int64_t value;
};

static void expect_good(reader *read, const struct good *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = UNTOUCHED;

        cr_expect(read(rows[i].text, strlen(rows[i].text), &value), "refused: %s", rows[i].text);
        cr_expect_eq(value, rows[i].value, "%s gave %lld", rows[i].text, (long long)value);
    }
}

static void expect_bad(reader *read, const char *const *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = UNTOUCHED;

        cr_expect_not(read(rows[i], strlen(rows[i]), &value), "accepted: %s", rows[i]);
        cr_expect_eq(value, UNTOUCHED, "touched: %s", rows[i]);
    }
}

Test(parse, integers_within_64_bits_are_read)
{
    static const struct good rows[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-15", -15},
        {"007", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };

    expect_good(parse_int64, rows, COUNT(rows));
}

Test(parse, integers_with_anything_else_are_refused)
{
    static const char *const rows[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "0x10",
        "--1",
        "1-",
        "abc",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999",
        "18446744073709551616",
    };

    expect_bad(parse_int64, rows, COUNT(rows));
}

Test(parse, an_integer_ends_where_its_length_says)
{
    int64_t value = 0;

    cr_expect(parse_int64("12345", 2, &value));
    cr_expect_eq(value, 12);
    cr_expect_not(parse_int64("1\0", 2, &value));
}

Test(parse, durations_are_integers_with_units_largest_first)
{
    static const struct good rows[] = {
        {"250ms", 250},
        {"30s", 30000},
        {"15m", 900000},
        {"1h30m", 5400000},
        {"7d", 604800000},
        {"0s", 0},
        {"1d2h3m4s5ms", 93784005},
        {"90m", 5400000},
        {"1s500ms", 1500},
        {"05m", 300000},
        {"3653d", PARSE_MAX_DELAY_MS},
        {"4611686018427387903ms", INT64_MAX / 2},
    };

    expect_good(parse_duration, rows, COUNT(rows));
}

Test(parse, durations_without_unit_out_of_order_or_too_long_are_refused)
{
    static const char *const rows[] = {
        "",
        "5",
        "s",
        "ms",
        "1.5s",
        "-1s",
        "+1s",
        "1 s",
        " 1s",
        "1s ",
        "1m1h",
        "1s1s",
        "1h1h",
        "1M",
        "1S",
        "1w",
        "1us",
        "1sec",
        "1h30",
        "1ms1s",
        "1d1d",
        "5,5s",
        "1e3s",
        "1_0s",
        "99999999999999999999s",
        "4611686018427387904ms",
        "106751991168d",
        "53375995583d24h",
    };

    expect_bad(parse_duration, rows, COUNT(rows));
}

Test(parse, rfc3339_times_are_unix_milliseconds)
{
    static const struct good rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T12:00:00Z", 951825600000},
        {"2035-06-30T23:59:59.5+02:00", 2066853599500},
        {"2026-11-30T18:00:00-05:30", 1796081400000},
        {"2026-11-30t18:00:00z", 1796061600000},
        {"2026-11-30T18:00:00-00:00", 1796061600000},
        {"2026-11-30T18:00:00.123Z", 1796061600123},
        {"1970-01-01T00:30:00+00:30", 0},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
    };

    expect_good(parse_rfc3339, rows, COUNT(rows));
}

Test(parse, fractions_of_a_millisecond_are_rounded_up)
{
    static const struct good rows[] = {
        {"1970-01-01T00:00:01.000000001Z", 1001}, {"1970-01-01T00:00:01.0001Z", 1001},
        {"1970-01-01T00:00:01.001Z", 1001},       {"1970-01-01T00:00:01.001000000Z", 1001},
        {"1970-01-01T00:00:01.999999999Z", 2000}, {"1970-01-01T00:00:01.1Z", 1100},
    };

    expect_good(parse_rfc3339, rows, COUNT(rows));
}

Test(parse, a_leap_second_means_the_next_second_only_at_the_end_of_june_and_december)
{
    static const struct good good[] = {
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"2015-06-30T23:59:60Z", 1435708800000},
        {"2017-01-01T01:59:60+02:00", 1483228800000},
        {"2016-12-31T18:59:60-05:00", 1483228800000},
    };
    static const char *const bad[] = {
        "2016-12-31T23:59:61Z", "2016-11-30T23:59:60Z", "2016-12-30T23:59:60Z",
        "2016-12-31T22:59:60Z", "2016-12-31T23:58:60Z", "2016-12-31T23:59:60+02:00",
    };

    expect_good(parse_rfc3339, good, COUNT(good));
    expect_bad(parse_rfc3339, bad, COUNT(bad));
}

Test(parse, malformed_times_and_dates_that_do_not_exist_are_refused)
{
    static const char *const rows[] = {
        "",
        "2026-11-30",
        "2026-11-30T18:00:00",
        "2026-11-30 18:00:00Z",
        "2026-11-30T18:00Z",
        "2026-11-30T18:00:00.Z",
        "2026-11-30T18:00:00.1234567890Z",
        "2026-11-30T18:00:00+0200",
        "2026-11-30T18:00:00+02",
        "2026-11-30T18:00:00+24:00",
        "2026-11-30T18:00:00+02:60",
        "2026-11-30T18:00:00Z ",
        " 2026-11-30T18:00:00Z",
        "2026-11-30T18:00:00,5Z",
        "2026-1-30T18:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-11-00T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T18:60:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-01:00",
        "9999-12-31T23:59:59.9999Z",
        "+2026-11-30T18:00:00Z",
        "20261130T180000Z",
        "2026-11-30T18:00:00X",
        "2026-11-30T-1:00:00Z",
    };

    expect_bad(parse_rfc3339, rows, COUNT(rows));
}

Test(parse, every_day_from_1970_to_2200_survives_writing_and_reading)
{
    const int64_t day_ms = INT64_C(86400000);

    for (int64_t day = 0; day < 84000; day++) {
        int64_t ms = day * day_ms + day % 1000;
        int64_t back = UNTOUCHED;
        char text[PARSE_RFC3339_SIZE];

        parse_format_rfc3339(ms, text);
        cr_assert(parse_rfc3339(text, strlen(text), &back), "%s", text);
        cr_assert_eq(back, ms, "%s", text);
    }
}

Test(parse, times_are_written_in_utc_with_milliseconds_and_clamped)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-5, "1970-01-01T00:00:00.000Z"},
        {1796061600007, "2026-11-30T18:00:00.007Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[PARSE_RFC3339_SIZE];

        parse_format_rfc3339(rows[i].ms, text);
        cr_expect_str_eq(text, rows[i].text);
    }
}

Test(parse, all_three_http_date_forms_are_the_same_instant)
{
    static const struct good rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},  {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},       {"Sun Nov 16 08:49:37 1994", 784975777},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800},
    };

    expect_good(parse_http_date, rows, COUNT(rows));
}

Test(parse, two_digit_years_are_at_most_fifty_years_ahead)
{
    int64_t now_s = clock_wall_ms() / 1000;

    for (int year = 0; year < 100; year++) {
        char text[64];
        int64_t value = 0;

        (void)snprintf(text, sizeof(text), "Monday, 01-Jan-%02d 00:00:00 GMT", year);
        cr_assert(parse_http_date(text, strlen(text), &value), "%s", text);
        cr_expect_leq(value, now_s + INT64_C(51) * 366 * 86400, "%s", text);
        cr_expect_gt(value, now_s - INT64_C(51) * 366 * 86400, "%s", text);
    }
}

Test(parse, other_dates_are_refused)
{
    static const char *const rows[] = {
        "",
        "Sun",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Xyz, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "1994-11-06T08:49:37Z",
        "784111777",
        "06 Nov 1994 08:49:37 GMT",
    };

    expect_bad(parse_http_date, rows, COUNT(rows));
}

Test(parse, base64_is_decoded)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmE=", "fooba"},
        {"Zm9vYmFy", "foobar"},
        {"+//+", "\xfb\xff\xfe"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        unsigned char out[16] = {0};
        size_t n = 99;

        cr_expect(parse_base64(rows[i].in, strlen(rows[i].in), out, &n), "%s", rows[i].in);
        cr_expect_eq(n, strlen(rows[i].out), "%s", rows[i].in);
        cr_expect_arr_eq(out, rows[i].out, n, "%s", rows[i].in);
        n = 99;
        cr_expect(parse_base64(rows[i].in, strlen(rows[i].in), NULL, &n), "%s", rows[i].in);
        cr_expect_eq(n, strlen(rows[i].out), "%s", rows[i].in);
    }
}

Test(parse, base64_with_wrong_padding_letters_or_left_over_bits_is_refused)
{
    static const char *const rows[] = {
        "Z",     "Zg",     "Zg=",  "Zg===", "====", "=",    "Zm9v=", "Z===", "Zg==Zg==",
        "Zm 9v", "Zm9v\n", "Zm9-", "Zm9_",  "Zh==", "Zm9=", "=Zm9",  "Z=g=",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t n = 99;

        cr_expect_not(parse_base64(rows[i], strlen(rows[i]), NULL, &n), "%s", rows[i]);
        cr_expect_eq(n, 99);
    }
}

Test(parse, utf8_is_well_formed_or_not)
{
    static const struct {
        const char *bytes;
        bool is_good;
    } rows[] = {
        {"", true},
        {"plain text longer than eight bytes", true},
        {"\x7f", true},
        {"\xc2\x80", true},
        {"\xdf\xbf", true},
        {"\xe0\xa0\x80", true},
        {"\xed\x9f\xbf", true},
        {"\xee\x80\x80", true},
        {"\xef\xbf\xbf", true},
        {"\xf0\x90\x80\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"12345678\xe2\x82\xac", true},
        {"1234567\xe2\x82\xac", true},
        {"\x80", false},
        {"\xc0\x80", false},         /* overlong */
        {"\xc1\xbf", false},         /* overlong */
        {"\xe0\x9f\xbf", false},     /* overlong */
        {"\xf0\x8f\xbf\xbf", false}, /* overlong */
        {"\xed\xa0\x80", false},     /* surrogate */
        {"\xed\xbf\xbf", false},     /* surrogate */
        {"\xf4\x90\x80\x80", false}, /* over U+10FFFF */
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
        {"\xc2", false},
        {"\xe2\x82", false},
        {"\xf0\x9f\x98", false},
        {"\xe2\x28\xa1", false},
        {"\xc2\xc2\x80", false},
        {"12345678\xff", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(parse_is_utf8(rows[i].bytes, strlen(rows[i].bytes)), rows[i].is_good, "row %zu", i);
    cr_expect(parse_is_utf8("a\0b", 3), "U+0000 is a character");
}
