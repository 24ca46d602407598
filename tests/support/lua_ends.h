#ifndef SUPPORT_LUA_ENDS_H
#define SUPPORT_LUA_ENDS_H

#include "lua_fixture.h"

/* The scripts that look after tasks that expire or call back. */

/* A new task in `queue`; an expiry of 0: none, above: from now, below: so long ago. URLs may be NULL. */
struct lua_ending {
    const char *id, *due, *queue;
    int64_t expires_in_ms;
    const char *on_success, *on_failure;
};
void lua_add_ending(struct lua_fixture *f, const struct lua_ending *e);

/* Create it due, move, read and claim it. Nothing else may be due or unread. */
struct lua_entry lua_start_ending(struct lua_fixture *f, const struct lua_ending *e);

/* How many ended, and when the next one expires. */
int64_t lua_expire(struct lua_fixture *f, int64_t max, int64_t *next_us);

/* What callbacks.lua shows, with records cut to `bytes`. */
#define LUA_MARKED_MAX 100
struct lua_marked {
    int64_t in_all;
    size_t count;
    struct {
        char id[TASK_ID_MAX + 1];
        char mark[32];
        size_t record_bytes;
    } tasks[LUA_MARKED_MAX];
};
void lua_callbacks(struct lua_fixture *f, int64_t max, int64_t bytes, struct lua_marked *out);

/* Create the callback of one that was shown, under the id `news` in the queue "mail"; an empty one when `news` is NULL.
 * How many were created, and how many are still marked. */
int64_t lua_announce(struct lua_fixture *f, const char *id, const char *mark, const char *news, int64_t *left);

#endif
