#include "base/ident.h"
#include "base/log.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define STORE_BYTES 256 /* getrandom never gives fewer than asked for up to this size */

struct store {
    unsigned char bytes[STORE_BYTES];
    size_t left;
};

static unsigned char next_byte(struct store *s)
{
    while (s->left == 0) {
        ssize_t n = getrandom(s->bytes, sizeof(s->bytes), 0);

        if (n > 0) {
            s->left = (size_t)n;
        } else if (errno != EINTR) {
            LOG_ERROR("random.failed", "errno=%d", errno);
            abort();
        }
    }
    return s->bytes[--s->left];
}

static struct store *own_store(void)
{
    static _Thread_local struct store store;

    return &store;
}

double ident_random_unit(void)
{
    struct store *store = own_store();
    unsigned value = 0;

    for (int i = 0; i < 3; i++)
        value = value << 8 | next_byte(store);
    return (double)value / (double)(1U << 24);
}

void ident_random(char *out, size_t n)
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    struct store *store = own_store();
    size_t i = 0;

    while (i < n) {
        unsigned index = next_byte(store) & 63U;

        /* 62 and 63 are thrown away: a remainder would favour the first characters. */
        if (index < sizeof(alphabet) - 1)
            out[i++] = alphabet[index];
    }
    out[n] = '\0';
}
