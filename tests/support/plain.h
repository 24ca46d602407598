#ifndef SUPPORT_PLAIN_H
#define SUPPORT_PLAIN_H

#include <stdbool.h>

/* For test programs with a main() of their own, where Criterion cannot be used. Threads: the main thread. */

/* One result: `what` is a sentence; a failure is printed. */
void plain_result(bool is_good, const char *what);

/* Prints "N passed, N failed"; returns main()'s exit status. */
int plain_end(void);

#endif
