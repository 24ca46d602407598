#ifndef TASK_HEADERS_PRIV_H
#define TASK_HEADERS_PRIV_H

#include "task/member_priv.h"
#include "task/task.h"

/* Read a `headers` object into the task. Faults as member_priv.h. */
void headers_read(const struct member *m, struct task *t);

/* Whether an answer shows `***` instead of this header's value. */
bool headers_is_secret(const char *name);

#endif
