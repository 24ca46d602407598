#ifndef SUPPORT_RANDOM_H
#define SUPPORT_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Pseudo-random numbers that a seed repeats exactly (splitmix64). A value. */
struct random {
    uint64_t state;
};

struct random random_seeded(uint64_t seed);

/* The seed in environment variable `name`, or `otherwise`. */
uint64_t random_seed_from(const char *name, uint64_t otherwise);

uint64_t random_next(struct random *r);

/* A number from 0 to n - 1. */
size_t random_below(struct random *r, size_t n);

#endif
