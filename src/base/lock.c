#include "base/lock.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>

struct lock {
    pthread_mutex_t mutex;
};

struct lock *lock_create(void)
{
    struct lock *l = xcalloc(1, sizeof *l);

    (void)pthread_mutex_init(&l->mutex, NULL); /* with default attributes it cannot fail */
    return l;
}

void lock_destroy(struct lock **l)
{
    if (!*l)
        return;
    (void)pthread_mutex_destroy(&(*l)->mutex);
    free(*l);
    *l = NULL;
}

void lock_take(struct lock *l)
{
    (void)pthread_mutex_lock(&l->mutex);
}

void lock_give(struct lock *l)
{
    (void)pthread_mutex_unlock(&l->mutex);
}
