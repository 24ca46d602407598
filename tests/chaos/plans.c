#include "plans.h"
#include "base/clock.h"
#include <pthread.h>
#include <stdlib.h>

#define PLANS_MAX 4096

struct plans {
    pthread_mutex_t lock;
    size_t count; /* these and below: under the lock */
    struct plan items[PLANS_MAX];
};

struct plans *plans_create(void)
{
    struct plans *p = calloc(1, sizeof(*p));

    if (!p || pthread_mutex_init(&p->lock, NULL) != 0)
        abort();
    return p;
}

void plans_destroy(struct plans **p)
{
    if (!*p)
        return;
    pthread_mutex_destroy(&(*p)->lock);
    free(*p);
    *p = NULL;
}

void plans_add(struct plans *p, const struct plan *plan)
{
    pthread_mutex_lock(&p->lock);
    if (p->count < PLANS_MAX)
        p->items[p->count++] = *plan;
    pthread_mutex_unlock(&p->lock);
}

bool plans_take(struct plans *p, int64_t within_ms, struct plan *out)
{
    size_t first = 0;
    bool is_taken = false;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 1; i < p->count; i++) {
        if (p->items[i].at_ms < p->items[first].at_ms)
            first = i;
    }
    if (p->count > 0 && p->items[first].at_ms - clock_wall_ms() <= within_ms) {
        *out = p->items[first];
        p->items[first] = p->items[--p->count];
        is_taken = true;
    }
    pthread_mutex_unlock(&p->lock);
    return is_taken;
}

bool plans_are_empty(struct plans *p)
{
    pthread_mutex_lock(&p->lock);
    bool are_empty = p->count == 0;
    pthread_mutex_unlock(&p->lock);
    return are_empty;
}
