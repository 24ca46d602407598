#ifndef TASK_RETRY_PRIV_H
#define TASK_RETRY_PRIV_H

#include "task/member_priv.h"
#include "task/task.h"

/* Members of a `retry` object; bit i of task_retry.given stands for the i-th. */
enum retry_member {
    RETRY_MAX_ATTEMPTS = 0,
    RETRY_INITIAL,
    RETRY_MULTIPLIER,
    RETRY_MAX,
    RETRY_JITTER,
    RETRY_SCHEDULE,
    RETRY_MAX_AGE,
    RETRY_MEMBER_COUNT /* number of members, not one of them */
};

const char *retry_member_name(enum retry_member which); /* "max_attempts" */

/* Read a `retry` object into `out`, which holds the defaults for what is not given. Sets
 * out->given. Faults as member_priv.h. */
void retry_read(const struct member *m, struct task_retry *out);

#endif
