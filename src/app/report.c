#include "app/report.h"
#include "base/clock.h"
#include "base/exposition.h"
#include "base/parse.h"
#include <string.h>

/* JSON and Prometheus text about this process, for the HTTP API, which knows neither workers nor the mover: it asks by
 * the callbacks of server_opts.
 *
 * Everything is read from other threads' atomics or behind short locks, and nothing waits for Redis, so these parts are
 * there when Redis is not. Monotonic times become wall times here, by this machine's clock. */

#define DESTINATIONS_SHOWN 1000
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

static void sum_workers(struct worker *const *workers, int count, int *in_flight, int *capacity, int64_t *ended)
{
    *in_flight = 0;
    *capacity = 0;
    *ended = 0;
    for (int i = 0; i < count; i++) {
        *in_flight += worker_in_flight(workers[i]);
        *capacity += worker_capacity(workers[i]);
        *ended += worker_ended_count(workers[i]);
    }
}

void report_metrics(struct buf *out, struct metrics_window *lateness, struct metrics_window *durations,
                    const struct mover *mover, struct worker *const *workers, int worker_count)
{
    struct mover_stats s = {.last_run_ms_ago = -1};
    struct metrics_total late, took;
    int in_flight, capacity;
    int64_t ended;

    if (mover)
        mover_read_stats(mover, &s);
    sum_workers(workers, worker_count, &in_flight, &capacity, &ended);
    metrics_window_read_total(lateness, &late);
    metrics_window_read_total(durations, &took);
    exposition_histogram(out, "duepost_lateness_seconds",
                         "First byte sent to the receiver minus due time, of attempts of this gateway.", &late);
    exposition_histogram(out, "duepost_attempt_duration_seconds", "How long attempts of this gateway took.", &took);
    exposition_counter(out, "duepost_worker_attempts_total", "Attempts of this gateway that ended or were given back.",
                       ended);
    exposition_gauge(out, "duepost_worker_threads", "Delivery threads of this gateway.", worker_count);
    exposition_gauge(out, "duepost_worker_in_flight", "Attempts of this gateway under way.", in_flight);
    exposition_gauge(out, "duepost_worker_capacity", "Attempts that this gateway can have under way.", capacity);
    exposition_counter(out, "duepost_mover_moved_total", "Due tasks that this gateway moved to the workers.", s.moved);
    if (s.last_run_ms_ago >= 0)
        exposition_gauge(out, "duepost_mover_last_run_seconds", "Since the mover last asked Redis what is due.",
                         (double)s.last_run_ms_ago / 1e3);
}

void report_stats(struct buf *out, struct metrics_window *lateness, const struct mover *mover,
                  struct worker *const *workers, int worker_count)
{
    int in_flight, capacity;
    int64_t ended;

    sum_workers(workers, worker_count, &in_flight, &capacity, &ended);
    put_lateness(out, lateness);
    put_mover(out, mover);
    buf_printf(out, "\"workers\":{\"threads\":%d,\"in_flight\":%d,\"capacity\":%d},", worker_count, in_flight,
               capacity);
}

void report_destinations_summary(struct buf *out, struct destinations *d)
{
    struct destinations_summary s;

    destinations_summarize(d, clock_mono_ms(), &s);
    buf_printf(out, "\"destinations\":{\"count\":%d,\"limited\":%d,\"open\":%d},", s.count, s.limited, s.open);
}

void report_destinations_metrics(struct buf *out, struct destinations *d)
{
    struct destinations_summary s;

    destinations_summarize(d, clock_mono_ms(), &s);
    exposition_gauge(out, "duepost_destinations", "Destinations that this gateway sent to lately.", s.count);
    exposition_gauge(out, "duepost_destinations_limited", "Destinations that asked for fewer attempts at a time.",
                     s.limited);
    exposition_gauge(out, "duepost_destinations_open", "Destinations whose circuit breaker is open.", s.open);
}

static void put_time_or_null(struct buf *out, const char *name, int64_t mono_ms)
{
    char text[PARSE_RFC3339_SIZE];

    if (mono_ms < 0) {
        buf_printf(out, ",\"%s\":null", name);
        return;
    }
    parse_format_rfc3339(mono_ms + clock_wall_ms() - clock_mono_ms(), text);
    buf_printf(out, ",\"%s\":\"%s\"", name, text);
}

static void put_destination(struct buf *out, const struct destination_view *v)
{
    static const char *const states[] = {[DESTINATION_STATE_CLOSED] = "closed",
                                         [DESTINATION_STATE_HALF_OPEN] = "half_open",
                                         [DESTINATION_STATE_OPEN] = "open"};
    const char *kind = task_error_kind_name(v->last_error_kind);

    buf_puts(out, "{\"destination\":");
    buf_put_json(out, v->name, strlen(v->name));
    buf_printf(out, ",\"state\":\"%s\",\"in_flight\":%d,\"limit\":", states[v->state], v->in_flight);
    if (v->limit > 0)
        buf_put_int(out, v->limit);
    else
        buf_puts(out, "null");
    buf_printf(out, ",\"failures_in_a_row\":%lld", (long long)v->failures_in_a_row);
    put_time_or_null(out, "last_success_at", v->last_success_mono_ms);
    put_time_or_null(out, "last_failure_at", v->last_failure_mono_ms);
    if (kind)
        buf_printf(out, ",\"last_error_kind\":\"%s\"", kind);
    else
        buf_puts(out, ",\"last_error_kind\":null");
    put_time_or_null(out, "next_probe_at", v->next_probe_mono_ms);
    buf_putc(out, '}');
}

void report_destinations(struct buf *out, struct destinations *d)
{
    size_t count;
    struct destination_view *list = destinations_list(d, clock_mono_ms(), DESTINATIONS_SHOWN, &count);

    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_putc(out, ',');
        put_destination(out, &list[i]);
    }
    destinations_free_list(list, count);
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
