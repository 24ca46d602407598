#include "app/report.h"

#define STALLED_MS 5000 /* a mover that has not asked Redis for so long is stuck */

static void put_ms(struct buf *out, const char *name, double ms)
{
    buf_printf(out, "\"%s\":%.3f", name, ms);
}

static void put_ms_or_null(struct buf *out, const char *name, int64_t ms)
{
    if (ms < 0)
        buf_printf(out, "\"%s\":null", name);
    else
        buf_printf(out, "\"%s\":%lld", name, (long long)ms);
}

static void put_lateness(struct buf *out, struct metrics_window *lateness)
{
    struct metrics_summary s;

    metrics_window_read(lateness, &s);
    buf_printf(out, "\"lateness_ms\":{\"count\":%lld,", (long long)s.count);
    put_ms(out, "p50", s.p50_ms);
    buf_putc(out, ',');
    put_ms(out, "p99", s.p99_ms);
    buf_putc(out, ',');
    put_ms(out, "p999", s.p999_ms);
    buf_putc(out, ',');
    put_ms(out, "max", s.max_ms);
    buf_puts(out, "},");
}

static void put_mover(struct buf *out, const struct mover *mover)
{
    struct mover_stats s = {.last_run_ms_ago = -1, .next_due_in_ms = -1};

    if (mover)
        mover_read_stats(mover, &s);
    buf_puts(out, "\"mover\":{");
    put_ms_or_null(out, "last_run_ms_ago", s.last_run_ms_ago);
    buf_putc(out, ',');
    put_ms_or_null(out, "next_due_in_ms", s.next_due_in_ms);
    buf_printf(out, ",\"moved\":%lld},", (long long)s.moved);
}

void report_stats(struct buf *out, struct metrics_window *lateness, const struct mover *mover,
                  struct worker *const *workers, int worker_count)
{
    int in_flight = 0, capacity = 0;

    for (int i = 0; i < worker_count; i++) {
        in_flight += worker_in_flight(workers[i]);
        capacity += worker_capacity(workers[i]);
    }
    put_lateness(out, lateness);
    put_mover(out, mover);
    buf_printf(out, "\"workers\":{\"threads\":%d,\"in_flight\":%d,\"capacity\":%d},", worker_count, in_flight,
               capacity);
}

static void put_reason(struct buf *out, const char *reason)
{
    if (out->len > 0 && out->data[out->len - 1] == '"')
        buf_putc(out, ',');
    buf_printf(out, "\"%s\"", reason);
}

void report_unready(struct buf *out, const struct mover *mover, struct worker *const *workers, int worker_count)
{
    struct mover_stats s = {.last_run_ms_ago = -1};
    int down = 0;

    if (mover)
        mover_read_stats(mover, &s);
    if (!mover || !mover_is_up(mover))
        put_reason(out, "the mover is not connected to Redis");
    else if (s.last_run_ms_ago > STALLED_MS)
        put_reason(out, "the mover has not run for 5 seconds");
    for (int i = 0; i < worker_count; i++)
        down += !worker_is_up(workers[i]);
    if (down > 0)
        put_reason(out, "delivery threads are not connected to Redis");
}
