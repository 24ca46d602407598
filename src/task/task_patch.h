#ifndef TASK_TASK_PATCH_H
#define TASK_TASK_PATCH_H

#include "task/task.h"

/* What PATCH /tasks/{id} changes in a task (DESIGN section 2). A value without I/O. */
struct task_patch {
    struct task *values; /* owned; holds what was given; a url, a callback or an expiry was given when it has one */
    bool has_due;
    bool has_method;
    bool has_headers;
    bool has_body;
    bool has_timeout;
    bool has_retry;
};

void task_patch_init(struct task_patch *p); /* changes nothing */
void task_patch_deinit(struct task_patch *p);

/* Change the task. What is given replaces the old whole: headers, retry, the body under whichever member it is given.
 * Afterwards `given` of the task's retry, and is_timeout_given, say what may still come from its queue. */
void task_apply_patch(struct task *t, const struct task_patch *p);

#endif
