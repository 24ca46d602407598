#ifndef CHAOS_PLANS_H
#define CHAOS_PLANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What clients have planned to do to tasks, and when: at most so many at once, more are dropped. Threads: any. */

enum deed { DEED_DELETE = 0, DEED_PATCH, DEED_RUN, DEED_REDRIVE, DEED_COUNT };

struct plan {
    enum deed deed;
    long serial;
    int64_t at_ms; /* Unix time */
    int tries;
};

struct plans;

struct plans *plans_create(void);
void plans_destroy(struct plans **p);

void plans_add(struct plans *p, const struct plan *plan);

/* Take the one that comes next, if that is within so many ms. */
bool plans_take(struct plans *p, int64_t within_ms, struct plan *out);

bool plans_are_empty(struct plans *p);

#endif
