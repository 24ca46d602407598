#include "base/mem.h"
#include "base/log.h"
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
    /* An allocation of 0 bytes may give NULL, which is no fault: ask for one byte then. */
    bool is_empty = count == 0 || size == 0;

    return check(is_empty ? calloc(1, 1) : calloc(count, size), count * size);
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
