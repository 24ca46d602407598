#ifndef BASE_IDENT_H
#define BASE_IDENT_H

#include <stddef.h>

/* Random identifiers over [0-9A-Za-z] from the kernel's generator, unbiased. Threads: any (each thread keeps its
 * own small store of random bytes). */

/* 71 bits: a new one meets one of a billion others once in 3 trillion, and is refused then. A record's key with the
 * default prefix takes 24 bytes of Redis, with one character more 32. */
#define IDENT_TASK_CHARS 12

/* Write `n` random characters and a NUL; `out` holds n + 1 bytes. */
void ident_random(char *out, size_t n);

/* A random number in [0, 1), of 24 bits. */
double ident_random_unit(void);

#endif
