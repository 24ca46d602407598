#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* Allocation of internal, fixed-size objects: out of memory is logged and aborts. Tasks are durable and a
 * restart is a tested path. Anything sized by input uses `buf` with a cap instead. Threads: any. */
void *xcalloc(size_t count, size_t size) __attribute__((returns_nonnull, malloc));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((returns_nonnull, malloc));
char *xstrndup(const char *s, size_t n) __attribute__((returns_nonnull, malloc)); /* copies n bytes, adds NUL */

#endif
