#include "store/answer_memory_priv.h"
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

static struct answer_memory memory;

static void tear_down(void)
{
    answer_memory_deinit(&memory);
}

TestSuite(answer_memory, .fini = tear_down);

/* Answers of the given number of values of 1 to `bytes_max` bytes, none of which may lie on another. */
static void expect_apart(int values, size_t bytes_max)
{
    static unsigned char *taken[2000];

    cr_assert_leq((size_t)values, sizeof(taken) / sizeof(*taken));
    for (int i = 0; i < values; i++) {
        size_t n = 1 + (size_t)i % bytes_max;
        taken[i] = answer_memory_take(&memory, n);
        cr_assert_not_null(taken[i]);
        cr_assert_eq((uintptr_t)taken[i] % sizeof(void *), 0);
        for (size_t k = 0; k < n; k++)
            cr_assert_eq(taken[i][k], 0, "value %d is not zero", i);
        memset(taken[i], 1 + i % 255, n);
    }
    for (int i = 0; i < values; i++)
        for (size_t k = 0; k <= (size_t)i % bytes_max; k++)
            cr_assert_eq(taken[i][k], 1 + i % 255, "value %d was written over", i);
}

Test(answer_memory, values_of_an_answer_are_zero_at_first_and_apart_from_each_other)
{
    for (int answer = 0; answer < 5; answer++) {
        expect_apart(2000, 300);
        answer_memory_reset(&memory);
    }
}

Test(answer_memory, a_value_may_be_larger_than_any_block)
{
    const size_t bytes = (size_t)3 << 20;
    char *large = answer_memory_take(&memory, bytes);

    cr_assert_not_null(large);
    memset(large, 'x', bytes);
    expect_apart(100, 10);
    cr_expect_eq(large[bytes - 1], 'x');
    answer_memory_reset(&memory);
    expect_apart(100, 10);
}

Test(answer_memory, what_cannot_be_had_is_refused)
{
    cr_expect_null(answer_memory_take(&memory, SIZE_MAX));
    cr_expect_not_null(answer_memory_take(&memory, 0));
    cr_expect_not_null(answer_memory_take(&memory, 1));
}
