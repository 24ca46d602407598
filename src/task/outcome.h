#ifndef TASK_OUTCOME_H
#define TASK_OUTCOME_H

#include "task/task.h"

/* What an attempt means for its task: a pure decision (DESIGN section 3). */

enum outcome_kind {
    OUTCOME_DELIVERED = 0,
    OUTCOME_RETRY,
    OUTCOME_DEAD,
};

struct outcome {
    enum outcome_kind kind;
    int64_t delay_ms; /* RETRY: from now */
};

#define OUTCOME_RETRY_AFTER_MAX_MS ((int64_t)24 * 3600 * 1000)

/* Decide about the attempt that just ended.
 *
 * t->attempts counts the attempts before this one. `status` is 0 when no complete head came. `retry_after_ms` is
 * -1 when the receiver gave none. `now_ms` is Unix ms by the Redis clock, `random` in [0, 1).
 * 2xx is delivered; 410 is dead; else retry, unless attempts are used up or the next one would begin past
 * run_at + max_age. Retry-After moves the next attempt later, never earlier. */
struct outcome outcome_decide(const struct task *t, int status, int64_t retry_after_ms, int64_t now_ms, double random);

/* What an attempt says of its destination, which other tasks may have too (DESIGN section 3). */
enum outcome_health {
    OUTCOME_ALIVE = 0, /* it answers: any status but 429 and 5xx, also one that is a failure of this task */
    OUTCOME_BUSY,      /* it asks for less: 429, or 503 with Retry-After. A failure too */
    OUTCOME_FAILING,   /* no answer, or another 5xx */
    OUTCOME_UNKNOWN,   /* it was not asked: a blocked address */
};
enum outcome_health outcome_health(int status, int64_t retry_after_ms, enum task_error_kind error_kind);

/* Read a Retry-After value: seconds (leading zeros are fine) or one of the three date forms of RFC 9110, with
 * blanks around. -1 for anything else; capped at OUTCOME_RETRY_AFTER_MAX_MS; a past date is 0. */
int64_t outcome_retry_after_ms(const char *value, size_t n, int64_t now_ms);

#endif
