/* Percentiles of the last minute.
 *
 * A ring of 60 histograms, one for each second of the monotonic clock; a slot is emptied when its second comes round
 * again, so recording costs O(1) and reading adds up 60 slots. Buckets are log-linear: values below 64 us are exact,
 * above that each power of two is cut into 32, which is 3 % at worst. The largest value is kept exactly. */
#include "base/metrics.h"
#include "base/clock.h"
#include "base/mem.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 60
#define STEP_BITS 5
#define STEPS ((size_t)1 << STEP_BITS)
#define MAX_US INT64_C(3600000000)
#define BUCKETS ((31 - STEP_BITS) * STEPS + 2 * STEPS) /* MAX_US has 32 bits */

struct slot {
    int64_t second;
    int64_t count;
    int64_t max_us;
    uint32_t buckets[BUCKETS];
};

struct metrics_window {
    pthread_mutex_t lock;
    struct slot slots[SLOTS];   /* under lock */
    struct metrics_total total; /* under lock */
};

const int64_t metrics_bounds_us[METRICS_BOUNDS] = {500,     1000,     2500,     5000,     10000,    25000,
                                                   50000,   100000,   250000,   500000,   1000000,  2500000,
                                                   5000000, 10000000, 30000000, 60000000, 300000000};

struct metrics_window *metrics_window_create(void)
{
    struct metrics_window *w = xcalloc(1, sizeof(*w));

    if (pthread_mutex_init(&w->lock, NULL) != 0)
        abort();
    return w;
}

void metrics_window_destroy(struct metrics_window **w)
{
    if (!*w)
        return;
    (void)pthread_mutex_destroy(&(*w)->lock);
    free(*w);
    *w = NULL;
}

static int shift_of(uint64_t us)
{
    int highest_bit = 63 - __builtin_clzll(us | 1);

    return highest_bit > STEP_BITS ? highest_bit - STEP_BITS : 0;
}

static size_t bucket_of(int64_t us)
{
    uint64_t value = (uint64_t)(us > MAX_US ? MAX_US : us);
    int shift = shift_of(value);

    return (size_t)shift * STEPS + (size_t)(value >> shift);
}

/* The middle of a bucket. */
static double bucket_us(size_t bucket)
{
    size_t shift = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
    uint64_t low = (uint64_t)(bucket - shift * STEPS) << shift;
    uint64_t width = UINT64_C(1) << shift;

    return (double)low + (double)(width - 1) / 2;
}

static void add_to_total(struct metrics_total *total, int64_t us)
{
    size_t i = 0;

    while (i < METRICS_BOUNDS && us > metrics_bounds_us[i])
        i++;
    total->counts[i]++;
    total->sum_us += us;
}

void metrics_window_record(struct metrics_window *w, int64_t us)
{
    int64_t value_us = us < 0 ? 0 : us;
    int64_t second = clock_mono_ms() / 1000;
    struct slot *slot = &w->slots[second % SLOTS];

    (void)pthread_mutex_lock(&w->lock);
    if (slot->second != second) {
        memset(slot, 0, sizeof(*slot));
        slot->second = second;
    }
    slot->count++;
    slot->buckets[bucket_of(value_us)]++;
    if (value_us > slot->max_us)
        slot->max_us = value_us;
    add_to_total(&w->total, value_us);
    (void)pthread_mutex_unlock(&w->lock);
}

void metrics_window_read_total(struct metrics_window *w, struct metrics_total *out)
{
    (void)pthread_mutex_lock(&w->lock);
    *out = w->total;
    (void)pthread_mutex_unlock(&w->lock);
}

/* Add up the slots of the last minute. */
static void sum_up(struct metrics_window *w, struct slot *total)
{
    int64_t second = clock_mono_ms() / 1000;

    (void)pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < SLOTS; i++) {
        const struct slot *slot = &w->slots[i];

        if (slot->count == 0 || second - slot->second >= SLOTS)
            continue;
        total->count += slot->count;
        if (slot->max_us > total->max_us)
            total->max_us = slot->max_us;
        for (size_t b = 0; b < BUCKETS; b++)
            total->buckets[b] += slot->buckets[b];
    }
    (void)pthread_mutex_unlock(&w->lock);
}

/* The smallest value that `per_mille` of all values do not exceed. */
static double percentile_ms(const struct slot *total, int64_t per_mille)
{
    int64_t rank = (total->count * per_mille + 999) / 1000;
    int64_t seen = 0;

    for (size_t b = 0; b < BUCKETS; b++) {
        seen += total->buckets[b];
        if (seen >= rank) {
            double us = bucket_us(b);

            return (us > (double)total->max_us ? (double)total->max_us : us) / 1000;
        }
    }
    return (double)total->max_us / 1000;
}

void metrics_window_read(struct metrics_window *w, struct metrics_summary *out)
{
    struct slot total = {0};

    *out = (struct metrics_summary){0};
    sum_up(w, &total);
    if (total.count == 0)
        return;
    out->count = total.count;
    out->p50_ms = percentile_ms(&total, 500);
    out->p99_ms = percentile_ms(&total, 990);
    out->p999_ms = percentile_ms(&total, 999);
    out->max_ms = (double)total.max_us / 1000;
}
