#include "store/script_priv.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char sha[] = "0123456789abcdef0123456789abcdef01234567";
static struct keys keys;
static struct call call;

/* The sealed call, read as Redis reads it. */
static const char *args[20000];
static size_t lens[20000];
static int count;

static void set_up(void)
{
    keys_init(&keys, "d", 0);
    call_init(&call);
}

static void tear_down(void)
{
    call_deinit(&call);
    keys_deinit(&keys);
}

TestSuite(script, .init = set_up, .fini = tear_down);

/* "*3\r\n" or "$3\r\n" */
static size_t read_number(const char **p, char kind)
{
    char *end = NULL;
    size_t n = 0;

    cr_assert_eq(**p, kind);
    n = strtoul(*p + 1, &end, 10);
    cr_assert(end > *p + 1 && memcmp(end, "\r\n", 2) == 0);
    *p = end + 2;
    return n;
}

static void seal(void)
{
    const char *p = NULL;

    call_seal(&call);
    p = call.bytes;
    count = (int)read_number(&p, '*');
    cr_assert_leq((size_t)count, sizeof(args) / sizeof(*args));
    for (int i = 0; i < count; i++) {
        lens[i] = read_number(&p, '$');
        args[i] = p;
        p += lens[i];
        cr_assert_eq(memcmp(p, "\r\n", 2), 0);
        p += 2;
    }
    cr_assert_eq((size_t)(p - call.bytes), call.byte_count);
}

static void expect_argument(int at, const char *want)
{
    cr_assert_lt(at, count);
    cr_expect(lens[at] == strlen(want) && memcmp(args[at], want, lens[at]) == 0, "argument %d is \"%.*s\", not \"%s\"",
              at, (int)lens[at], args[at], want);
}

Test(script, every_script_is_inside_the_binary_behind_what_it_needs_of_the_common_part)
{
    for (int s = 0; s < SCRIPT_COUNT; s++) {
        size_t bytes = 0;
        const char *text = script_text((enum script)s, &bytes);
        cr_assert_not_null(text);
        cr_expect_eq(bytes, strlen(text));
        const char *common = strstr(text, "local base = ARGV[1]");
        const char *own = strstr(text, "-- KEYS:    as in common.lua");
        cr_expect(common && own && common < own, "script %d", s);
        cr_expect_null(strstr(text, "-- Shared by every script"), "script %d has comments of the common part", s);
    }
}

Test(script, no_two_scripts_are_the_same)
{
    for (int a = 0; a < SCRIPT_COUNT; a++) {
        for (int b = 0; b < a; b++) {
            size_t bytes;
            cr_expect_str_neq(script_text((enum script)a, &bytes), script_text((enum script)b, &bytes));
        }
    }
}

Test(script, a_call_has_the_containers_then_the_records_then_the_base_then_its_arguments)
{
    call_begin_script(&call, sha, &keys);
    call_add_record_key(&call, &keys, "one");
    call_add_record_key(&call, &keys, "two");
    call_begin_args(&call, &keys);
    call_add_str(&call, "text");
    call_add_int(&call, -5);
    seal();

    cr_assert_eq(count, 3 + KEYS_FIXED + 2 + 1 + 2);
    expect_argument(0, "EVALSHA");
    expect_argument(1, sha);
    expect_argument(2, "18");
    for (int i = 0; i < KEYS_FIXED; i++)
        expect_argument(3 + i, keys.fixed[i]);
    expect_argument(19, "d{0}one");
    expect_argument(20, "d{0}two");
    expect_argument(21, "d{0}");
    expect_argument(22, "text");
    expect_argument(23, "-5");
}

Test(script, the_number_of_keys_is_written_in_full)
{
    static const struct {
        int records;
        const char *keys;
    } cases[] = {{0, "16"}, {83, "99"}, {84, "100"}, {200, "216"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        call_begin_script(&call, sha, &keys);
        for (int k = 0; k < cases[i].records; k++)
            call_add_record_key(&call, &keys, "x");
        call_begin_args(&call, &keys);
        seal();
        expect_argument(2, cases[i].keys);
    }
}

Test(script, arguments_stay_right_while_the_memory_grows)
{
    char text[32];

    call_begin(&call);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(text, sizeof(text), "value-%d", i);
        call_add(&call, text, (size_t)n);
        call_add_int(&call, i);
        call_add_str(&call, "lasting");
    }
    seal();
    cr_assert_eq(count, 15000);
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(text, sizeof(text), "value-%d", i);
        expect_argument(3 * i, text);
        (void)snprintf(text, sizeof(text), "%d", i);
        expect_argument(3 * i + 1, text);
        expect_argument(3 * i + 2, "lasting");
    }
}

Test(script, arguments_are_bytes)
{
    static const char bytes[] = {'a', '\0', '\xff', '\r', '\n'};

    call_begin(&call);
    call_add(&call, bytes, sizeof(bytes));
    call_add(&call, bytes, sizeof(bytes));
    call_add(&call, NULL, 0);
    call_add_int(&call, INT64_MIN);
    seal();
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(lens[i], sizeof(bytes));
        cr_expect_eq(memcmp(args[i], bytes, sizeof(bytes)), 0);
    }
    cr_expect_eq(lens[2], 0);
    expect_argument(3, "-9223372036854775808");
}

Test(script, a_call_begins_anew)
{
    call_begin(&call);
    call_add_str(&call, "GET");
    call_add(&call, "first", 5);
    seal();
    call_begin(&call);
    call_add(&call, "PING", 4);
    seal();
    cr_assert_eq(count, 1);
    expect_argument(0, "PING");
}

/* Half a record would be a lost task. */
Test(script, what_was_not_written_whole_is_not_sent, .signal = SIGABRT)
{
    struct buf record;

    buf_init(&record, 4);
    buf_puts(&record, "1234");
    buf_puts(&record, "5");
    call_begin(&call);
    call_add_str(&call, "SET");
    call_add_buf(&call, &record);
    call_seal(&call);
}
