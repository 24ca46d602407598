#ifndef TASK_SYNTAX_PRIV_H
#define TASK_SYNTAX_PRIV_H

#include "base/err.h"
#include "task/fault.h"
#include <stddef.h>

/* Whether bytes are JSON at all: syntax, UTF-8, surrogates, numbers. What the members are is read from the text
 * (scan_priv.h) afterwards. */

#define SYNTAX_NESTING_MAX 1000 /* levels in the whole text */

/* To be called once, before any thread exists. */
void syntax_global_init(void);

/* ERR_INVALID_JSON or, when it nests too deep, ERR_INVALID: one fault without pointer. ERR_NOMEM. */
enum err syntax_check(const char *json, size_t n, struct faults *faults) NODISCARD;

#endif
