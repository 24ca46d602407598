#include "task/backoff.h"

#include "base/parse.h"
#include <math.h>

/* Powers of a fraction such as 1.1 end a hair above the exact value; without this slack, rounding up to a whole
 * millisecond would add one. A billionth of the wait is far below what any clock here tells apart. */
#define ROUNDING_SLACK 1e-9

static int64_t scheduled_ms(const struct task_retry *retry, int attempts)
{
    size_t i = (size_t)attempts - 1;

    return retry->schedule_ms[i < retry->schedule_count ? i : retry->schedule_count - 1];
}

static int64_t exponential_ms(const struct task_retry *retry, int attempts, double random)
{
    double exact = (double)retry->initial_ms * pow(retry->multiplier, attempts - 1); /* may be infinite */
    double longest = (double)(retry->max_ms < PARSE_MAX_DELAY_MS ? retry->max_ms : PARSE_MAX_DELAY_MS);
    double wait = exact < longest ? ceil(exact * (1.0 - ROUNDING_SLACK)) : longest;

    return (int64_t)(wait + floor(wait * retry->jitter * random));
}

int64_t backoff_delay_ms(const struct task_retry *retry, int attempts, double random)
{
    int n = attempts > 1 ? attempts : 1;
    int64_t wait_ms = retry->schedule_count > 0 ? scheduled_ms(retry, n) : exponential_ms(retry, n, random);

    return wait_ms < PARSE_MAX_DELAY_MS ? wait_ms : PARSE_MAX_DELAY_MS;
}
