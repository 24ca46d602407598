#ifndef TASK_RETRY_PRIV_H
#define TASK_RETRY_PRIV_H

#include "task/member_priv.h"
#include "task/task.h"

/* Read a `retry` object into `out`, which holds the defaults for what is not given. Faults as member_priv.h. */
void retry_read(const struct member *m, struct task_retry *out);

#endif
