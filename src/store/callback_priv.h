#ifndef STORE_CALLBACK_PRIV_H
#define STORE_CALLBACK_PRIV_H

#include "task/task.h"

/* The task that tells how another one has ended: a POST of a small JSON to its on_success or on_failure, in the same
 * queue, with the same traceparent and every default; it has no id yet and no callbacks of its own. Gives the task;
 * NULL when there is nobody to tell. Borrows `ended`, whose body may be missing. */
struct task *callback_create(const struct task *ended);

#endif
