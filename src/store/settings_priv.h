#ifndef STORE_SETTINGS_PRIV_H
#define STORE_SETTINGS_PRIV_H

#include "store/conn_priv.h"
#include "task/queue_settings.h"

#include <stdbool.h>
#include <stddef.h>

/* The settings of the queues that new tasks came for, as Redis had them, for the defaults of those tasks. They hold as
 * long as the count of changes that is kept beside them does: scripts that rest on them are told the count and refuse
 * an old one, so a change made by any gateway counts from the very next task. Threads: the loop's. */

#define SETTINGS_VERSION_SIZE 24

struct settings_item {
    char *queue;
    bool is_known, is_asked;
    bool is_set; /* the queue has settings: `value` */
    struct queue_settings value;
};

struct settings {
    struct conn *conn;       /* borrowed */
    const struct keys *keys; /* borrowed */
    struct call call;
    bool is_loading;
    int64_t hold_until_mono_ms;
    struct settings_item *items; /* by name */
    size_t count, capacity;
    size_t unknown_count;                /* of them */
    size_t asked_count;                  /* of those */
    char version[SETTINGS_VERSION_SIZE]; /* of the known ones; "": there is none */
};

void settings_init(struct settings *s, struct conn *conn, const struct keys *keys);
void settings_deinit(struct settings *s);

/* They have changed, or may have. */
void settings_forget(struct settings *s);

/* What comes next rests on those of this queue. */
void settings_want(struct settings *s, const char *queue);

/* Whether all that are wanted are known. If not, they are asked for, unless that is under way. */
bool settings_are_known(struct settings *s);

/* Of a queue whose settings are known; NULL when it has none. */
const struct queue_settings *settings_of(const struct settings *s, const char *queue);

/* The count of changes; asked for when all that are wanted are known. */
const char *settings_version(const struct settings *s);

#endif
