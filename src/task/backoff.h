#ifndef TASK_BACKOFF_H
#define TASK_BACKOFF_H

#include "task/task.h"

/* The wait before the next attempt, after `attempts` attempts have failed (at least 1):
 * min(max, initial * multiplier^(attempts-1)) * (1 + jitter * random), or schedule[attempts-1], whose last entry
 * repeats. `random` in [0, 1). Never below the value without jitter, never over 10 years, no overflow. */
int64_t backoff_delay_ms(const struct task_retry *retry, int attempts, double random);

#endif
