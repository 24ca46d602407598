#include "store/script_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char sha[] = "0123456789abcdef0123456789abcdef01234567";
static struct keys keys;
static struct call call;

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

static void expect_argument(int at, const char *want)
{
    cr_assert_lt(at, call.count);
    cr_expect(call.lens[at] == strlen(want) && memcmp(call.argv[at], want, call.lens[at]) == 0,
              "argument %d is \"%.*s\", not \"%s\"", at, (int)call.lens[at], call.argv[at], want);
}

Test(script, every_script_is_inside_the_binary_behind_the_common_part)
{
    for (int s = 0; s < SCRIPT_COUNT; s++) {
        size_t bytes = 0;
        const char *text = script_text((enum script)s, &bytes);
        cr_assert_not_null(text);
        cr_expect_eq(bytes, strlen(text));
        cr_expect(strncmp(text, "-- Shared by every script", 25) == 0, "script %d", s);
        cr_expect_not_null(strstr(text, "-- KEYS:    as in common.lua"), "script %d", s);
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
    call_seal(&call);

    cr_assert_eq(call.count, 3 + KEYS_FIXED + 2 + 1 + 2);
    expect_argument(0, "EVALSHA");
    expect_argument(1, sha);
    expect_argument(2, "14");
    for (int i = 0; i < KEYS_FIXED; i++)
        expect_argument(3 + i, keys.fixed[i]);
    expect_argument(15, "d{0}one");
    expect_argument(16, "d{0}two");
    expect_argument(17, "d{0}");
    expect_argument(18, "text");
    expect_argument(19, "-5");
}

Test(script, the_number_of_keys_is_written_in_full)
{
    static const struct {
        int records;
        const char *keys;
    } cases[] = {{0, "12"}, {87, "99"}, {88, "100"}, {200, "212"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        call_begin_script(&call, sha, &keys);
        for (int k = 0; k < cases[i].records; k++)
            call_add_record_key(&call, &keys, "x");
        call_begin_args(&call, &keys);
        call_seal(&call);
        expect_argument(2, cases[i].keys);
    }
}

Test(script, copied_arguments_stay_right_while_the_memory_grows)
{
    char text[32];

    call_begin(&call);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(text, sizeof(text), "value-%d", i);
        call_add_text(&call, text, (size_t)n);
        call_add_int(&call, i);
        call_add_str(&call, "lasting");
    }
    call_seal(&call);
    cr_assert_eq(call.count, 15000);
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
    call_add_text(&call, bytes, sizeof(bytes));
    call_add(&call, NULL, 0);
    call_seal(&call);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(call.lens[i], sizeof(bytes));
        cr_expect_eq(memcmp(call.argv[i], bytes, sizeof(bytes)), 0);
    }
    cr_expect_eq(call.lens[2], 0);
    cr_expect_not_null(call.argv[2]);
}

Test(script, a_call_begins_anew)
{
    call_begin(&call);
    call_add_str(&call, "GET");
    call_add_text(&call, "first", 5);
    call_seal(&call);
    call_begin(&call);
    call_add_text(&call, "PING", 4);
    call_seal(&call);
    cr_assert_eq(call.count, 1);
    expect_argument(0, "PING");
}
