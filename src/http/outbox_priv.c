#include "http/outbox_priv.h"

#define HAND_OVER 16 /* operations */

static int64_t begins_at(const struct store_op *op)
{
    return ((const struct request *)op->owner)->begin_mono_ms;
}

static void hand_over(struct outbox *o)
{
    struct store_op *first = o->first;
    struct store_op *last = o->last;

    o->first = NULL;
    o->last = NULL;
    o->count = 0;
    if (first)
        store_submit_chain(o->store, first, last);
}

static void append(struct outbox *o, struct store_op *first, struct store_op *last)
{
    last->node.next = NULL;
    if (o->last)
        o->last->node.next = &first->node;
    else
        o->first = first;
    o->last = last;
    if (++o->count == HAND_OVER || first != last)
        hand_over(o);
}

static struct store_op *next_of(const struct store_op *op)
{
    return (struct store_op *)op->node.next; /* the first member */
}

void outbox_add(struct outbox *o, struct request *r)
{
    struct store_op *first = r->first_part ? r->first_part : &r->op;
    struct store_op *last = r->first_part ? r->last_part : &r->op;

    r->first_part = r->last_part = NULL;
    if (r->begin_mono_ms == 0) {
        append(o, first, last);
        return;
    }
    r->op.node.next = o->delayed ? &o->delayed->node : NULL;
    o->delayed = &r->op;
}

void outbox_submit(struct outbox *o, int64_t now_mono_ms, bool is_hurried)
{
    struct store_op *op = o->delayed;

    o->delayed = NULL;
    while (op) {
        struct store_op *next = next_of(op);

        if (is_hurried || begins_at(op) <= now_mono_ms) {
            append(o, op, op);
        } else {
            op->node.next = o->delayed ? &o->delayed->node : NULL;
            o->delayed = op;
        }
        op = next;
    }
    hand_over(o);
}

int64_t outbox_next_mono_ms(const struct outbox *o)
{
    int64_t next = INT64_MAX;

    for (const struct store_op *op = o->delayed; op; op = next_of(op))
        if (begins_at(op) < next)
            next = begins_at(op);
    return next;
}
