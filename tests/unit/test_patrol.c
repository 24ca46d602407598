#include "store/patrol_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct patrol p;
static int64_t now_ms;

static void set_up(void)
{
    patrol_init(&p);
    now_ms = 1000;
}

TestSuite(patrol, .init = set_up);

static enum err answer(const char *cursor, const int64_t *numbers, size_t count)
{
    redisReply parts[8], *list[8], reply = {.type = REDIS_REPLY_ARRAY, .elements = count + 1, .element = list};
    int64_t repaired;
    char text[64];

    memset(parts, 0, sizeof(parts));
    strncpy(text, cursor, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (size_t i = 0; i <= count; i++) {
        list[i] = &parts[i];
        parts[i].type = i ? REDIS_REPLY_INTEGER : REDIS_REPLY_STRING;
        if (i)
            parts[i].integer = numbers[i - 1];
    }
    parts[0].str = text;
    parts[0].len = strlen(text);
    return patrol_read(&p, &reply, now_ms, &repaired);
}

/* A whole round: one step that ends it. */
static void count(int64_t pending, int64_t records)
{
    cr_assert_eq(answer("0", (const int64_t[]){0, pending, records, 0, 0}, 5), ERR_OK);
}

static void walk(int64_t repaired)
{
    cr_assert(p.is_walking);
    cr_assert_eq(answer("k7", (const int64_t[]){repaired}, 1), ERR_OK);
    cr_assert(p.is_walking);
    cr_assert_str_eq(p.cursor, "k7");
    cr_assert_eq(answer("", (const int64_t[]){0}, 1), ERR_OK);
    cr_assert_not(p.is_walking);
    cr_assert_str_eq(p.cursor, "0");
}

Test(patrol, a_round_goes_on_where_it_was_and_rests_at_its_end)
{
    cr_expect_str_eq(p.cursor, "0");
    cr_assert_eq(answer("17", (const int64_t[]){3}, 1), ERR_OK);
    cr_expect_str_eq(p.cursor, "17");
    cr_expect_eq(p.wait_ms, PATROL_STEP_MS);
    count(0, 0);
    cr_expect_str_eq(p.cursor, "0");
    cr_expect_eq(p.wait_ms, PATROL_ROUND_MS);
    cr_expect_not(p.is_walking);
}

Test(patrol, a_difference_that_is_counted_twice_begins_a_walk)
{
    count(1, 1);
    cr_expect_not(p.is_walking);
    count(1, 1);
    cr_expect(p.is_walking);
    cr_expect_str_eq(p.cursor, "");
}

Test(patrol, a_difference_that_is_gone_at_the_second_look_is_none)
{
    count(1, 1);
    count(0, 0);
    count(1, 1);
    cr_expect_not(p.is_walking);
}

Test(patrol, a_walk_that_repaired_something_is_followed_by_another_when_that_was_not_all)
{
    count(2, 2);
    count(2, 2);
    walk(1);
    cr_expect(p.was_walked);
    count(1, 1);
    cr_expect_not(p.was_walked);
    cr_expect(p.is_walking);
}

Test(patrol, a_difference_that_no_walk_repairs_is_not_walked_for_again)
{
    count(0, 3);
    count(0, 3);
    walk(0);
    for (int i = 0; i < 5; i++) {
        count(0, 3);
        cr_expect_not(p.is_walking);
    }
    count(0, 4);
    count(0, 4);
    cr_expect(p.is_walking, "it is another one");
}

Test(patrol, an_answer_of_another_form_changes_nothing)
{
    cr_assert_eq(answer("17", (const int64_t[]){3}, 1), ERR_OK);
    cr_expect_eq(answer("18", NULL, 0), ERR_INVALID);
    cr_expect_eq(answer("0", (const int64_t[]){0, 0}, 2), ERR_INVALID);
    cr_expect_eq(answer("1234567890123456789012345678901234567890123456789", (const int64_t[]){0}, 1), ERR_INVALID);
    cr_expect_str_eq(p.cursor, "17");
}

/* ---------------------------------------------------------------------- growing */

/* Whether a sample each 10 s of these makes it say that something grows. */
static bool grows(const int64_t *delivering, const int64_t *overdue)
{
    bool said = false;

    for (int i = 0; i < PATROL_SAMPLES; i++) {
        cr_assert_eq(answer("0", (const int64_t[]){0, 0, 0, delivering[i], overdue[i]}, 5), ERR_OK);
        cr_expect(i == PATROL_SAMPLES - 1 || !p.is_growing, "after %d samples", i + 1);
        said = p.is_growing;
        now_ms += PATROL_SAMPLE_MS;
    }
    return said;
}

static const int64_t NONE[PATROL_SAMPLES] = {0};

Test(patrol, what_grows_for_a_minute_is_reported)
{
    cr_expect(grows((const int64_t[]){1, 2, 3, 4, 5, 6, 7}, NONE));
    set_up();
    cr_expect(grows(NONE, (const int64_t[]){0, 10, 20, 30, 500, 600, 601}));
}

Test(patrol, what_comes_and_goes_is_not)
{
    cr_expect_not(grows((const int64_t[]){1, 2, 3, 3, 5, 6, 7}, NONE));
    set_up();
    cr_expect_not(grows(NONE, (const int64_t[]){5, 10, 20, 0, 5, 600, 601}));
    set_up();
    cr_expect_not(grows(NONE, NONE));
}

Test(patrol, rounds_between_two_samples_do_not_count)
{
    for (int64_t i = 1; i < 30; i++) {
        cr_assert_eq(answer("0", (const int64_t[]){0, 0, 0, i, 0}, 5), ERR_OK);
        cr_expect_not(p.is_growing);
        now_ms += 100;
    }
}
