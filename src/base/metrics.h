#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* The distribution of a duration over the last minute: 60 one-second histograms with buckets of about 3 % width
 * from 1 us to 1 h; and since the start, in few buckets. Any thread may record and read; a short mutex inside. */

struct metrics_window;

struct metrics_summary {
    int64_t count;
    double p50_ms, p99_ms, p999_ms, max_ms; /* 0 when count is 0 */
};

/* Since the start: how many were at most each bound and above the one before it; the last element, above all. */
#define METRICS_BOUNDS ((size_t)17)
extern const int64_t metrics_bounds_us[METRICS_BOUNDS];
struct metrics_total {
    int64_t counts[METRICS_BOUNDS + 1];
    int64_t sum_us;
};

struct metrics_window *metrics_window_create(void);
void metrics_window_destroy(struct metrics_window **w);
void metrics_window_record(struct metrics_window *w, int64_t us); /* below 0 counts as 0 */
void metrics_window_read(struct metrics_window *w, struct metrics_summary *out);
void metrics_window_read_total(struct metrics_window *w, struct metrics_total *out);

#endif
