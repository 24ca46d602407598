#ifndef BASE_LOCK_H
#define BASE_LOCK_H

/* A mutex: one thread at a time is between lock_take() and lock_give(). */
struct lock;

struct lock *lock_create(void);
void lock_destroy(struct lock **l); /* sets *l NULL; NULL-safe */

void lock_take(struct lock *l);
void lock_give(struct lock *l);

#endif
