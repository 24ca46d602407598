#include "../support/plain.h"
#include "base/thread.h"
#include "run/destinations.h"
#include <stdatomic.h>
#include <stdio.h>

/* Workers begin and end attempts of the same destinations and others, while people look at them: nothing stays in
 * flight, and no limit is passed. */

#define THREADS 4
#define ATTEMPTS 20000
#define PLACES 50

static struct destinations *all;
static atomic_int refused;

static void work(void *ctx)
{
    unsigned dice = *(unsigned *)ctx;

    for (int i = 0; i < ATTEMPTS; i++) {
        char url[40];
        struct target_place place;
        struct destination_end end = {.error_kind = TASK_ERROR_CONNECT};
        bool is_stuck;
        dice = dice * 1103515245u + 12345u;
        (void)snprintf(url, sizeof url, "http://host-%u/", (dice >> 16) % PLACES);
        target_place(url, &place);
        uint64_t hash = target_place_hash(&place);
        end.health = (enum outcome_health)((dice >> 8) % 4);
        if (destinations_start(all, hash, url, i, &end.ticket) == DESTINATION_GO) {
            (void)destinations_end(all, hash, &end, i);
        } else {
            atomic_fetch_add(&refused, 1);
            (void)destinations_back_off_ms(all, hash, i, 0.5, &is_stuck);
        }
    }
}

static int in_flight(void)
{
    size_t count;
    struct destination_view *list = destinations_list(all, ATTEMPTS, PLACES, &count);
    int sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += list[i].in_flight;
    destinations_free_list(list, count);
    return sum;
}

int main(void)
{
    const struct destinations_opts opts = {
        .capacity = 16, .breaker_failures = 5, .breaker_after_ms = 0, .breaker_probe_ms = 100};
    unsigned seeds[THREADS];
    struct thread *threads[THREADS] = {0};
    struct destinations_summary summary;

    all = destinations_create(&opts);
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        plain_result(thread_start("worker", work, &seeds[i], &threads[i]) == ERR_OK, "a thread starts");
    }
    for (int i = 0; i < 200; i++) {
        (void)in_flight();
        destinations_summarize(all, i, &summary);
    }
    for (int i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    destinations_summarize(all, ATTEMPTS, &summary);
    plain_result(in_flight() == 0, "nothing stays in flight");
    plain_result(summary.count == PLACES, "every destination is there");
    plain_result(atomic_load(&refused) > 0, "some attempts had to wait");
    destinations_destroy(&all);
    return plain_end();
}
