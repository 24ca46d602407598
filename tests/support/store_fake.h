#ifndef SUPPORT_STORE_FAKE_H
#define SUPPORT_STORE_FAKE_H

#include "store/store.h"
#include "task/task.h"
#include <stdbool.h>
#include <stddef.h>

/* A replacement of store.h at link time: the same functions, a thread of its own, tasks in memory and no Redis. With it
 * the HTTP server is tested alone, in states that a real Redis is hard to bring into. */

enum store_fake_mode {
    STORE_FAKE_UP = 0, /* answers at once */
    STORE_FAKE_DOWN,   /* answers ERR_UNAVAILABLE when an operation's deadline has passed */
    STORE_FAKE_HOLDS,  /* answers nothing until the mode changes */
    STORE_FAKE_BROKEN, /* answers ERR_INTERNAL at once */
    STORE_FAKE_BLIND,  /* creates without keeping anything: for measuring */
    STORE_FAKE_MODE_COUNT
};

struct store *store_fake_create(void); /* store_destroy() ends it */

void store_fake_set_mode(struct store *s, enum store_fake_mode mode);

/* Bring the task into a state. False: there is no such task. */
bool store_fake_set_state(struct store *s, const char *id, enum task_state state);

/* Operations that have arrived so far, of one kind. */
size_t store_fake_count(struct store *s, enum store_kind kind);

#endif
