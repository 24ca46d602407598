#ifndef STORE_DURABLE_PRIV_H
#define STORE_DURABLE_PRIV_H

#include "store/conn_priv.h"
#include "store/op_list_priv.h"

#include <stdbool.h>

/* Creates that ask for more than Redis' memory: behind a group of them goes one WAITAOF or WAIT, or none when Redis
 * syncs every write, and they are answered with what it brought. What is not reached in time is no error and is not
 * undone. Threads: the loop's. */

struct durable {
    struct conn *conn; /* borrowed */
    struct call call;
    bool is_known;     /* what this Redis can do was answered; before, no group is sent */
    bool syncs_always; /* the append-only file is synced before every answer */
    bool can_wait_aof;
    bool wants_fsync, wants_replica; /* of the group */
    bool is_synced, is_copied;       /* what the group has reached */
    int awaited;                     /* answers to come */
    struct op_list held;             /* created, to be answered after the last of these */
};

void durable_init(struct durable *d, struct conn *conn);
void durable_deinit(struct durable *d);

/* The connection was made: ask how this Redis syncs. */
void durable_up(struct durable *d);

/* This operation is in the group. */
void durable_note(struct durable *d, const struct store_op *op);

/* The group was sent: wait for what it wants. */
void durable_await(struct durable *d);

/* An operation of the group is done: answer it now, or once it is known how safe it is. */
void durable_finish(struct durable *d, struct store_op *op);

#endif
