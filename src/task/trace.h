#ifndef TASK_TRACE_H
#define TASK_TRACE_H

#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>

/* Read the value of a `traceparent` header by W3C Trace Context: into `out` in the form of version 00, ended by a NUL.
 * False when it is to be ignored. A later version is read as far as 00 goes, and of its flags `sampled` is kept. */
bool trace_read_parent(const char *s, size_t n, char out[TASK_TRACEPARENT_BYTES + 1]);

#endif
