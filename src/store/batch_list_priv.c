#include "base/mem.h"
#include "store/batch_kind_priv.h"
#include "store/record_priv.h"
#include "store/reply_priv.h"

#include <stdlib.h>
#include <string.h>

/* Listing tasks: which they are (lua/list.lua), and what they hold (lua/glance.lua). */

#define LIST_HEAD 4 /* elements of the answer in front of the tasks */

static void build_list(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct store_list *l = ops[0]->list;

    (void)count;
    call_begin_args(call, env->keys);
    call_add_int(call, l->state);
    call_add_str(call, l->queue ? l->queue : "");
    call_add_str(call, l->after.score);
    call_add_str(call, l->after.id);
    call_add_int(call, (int64_t)l->limit);
    call_add_str(call, l->queue_cursor);
}

static bool fits(const redisReply *r, size_t size)
{
    return reply_is_string(r) && r->len < size && memchr(r->str, 0, r->len) == NULL;
}

static bool is_place(const redisReply *score, const redisReply *id)
{
    return fits(score, sizeof((struct store_place *)NULL)->score) && fits(id, sizeof((struct store_place *)NULL)->id);
}

static void set_place(struct store_place *out, const redisReply *score, const redisReply *id)
{
    memset(out, 0, sizeof *out);
    memcpy(out->score, score->str, score->len);
    memcpy(out->id, id->str, id->len);
}

static bool is_list(const redisReply *reply, size_t cursor_size)
{
    int64_t has_more;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < LIST_HEAD || reply->elements % 2 != 0 ||
        reply->elements > LIST_HEAD + 2 * STORE_LIST_MAX)
        return false;
    if (!fits(reply->element[0], cursor_size) || !reply_int(reply->element[1], &has_more))
        return false;
    for (size_t i = 2; i < reply->elements; i += 2)
        if (!is_place(reply->element[i], reply->element[i + 1]))
            return false;
    return true;
}

static enum err read_list(struct store_op *const *ops, size_t count, const redisReply *reply,
                          struct batch_due *earliest)
{
    struct store_list *l = ops[0] ? ops[0]->list : NULL;

    (void)count;
    (void)earliest;
    if (!is_list(reply, sizeof l->queue_cursor))
        return ERR_INVALID;
    if (!l)
        return ERR_OK;
    memset(l->queue_cursor, 0, sizeof l->queue_cursor);
    memcpy(l->queue_cursor, reply->element[0]->str, reply->element[0]->len);
    l->has_more = reply->element[1]->integer == 1;
    set_place(&l->last, reply->element[2], reply->element[3]);
    l->found_count = (reply->elements - LIST_HEAD) / 2;
    l->found = xcalloc(l->found_count, sizeof *l->found);
    for (size_t i = 0; i < l->found_count; i++)
        set_place(&l->found[i], reply->element[LIST_HEAD + 2 * i], reply->element[LIST_HEAD + 2 * i + 1]);
    ops[0]->err = ERR_OK;
    return ERR_OK;
}

const struct batch_kind batch_list = {.script = SCRIPT_LIST, .max = 1, .build = build_list, .read = read_list};

static void build_glance(struct call *call, const struct batch_env *env, struct store_op *const *ops, size_t count)
{
    const struct store_glance *g = ops[0]->glance;

    (void)count;
    for (size_t i = 0; i < g->count; i++)
        call_add_record_key(call, env->keys, g->places[i].id);
    call_begin_args(call, env->keys);
}

static enum err read_glance(struct store_op *const *ops, size_t count, const redisReply *reply,
                            struct batch_due *earliest)
{
    struct store_glance *g = ops[0] ? ops[0]->glance : NULL;

    (void)count;
    (void)earliest;
    if (reply->type != REDIS_REPLY_ARRAY || (g && reply->elements != g->count))
        return ERR_INVALID;
    for (size_t i = 0; g && i < g->count; i++) {
        const redisReply *r = reply->element[i];
        if (reply_is_string(r) && record_read_beginning(g->places[i].id, r->str, r->len, &g->tasks[i]) != ERR_OK)
            batch_report_bad_record(g->places[i].id);
    }
    if (g)
        ops[0]->err = ERR_OK;
    return ERR_OK;
}

const struct batch_kind batch_glance = {.script = SCRIPT_GLANCE, .max = 1, .build = build_glance, .read = read_glance};
