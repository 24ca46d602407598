#include "store/waiting_priv.h"

#define HOLD_MS 200        /* before an operation is tried again that Redis cannot do now */
#define ASIDE_MAX_MS 30000 /* the longest time between two tries of one that fails alone */

void waiting_add(struct waiting *w, struct store_op *op)
{
    op_list_append(&w->kinds[op->kind], op);
}

void waiting_put_back(struct waiting *w, struct store_op *op)
{
    op_list_prepend(&w->kinds[op->kind], op);
}

void waiting_hold(struct waiting *w, enum store_kind kind, int64_t now_mono_ms)
{
    w->hold_until_mono_ms[kind] = now_mono_ms + HOLD_MS;
}

void waiting_put_aside(struct waiting *w, struct store_op *op, int64_t now_mono_ms)
{
    op->hold_ms = op->hold_ms == 0 ? HOLD_MS : op->hold_ms * 2;
    if (op->hold_ms > ASIDE_MAX_MS)
        op->hold_ms = ASIDE_MAX_MS;
    op->hold_until_mono_ms = now_mono_ms + op->hold_ms;
    op_list_append(&w->aside, op);
}

bool waiting_is_due(const struct waiting *w, enum store_kind kind, int64_t now_mono_ms)
{
    return w->kinds[kind].first && now_mono_ms >= w->hold_until_mono_ms[kind];
}

bool waiting_is_empty(const struct waiting *w)
{
    for (int kind = 0; kind < STORE_KIND_COUNT; kind++)
        if (w->kinds[kind].first)
            return false;
    return !w->aside.first;
}

bool waiting_is_late(const struct store_op *op, int64_t now_mono_ms)
{
    return op->deadline_mono_ms != 0 && now_mono_ms >= op->deadline_mono_ms;
}

static void take_up(struct waiting *w, int64_t now_mono_ms)
{
    struct op_list kept = {NULL, NULL};

    while (w->aside.first) {
        struct store_op *op = op_list_take(&w->aside);

        if (now_mono_ms >= op->hold_until_mono_ms)
            waiting_add(w, op);
        else
            op_list_append(&kept, op);
    }
    w->aside = kept;
}

struct op_list waiting_expire(struct waiting *w, int64_t now_mono_ms)
{
    struct op_list late = {NULL, NULL};

    take_up(w, now_mono_ms);
    for (int kind = 0; kind < STORE_KIND_COUNT; kind++) {
        struct op_list kept = {NULL, NULL};

        while (w->kinds[kind].first) {
            struct store_op *op = op_list_take(&w->kinds[kind]);

            op_list_append(waiting_is_late(op, now_mono_ms) ? &late : &kept, op);
        }
        w->kinds[kind] = kept;
    }
    return late;
}

static void move_all(struct op_list *from, struct op_list *to)
{
    while (from->first)
        op_list_append(to, op_list_take(from));
}

struct op_list waiting_take_all(struct waiting *w)
{
    struct op_list all = {NULL, NULL};

    for (int kind = 0; kind < STORE_KIND_COUNT; kind++)
        move_all(&w->kinds[kind], &all);
    move_all(&w->aside, &all);
    return all;
}
