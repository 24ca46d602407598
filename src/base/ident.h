#ifndef BASE_IDENT_H
#define BASE_IDENT_H

#include <stddef.h>

/* Random identifiers over [0-9A-Za-z] from the kernel's generator, unbiased. Threads: any (each thread keeps its
 * own small store of random bytes). */

#define IDENT_TASK_CHARS 14 /* 83 bits: no two of a billion tasks meet, and a key stays small */

/* Write `n` random characters and a NUL; `out` holds n + 1 bytes. */
void ident_random(char *out, size_t n);

/* A random number in [0, 1), of 24 bits. */
double ident_random_unit(void);

#endif
