#include "lua_fixture.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The calls that change a task. */

static void set_body(struct task *t, const char *body)
{
    free(t->body);
    t->body_kind = TASK_BODY_TEXT;
    t->body = xstrdup(body);
    t->body_bytes = strlen(body);
}

static void set_expiry(struct task *t, int64_t expires_in_ms)
{
    t->has_expiry = true;
    t->is_expiry_relative = true;
    t->expires_ms = expires_in_ms;
}

static void add_spec(struct call *c, const struct task *t)
{
    struct buf spec;

    buf_init(&spec, (size_t)1 << 20);
    record_write_spec(&spec, t);
    call_add(c, spec.data, spec.len);
    buf_deinit(&spec);
}

void lua_add_expiring(struct lua_fixture *f, const char *id, const char *due, const char *queue, int64_t expires_in_ms)
{
    struct call *c = lua_begin(f, SCRIPT_CREATE);
    struct task *t = task_create();

    free(t->queue);
    t->queue = xstrdup(queue);
    t->url = xstrdup("http://receiver/");
    set_body(t, "hello");
    set_expiry(t, expires_in_ms);
    call_add_record_key(c, lua_keys(f), id);
    call_begin_args(c, lua_keys(f));
    call_add_int(c, 0);
    call_add_str(c, "0");
    call_add_str(c, id);
    call_add_str(c, due);
    call_add_str(c, queue);
    call_add_str(c, "");
    add_spec(c, t);
    redisReply *r = lua_send(f);
    cr_assert_eq(r->element[1]->type, REDIS_REPLY_INTEGER, "%s was not created", id);
    freeReplyObject(r);
    task_destroy(&t);
}

/* The one answer of a script that changes tasks, which has no more than the beginning of a long body. */
static int read_answer(struct lua_fixture *f, const char *id, struct task **out)
{
    redisReply *r = lua_send(f);
    struct task *t = NULL;

    cr_assert(r->type == REDIS_REPLY_ARRAY && r->elements == 1 && r->element[0]->elements == 2);
    int found = (int)r->element[0]->element[0]->integer;
    const redisReply *record = r->element[0]->element[1];
    if (record->type == REDIS_REPLY_STRING) {
        bool is_whole = record->len < RECORD_BEGINNING_BYTES;
        cr_assert_leq(record->len, RECORD_BEGINNING_BYTES);
        cr_assert_eq((is_whole ? record_read : record_read_beginning)(id, record->str, record->len, &t), ERR_OK,
                     "the answer on %s cannot be read", id);
    }
    freeReplyObject(r);
    if (out)
        *out = t;
    else
        task_destroy(&t);
    return found;
}

int lua_patch(struct lua_fixture *f, const struct lua_patch *p, struct task **out)
{
    struct task *t = lua_task(f, p->id);
    struct call *c = lua_begin(f, SCRIPT_PATCH);

    call_add_record_key(c, lua_keys(f), p->id);
    call_begin_args(c, lua_keys(f));
    call_add_str(c, "0");
    call_add_str(c, p->id);
    call_add_str(c, p->due ? p->due : "");
    call_add_str(c, p->was_sent ? "1" : "0");
    if (t) {
        add_spec(c, p->read ? p->read : t);
        if (p->body)
            set_body(t, p->body);
        if (p->expires_in_ms > 0)
            set_expiry(t, p->expires_in_ms);
        add_spec(c, t);
    } else {
        call_add_str(c, "was");
        call_add_str(c, "is");
    }
    task_destroy(&t);
    return read_answer(f, p->id, out);
}

static int send_now(struct lua_fixture *f, enum script s, const char *id, bool was_sent, struct task **out)
{
    struct call *c = lua_begin(f, s);

    call_add_record_key(c, lua_keys(f), id);
    call_begin_args(c, lua_keys(f));
    call_add_str(c, id);
    call_add_str(c, was_sent ? "1" : "0");
    return read_answer(f, id, out);
}

int lua_run(struct lua_fixture *f, const char *id, bool was_sent, struct task **out)
{
    return send_now(f, SCRIPT_RUN, id, was_sent, out);
}

int lua_redrive(struct lua_fixture *f, const char *id, bool was_sent, struct task **out)
{
    return send_now(f, SCRIPT_REDRIVE, id, was_sent, out);
}
