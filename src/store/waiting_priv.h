#ifndef STORE_WAITING_PRIV_H
#define STORE_WAITING_PRIV_H

#include "store/op_list_priv.h"

/* Operations that wait to be sent, kind by kind and in their order; some of them not before a time. Threads: one owner.
 */

struct waiting {
    struct op_list kinds[STORE_KIND_COUNT];
    int64_t hold_until_mono_ms[STORE_KIND_COUNT];
    struct op_list aside; /* each waits on its own: Redis refused it alone */
};

/* Behind all others of its kind, or in front of them. */
void waiting_add(struct waiting *w, struct store_op *op);
void waiting_put_back(struct waiting *w, struct store_op *op);

/* Redis cannot do this kind now: none of it is due for a while. */
void waiting_hold(struct waiting *w, enum store_kind kind, int64_t now_mono_ms);

/* This operation fails by itself, while others of its kind do not: a record was broken by hand, perhaps. It is tried
 * again more and more seldom, since it may be mended the same way. */
void waiting_put_aside(struct waiting *w, struct store_op *op, int64_t now_mono_ms);

/* Whether something of this kind can be sent now. */
bool waiting_is_due(const struct waiting *w, enum store_kind kind, int64_t now_mono_ms);
bool waiting_is_empty(const struct waiting *w);

/* Bring back what was put aside long enough, and take out what is past its deadline. */
struct op_list waiting_expire(struct waiting *w, int64_t now_mono_ms);

/* Take out everything. */
struct op_list waiting_take_all(struct waiting *w);

/* Whether its owner wants no answer any more but ERR_UNAVAILABLE. */
bool waiting_is_late(const struct store_op *op, int64_t now_mono_ms);

#endif
