#include "base/parse.h"
#include "task/backoff.h"
#include <criterion/criterion.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MINUTE 60000
#define YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)

Test(backoff, the_wait_grows_by_the_multiplier_up_to_the_maximum)
{
    static const struct {
        int64_t initial_ms;
        double multiplier;
        int64_t max_ms;
        int attempts;
        int64_t wait_ms;
    } rows[] = {
        {1000, 2.0, 10 * MINUTE, 1, 1000},
        {1000, 2.0, 10 * MINUTE, 2, 2000},
        {1000, 2.0, 10 * MINUTE, 3, 4000},
        {1000, 2.0, 10 * MINUTE, 10, 512000},
        {1000, 2.0, 10 * MINUTE, 11, 600000},
        {1000, 2.0, 10 * MINUTE, 999, 600000},
        {1000, 1.0, 10 * MINUTE, 1, 1000},
        {1000, 1.0, 10 * MINUTE, 500, 1000},
        {1, 10.0, 3 * YEAR_MS, 4, 1000},
        {1, 10.0, 3 * YEAR_MS, 1000, 3 * YEAR_MS}, /* the power is infinite */
        {1000, 1.1, 10 * MINUTE, 2, 1100},
        {1000, 1.1, 10 * MINUTE, 3, 1210},
        {1, 1.5, 10 * MINUTE, 2, 2}, /* 1.5 ms: never earlier */
        {5000, 2.0, 5000, 1, 5000},
        {5000, 2.0, 5000, 2, 5000},
        {1, 1.0, 1, 1, 1},
        {1000, 2.0, 10 * MINUTE, 0, 1000}, /* as after one */
        {INT64_MAX / 2, 10.0, INT64_MAX, 1000, PARSE_MAX_DELAY_MS},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task_retry retry = {
            .initial_ms = rows[i].initial_ms, .multiplier = rows[i].multiplier, .max_ms = rows[i].max_ms};

        cr_expect_eq(backoff_delay_ms(&retry, rows[i].attempts, 0.999), rows[i].wait_ms, "row %zu: %lld", i,
                     (long long)backoff_delay_ms(&retry, rows[i].attempts, 0.999));
    }
}

Test(backoff, jitter_only_adds)
{
    static const struct {
        double jitter;
        double random;
        int64_t wait_ms;
    } rows[] = {
        {0.1, 0.0, 4000}, {0.1, 0.5, 4200}, {0.1, 0.999999, 4399}, {1.0, 0.0, 4000},
        {1.0, 0.5, 6000}, {0.0, 0.9, 4000}, {1.0, 0.999999, 7999},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task_retry retry = {
            .initial_ms = 1000, .multiplier = 2.0, .max_ms = 10 * MINUTE, .jitter = rows[i].jitter};

        cr_expect_eq(backoff_delay_ms(&retry, 3, rows[i].random), rows[i].wait_ms, "row %zu", i);
    }
}

Test(backoff, jitter_also_spreads_the_longest_wait)
{
    struct task_retry retry = {.initial_ms = 1000, .multiplier = 2.0, .max_ms = 2000, .jitter = 1.0};

    cr_expect_eq(backoff_delay_ms(&retry, 50, 0.5), 3000);
}

Test(backoff, nothing_waits_longer_than_ten_years)
{
    struct task_retry retry = {
        .initial_ms = PARSE_MAX_DELAY_MS, .multiplier = 10.0, .max_ms = PARSE_MAX_DELAY_MS, .jitter = 1.0};

    cr_expect_eq(backoff_delay_ms(&retry, 1000, 0.999), PARSE_MAX_DELAY_MS);
}

Test(backoff, a_schedule_is_followed_without_jitter_and_its_last_wait_repeats)
{
    int64_t waits[] = {0, 5000, 1000};
    struct task_retry retry = {.initial_ms = 7,
                               .multiplier = 2.0,
                               .max_ms = 9,
                               .jitter = 1.0,
                               .schedule_ms = waits,
                               .schedule_count = COUNT(waits)};

    cr_expect_eq(backoff_delay_ms(&retry, 1, 0.9), 0);
    cr_expect_eq(backoff_delay_ms(&retry, 2, 0.9), 5000);
    cr_expect_eq(backoff_delay_ms(&retry, 3, 0.9), 1000);
    cr_expect_eq(backoff_delay_ms(&retry, 4, 0.9), 1000);
    cr_expect_eq(backoff_delay_ms(&retry, 999, 0.9), 1000);
}
