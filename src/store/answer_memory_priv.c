#include "store/answer_memory_priv.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES ((size_t)1024)
#define KEPT_BYTES ((size_t)128 * 1024)

/* AddressSanitizer sees who reads past a value, or keeps it, only when each has a block of its own. */
#ifdef __SANITIZE_ADDRESS__
#define HAS_SHARED_BLOCKS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SHARED_BLOCKS false
#endif
#endif
#ifndef HAS_SHARED_BLOCKS
#define HAS_SHARED_BLOCKS true
#endif

struct answer_block {
    struct answer_block *next;
    size_t bytes, used;
    max_align_t data[];
};

/* Twice as large as the last one, so that soon one block is enough for an answer. */
static struct answer_block *add_block(struct answer_memory *m, size_t needed)
{
    size_t bytes = m->blocks ? 2 * m->blocks->bytes : FIRST_BYTES;
    struct answer_block *b;

    if (bytes > KEPT_BYTES)
        bytes = KEPT_BYTES;
    if (bytes < needed || !HAS_SHARED_BLOCKS)
        bytes = needed;
    if (bytes > SIZE_MAX - sizeof *b)
        return NULL;
    b = malloc(sizeof *b + bytes);
    if (!b)
        return NULL;
    *b = (struct answer_block){.next = m->blocks, .bytes = bytes};
    m->blocks = b;
    return b;
}

void *answer_memory_take(struct answer_memory *m, size_t bytes)
{
    const size_t step = sizeof(max_align_t);
    size_t rounded = HAS_SHARED_BLOCKS ? (bytes + step - 1) / step * step : bytes;
    struct answer_block *b = m->blocks;
    char *taken;

    if (rounded < bytes)
        return NULL;
    if (!b || !HAS_SHARED_BLOCKS || b->bytes - b->used < rounded)
        b = add_block(m, rounded);
    if (!b)
        return NULL;
    taken = (char *)b->data + b->used;
    b->used += rounded;
    return memset(taken, 0, bytes);
}

static void free_blocks(struct answer_block *b)
{
    for (struct answer_block *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

void answer_memory_reset(struct answer_memory *m)
{
    if (!m->blocks)
        return;
    free_blocks(m->blocks->next);
    m->blocks->next = NULL;
    m->blocks->used = 0;
    if (m->blocks->bytes > KEPT_BYTES || !HAS_SHARED_BLOCKS)
        answer_memory_deinit(m);
}

void answer_memory_deinit(struct answer_memory *m)
{
    free_blocks(m->blocks);
    m->blocks = NULL;
}
