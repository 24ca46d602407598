#include "store/op_list_priv.h"

#include <assert.h>

struct store_op *op_list_op(struct queue_node *n)
{
    return (struct store_op *)(void *)n; /* the first member */
}

void op_list_append(struct op_list *l, struct store_op *op)
{
    op->node.next = NULL;
    if (l->last)
        l->last->node.next = &op->node;
    else
        l->first = op;
    l->last = op;
}

void op_list_prepend(struct op_list *l, struct store_op *op)
{
    op->node.next = l->first ? &l->first->node : NULL;
    l->first = op;
    if (!l->last)
        l->last = op;
}

struct store_op *op_list_take(struct op_list *l)
{
    struct store_op *op = l->first;

    assert(op);
    l->first = op->node.next ? op_list_op(op->node.next) : NULL;
    if (!l->first)
        l->last = NULL;
    op->node.next = NULL;
    return op;
}
