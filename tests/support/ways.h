#ifndef SUPPORT_WAYS_H
#define SUPPORT_WAYS_H

#include "gateway.h"

/* How to provoke each answer that api/openapi.yaml shows. */

/* One call of the contract. */
struct operation {
    const char *id;
    char method[8];
    const char *path; /* with {id} */
};

/* What must be done to the world before an example can be provoked. */
enum world_state {
    AS_IT_IS = 0,
    WITH_TOKEN,
    WITHOUT_REDIS,
    UNREACHABLE, /* cannot be provoked from outside: not replayed */
};

enum likeness {
    EXACT = 0, /* every member and text */
    ALIKE,     /* the same members of the same types (null stands for any), and the same status, title and code */
};

struct way {
    const char *operation; /* NULL: any */
    const char *example;
    enum world_state state;
    enum likeness likeness;
    json_t *(*provoke)(const struct operation *op);
};

/* The ways, those of one operation before those of any. */
const struct way *ways_list(size_t *count);

/* Provoke answers from this world; `kept` (an array, borrowed) takes answers that no client keeps. */
void ways_begin(struct world *world, json_t *kept);

#endif
