#ifndef STORE_OP_LIST_PRIV_H
#define STORE_OP_LIST_PRIV_H

#include "store/store.h"

/* Operations in their order, linked by their nodes. */

struct op_list {
    struct store_op *first, *last;
};

struct store_op *op_list_op(struct queue_node *n); /* the operation of a node */
void op_list_append(struct op_list *l, struct store_op *op);
void op_list_prepend(struct op_list *l, struct store_op *op);
struct store_op *op_list_take(struct op_list *l); /* the first one of a list that is not empty */

#endif
