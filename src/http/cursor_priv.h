#ifndef HTTP_CURSOR_PRIV_H
#define HTTP_CURSOR_PRIV_H

#include "base/buf.h"
#include "store/store.h"

/* The cursor of a list, `state.score.id` of the last task of a page, or `state` alone for the beginning of that state:
 * opaque for clients, read as strictly as any other input. Pure. */

/* Append it. */
void cursor_write(struct buf *out, enum task_state state, const struct store_place *after);

/* False when it is none that cursor_write() would write; the outputs mean nothing then. */
bool cursor_read(const char *s, enum task_state *state, struct store_place *after);

/* "scheduled" and so on. */
bool cursor_state_from_name(const char *name, enum task_state *out);

#endif
