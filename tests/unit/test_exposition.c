#include "base/exposition.h"
#include <criterion/criterion.h>
#include <string.h>

static struct buf out;

static void set_up(void)
{
    buf_init(&out, 1 << 20);
}

static void tear_down(void)
{
    buf_deinit(&out);
}

TestSuite(exposition, .init = set_up, .fini = tear_down);

Test(exposition, a_counter_is_its_head_and_its_value)
{
    exposition_counter(&out, "duepost_tasks_created_total", "Tasks accepted.", 12);
    cr_expect_str_eq(out.data, "# HELP duepost_tasks_created_total Tasks accepted.\n"
                               "# TYPE duepost_tasks_created_total counter\n"
                               "duepost_tasks_created_total 12\n");
}

Test(exposition, a_gauge_keeps_its_digits)
{
    exposition_gauge(&out, "a_seconds", "A.", 0.000125);
    cr_expect_not_null(strstr(out.data, "# TYPE a_seconds gauge\na_seconds 0.000125\n"), "%s", out.data);
}

Test(exposition, label_values_are_escaped)
{
    exposition_int(&out, "m", (const struct exposition_label[]){{"a", "x\"\\\ny"}, {"b", "z"}, {0}}, -3);
    cr_expect_str_eq(out.data, "m{a=\"x\\\"\\\\\\ny\",b=\"z\"} -3\n");
}

Test(exposition, a_histogram_is_cumulative_and_ends_with_everything)
{
    struct metrics_window *w = metrics_window_create();
    struct metrics_total total;

    metrics_window_record(w, -5); /* early: counts as 0 */
    metrics_window_record(w, 500);
    metrics_window_record(w, 501);
    metrics_window_record(w, INT64_C(400000000));
    metrics_window_read_total(w, &total);
    exposition_histogram(&out, "h_seconds", "H.", &total);
    cr_expect_not_null(strstr(out.data, "h_seconds_bucket{le=\"0.0005\"} 2\n"), "%s", out.data);
    cr_expect_not_null(strstr(out.data, "h_seconds_bucket{le=\"0.001\"} 3\n"), "%s", out.data);
    cr_expect_not_null(strstr(out.data, "h_seconds_bucket{le=\"300\"} 3\n"), "%s", out.data);
    cr_expect_not_null(strstr(out.data, "h_seconds_bucket{le=\"+Inf\"} 4\n"), "%s", out.data);
    cr_expect_not_null(strstr(out.data, "h_seconds_sum 400.001001\n"), "%s", out.data);
    cr_expect_not_null(strstr(out.data, "h_seconds_count 4\n"), "%s", out.data);
    metrics_window_destroy(&w);
}
