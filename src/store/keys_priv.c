#include "store/keys_priv.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *join(const char *base, const char *name)
{
    size_t size = strlen(base) + strlen(name) + 1;
    char *key = xcalloc(size, 1);

    (void)snprintf(key, size, "%s%s", base, name);
    return key;
}

void keys_init(struct keys *k, const char *prefix, int partition)
{
    static const char *const NAMES[KEYS_FIXED] = {
        ":lanes",     ":ready",   ":totals",  ":out",    ":busy",     ":queues", ":delivered", ":dead",
        ":cancelled", ":expired", ":workers", ":flight", ":settings", ":rates",  ":expiry",    ":callbacks"};
    char tag[16];

    (void)snprintf(tag, sizeof tag, "{%d}", partition);
    k->base = join(prefix, tag);
    k->base_bytes = strlen(k->base);
    for (size_t i = 0; i < KEYS_FIXED; i++) {
        k->fixed[i] = join(k->base, NAMES[i]);
        k->fixed_bytes[i] = strlen(k->fixed[i]);
    }
    k->lanes = k->fixed[0];
    k->ready = k->fixed[1];
    k->settings = k->fixed[12];
    k->meta = join(k->base, ":meta");
    k->probe = join(k->base, ":probe");
    k->wake = join(k->base, ":wake");
}

void keys_deinit(struct keys *k)
{
    for (size_t i = 0; i < KEYS_FIXED; i++)
        free(k->fixed[i]);
    free(k->base);
    free(k->meta);
    free(k->probe);
    free(k->wake);
    memset(k, 0, sizeof *k);
}
