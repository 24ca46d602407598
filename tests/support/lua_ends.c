#include "lua_ends.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUE_WAIT_MS 5000

static struct task *new_task(struct lua_fixture *f, const struct lua_ending *e)
{
    struct task *t = task_create();

    free(t->queue);
    t->queue = xstrdup(e->queue);
    t->url = xstrdup("http://receiver/");
    t->body_kind = TASK_BODY_TEXT;
    t->body = xstrdup("hello");
    t->body_bytes = 5;
    t->has_expiry = e->expires_in_ms != 0;
    t->is_expiry_relative = e->expires_in_ms > 0;
    t->expires_ms = e->expires_in_ms < 0 ? lua_now_ms(f) + e->expires_in_ms : e->expires_in_ms;
    t->on_success = e->on_success ? xstrdup(e->on_success) : NULL;
    t->on_failure = e->on_failure ? xstrdup(e->on_failure) : NULL;
    return t;
}

static int64_t integer_at(const redisReply *r, size_t i)
{
    cr_assert(r->type == REDIS_REPLY_ARRAY && i < r->elements && r->element[i]->type == REDIS_REPLY_INTEGER);
    return r->element[i]->integer;
}

void lua_add_ending(struct lua_fixture *f, const struct lua_ending *e)
{
    struct task *t = new_task(f, e);
    int64_t settings = lua_counter(f, "settings", ":");
    struct call *c = lua_begin(f, SCRIPT_CREATE);
    struct buf spec;

    buf_init(&spec, 4096);
    record_write_spec(&spec, t);
    call_add_record_key(c, lua_keys(f), e->id);
    call_begin_args(c, lua_keys(f));
    call_add_int(c, 0);
    call_add_int(c, settings);
    call_add_str(c, e->id);
    call_add_str(c, e->due);
    call_add_str(c, e->queue);
    call_add_str(c, "");
    call_add(c, spec.data, spec.len);
    redisReply *r = lua_send(f);
    (void)integer_at(r, 1);
    freeReplyObject(r);
    buf_deinit(&spec);
    task_destroy(&t);
}

struct lua_entry lua_start_ending(struct lua_fixture *f, const struct lua_ending *e)
{
    struct lua_entry entry;

    lua_add_ending(f, e);
    WAIT_UNTIL(lua_move(f, 100, 100).moved == 1, DUE_WAIT_MS);
    cr_assert_eq(lua_read(f, "g/1", &entry, 1), 1);
    cr_assert_str_eq(entry.id, e->id);
    cr_assert_eq(lua_claim(f, &entry, 1), 1);
    return entry;
}

int64_t lua_expire(struct lua_fixture *f, int64_t max, int64_t *next_us)
{
    struct call *c = lua_begin(f, SCRIPT_EXPIRE);

    call_begin_args(c, lua_keys(f));
    call_add_int(c, max);
    redisReply *r = lua_send(f);
    int64_t ended = integer_at(r, 0);
    if (next_us)
        *next_us = integer_at(r, 1);
    freeReplyObject(r);
    return ended;
}

void lua_callbacks(struct lua_fixture *f, int64_t max, int64_t bytes, struct lua_marked *out)
{
    struct call *c = lua_begin(f, SCRIPT_CALLBACKS);

    memset(out, 0, sizeof(*out));
    call_begin_args(c, lua_keys(f));
    call_add_int(c, max);
    call_add_int(c, bytes);
    redisReply *r = lua_send(f);
    out->in_all = integer_at(r, 0);
    out->count = r->elements - 1;
    cr_assert_leq(out->count, LUA_MARKED_MAX);
    for (size_t i = 0; i < out->count; i++) {
        const redisReply *shown = r->element[i + 1];
        cr_assert_eq(shown->elements, 3);
        (void)snprintf(out->tasks[i].id, sizeof(out->tasks[i].id), "%s", shown->element[0]->str);
        (void)snprintf(out->tasks[i].mark, sizeof(out->tasks[i].mark), "%s", shown->element[1]->str);
        out->tasks[i].record_bytes = shown->element[2]->len;
    }
    freeReplyObject(r);
}

int64_t lua_announce(struct lua_fixture *f, const char *id, const char *mark, const char *news, int64_t *left)
{
    struct task *t = new_task(f, &(struct lua_ending){.id = news, .queue = "mail"});
    struct call *c = lua_begin(f, SCRIPT_ANNOUNCE);
    struct buf spec;

    buf_init(&spec, 4096);
    record_write_spec(&spec, t);
    call_add_record_key(c, lua_keys(f), news ? news : "unused");
    call_begin_args(c, lua_keys(f));
    call_add_str(c, id);
    call_add_str(c, mark);
    call_add_str(c, news ? news : "unused");
    call_add_str(c, news ? "mail" : "");
    call_add(c, spec.data, news ? spec.len : 0);
    redisReply *r = lua_send(f);
    int64_t created = integer_at(r, 0);
    if (left)
        *left = integer_at(r, 1);
    freeReplyObject(r);
    buf_deinit(&spec);
    task_destroy(&t);
    return created;
}
