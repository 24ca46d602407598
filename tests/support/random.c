#include "random.h"
#include <stdlib.h>

struct random random_seeded(uint64_t seed)
{
    return (struct random){.state = seed};
}

uint64_t random_seed_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t random_next(struct random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t random_below(struct random *r, size_t n)
{
    return (size_t)(random_next(r) % n);
}
