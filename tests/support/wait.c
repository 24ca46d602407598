#include "wait.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_US 3000
#define SLOW_FACTOR 10

static int64_t read_us(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t wait_mono_ms(void)
{
    return read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t wait_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

int64_t wait_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t wait_scaled_ms(int64_t ms)
{
    const char *slow = getenv("DUEPOST_TEST_SLOW");

    return slow && strcmp(slow, "1") == 0 ? ms * SLOW_FACTOR : ms;
}

void wait_tick(int64_t deadline_mono_ms, const char *where, const char *what)
{
    const struct timespec tick = {.tv_nsec = TICK_US * 1000L};

    if (wait_mono_ms() > deadline_mono_ms)
        cr_assert_fail("%s: not in time: %s", where, what);
    nanosleep(&tick, NULL);
}
