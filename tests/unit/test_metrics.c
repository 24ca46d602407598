#include "base/clock.h"
#include "base/metrics.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* This program has its own clock, linked before the library's: a minute passes when a test says so. */
static int64_t now_ms = 1000000;

int64_t clock_mono_ms(void)
{
    return now_ms;
}

int64_t clock_mono_us(void)
{
    return now_ms * 1000;
}

int64_t clock_wall_ms(void)
{
    return now_ms;
}

int64_t clock_wall_us(void)
{
    return now_ms * 1000;
}

static struct metrics_window *w;
static struct metrics_summary s;

static void set_up(void)
{
    w = metrics_window_create();
}

static void tear_down(void)
{
    metrics_window_destroy(&w);
    cr_expect_null(w);
}

TestSuite(metrics, .init = set_up, .fini = tear_down);

static void expect_near(double got, double wanted)
{
    cr_expect_leq(fabs(got - wanted), wanted * 0.032 + 0.0005, "%f is not %f", got, wanted);
}

Test(metrics, an_empty_window_is_all_zero)
{
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 0);
    cr_expect(s.p50_ms == 0 && s.p99_ms == 0 && s.p999_ms == 0 && s.max_ms == 0);
}

Test(metrics, one_value_is_every_percentile)
{
    metrics_window_record(w, 1234567);
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 1);
    expect_near(s.p50_ms, 1234.567);
    expect_near(s.p99_ms, 1234.567);
    expect_near(s.p999_ms, 1234.567);
    cr_expect_float_eq(s.max_ms, 1234.567, 1e-9);
}

Test(metrics, percentiles_of_a_uniform_range_are_within_three_percent)
{
    for (int us = 1; us <= 100000; us++)
        metrics_window_record(w, us);
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 100000);
    expect_near(s.p50_ms, 50.0);
    expect_near(s.p99_ms, 99.0);
    expect_near(s.p999_ms, 99.9);
    cr_expect_float_eq(s.max_ms, 100.0, 1e-9);
}

Test(metrics, every_size_from_a_microsecond_to_an_hour_keeps_its_precision)
{
    for (int64_t us = 1; us <= 3600000000; us += us / 7 + 1) {
        metrics_window_record(w, us);
        metrics_window_read(w, &s);
        expect_near(s.p50_ms, (double)us / 1000);
        now_ms += 60000; /* the next value stands alone */
    }
}

Test(metrics, one_slow_value_in_a_thousand_moves_only_what_it_should)
{
    for (int i = 0; i < 999; i++)
        metrics_window_record(w, 1000);
    metrics_window_record(w, 5000000);
    metrics_window_read(w, &s);
    expect_near(s.p50_ms, 1);
    expect_near(s.p99_ms, 1);
    expect_near(s.p999_ms, 1);
    cr_expect_float_eq(s.max_ms, 5000, 1e-9);
}

Test(metrics, values_out_of_range_count_as_the_nearest)
{
    metrics_window_record(w, -5);
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 1);
    cr_expect(s.p50_ms == 0 && s.max_ms == 0);
    metrics_window_record(w, INT64_MAX);
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 2);
    expect_near(s.p99_ms, 3600000);
}

Test(metrics, a_value_is_seen_for_a_minute_and_then_gone)
{
    metrics_window_record(w, 1000);
    now_ms += 59000;
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 1);
    now_ms += 1000;
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 0);
}

Test(metrics, a_slot_that_comes_round_again_starts_empty)
{
    metrics_window_record(w, 9000000);
    now_ms += 60000;
    metrics_window_record(w, 1000);
    metrics_window_read(w, &s);
    cr_expect_eq(s.count, 1);
    expect_near(s.max_ms, 1);
}
