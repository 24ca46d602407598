#ifndef STORE_ANSWER_MEMORY_PRIV_H
#define STORE_ANSWER_MEMORY_PRIV_H

#include <stddef.h>

/* Memory of one answer of Redis: a claim of a hundred tasks is a thousand small values, which come together and go
 * together. So they are cut off a few large blocks, and freed at once. */

struct answer_block;

struct answer_memory {
    struct answer_block *blocks; /* the newest first; zero: nothing yet */
};

/* Zeroed, for anything; NULL when out of memory. */
void *answer_memory_take(struct answer_memory *m, size_t bytes);

/* Free all that was taken; keeps one block for the next answer. */
void answer_memory_reset(struct answer_memory *m);
void answer_memory_deinit(struct answer_memory *m);

#endif
