#include "../support/plain.h"
#include "base/metrics.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stddef.h>

/* Several threads record while another reads: no value is lost, and every summary is one that could have been. */

#define THREADS 4
#define VALUES 50000

static struct metrics_window *window;
static atomic_int recorders;
static atomic_int odd_summaries;

static void record(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < VALUES; i++)
        metrics_window_record(window, 1000 + i % 1000);
    atomic_fetch_sub(&recorders, 1);
}

static void read_all_the_time(void *ctx)
{
    int64_t last = 0;

    (void)ctx;
    while (atomic_load(&recorders) > 0) {
        struct metrics_summary s;
        metrics_window_read(window, &s);
        if (s.count < last || s.count > THREADS * VALUES || s.p50_ms > s.p99_ms || s.p99_ms > s.p999_ms ||
            (s.count > 0 && s.max_ms < 1.0))
            atomic_fetch_add(&odd_summaries, 1);
        last = s.count;
    }
}

int main(void)
{
    struct thread *threads[THREADS + 1] = {0};
    struct metrics_summary s;

    window = metrics_window_create();
    atomic_store(&recorders, THREADS);
    for (int i = 0; i < THREADS; i++)
        plain_result(thread_start("record", record, NULL, &threads[i]) == ERR_OK, "a thread starts");
    plain_result(thread_start("read", read_all_the_time, NULL, &threads[THREADS]) == ERR_OK, "a thread starts");
    for (int i = 0; i <= THREADS; i++)
        thread_join(&threads[i]);
    metrics_window_read(window, &s);
    plain_result(s.count == THREADS * VALUES, "no value is lost");
    plain_result(s.max_ms >= 1.9 && s.max_ms <= 2.1, "the largest value is known");
    plain_result(atomic_load(&odd_summaries) == 0, "a summary is never half of two");
    metrics_window_destroy(&window);
    return plain_end();
}
