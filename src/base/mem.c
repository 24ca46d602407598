#include "base/mem.h"
#include "base/log.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *check(void *p, size_t bytes)
{
    if (!p) {
        LOG_ERROR("memory.exhausted", "bytes=%zu", bytes);
        abort();
    }
    return p;
}

void *xcalloc(size_t count, size_t size)
{
    size_t bytes = 0;

    if (__builtin_mul_overflow(count, size, &bytes))
        return check(NULL, SIZE_MAX);
    /* An allocation of 0 bytes may give NULL, which is no fault: ask for one byte then. */
    return check(calloc(1, bytes ? bytes : 1), bytes);
}

void *xrealloc(void *p, size_t size)
{
    return check(realloc(p, size ? size : 1), size);
}

char *xstrndup(const char *s, size_t n)
{
    char *copy = xcalloc(n + 1, 1);

    memcpy(copy, s, n);
    return copy;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}
