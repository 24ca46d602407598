#ifndef STORE_KEYS_PRIV_H
#define STORE_KEYS_PRIV_H

#include <stddef.h>

/* Every key name is built here and nowhere else; lua/common.lua says what each holds. */

#define KEYS_FIXED 16 /* containers that every script gets as KEYS, in the order of lua/common.lua */

struct keys {
    char *base; /* "duepost{0}": prefix and hash tag of the partition; a record's key is base + id */
    size_t base_bytes;
    char *fixed[KEYS_FIXED];
    size_t fixed_bytes[KEYS_FIXED];
    char *meta;
    char *probe;
    char *wake;           /* publish channel */
    const char *ready;    /* the Stream; one of `fixed` */
    const char *lanes;    /* one of `fixed` */
    const char *settings; /* one of `fixed` */
};

#define KEYS_GROUP "workers" /* the consumer group; as in lua/common.lua */

void keys_init(struct keys *k, const char *prefix, int partition);
void keys_deinit(struct keys *k);

#endif
