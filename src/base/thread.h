#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/err.h"

/* A joinable thread with all signals blocked (the main thread alone handles them) and a name of at most 15
 * characters for ps and gdb. */
struct thread;

/* Gives *out; ERR_IO when the system has no thread left. */
enum err thread_start(const char *name, void (*fn)(void *ctx), void *ctx, struct thread **out) NODISCARD;

/* Wait for its end and free it; sets *t NULL; NULL-safe. */
void thread_join(struct thread **t);

#endif
