#include "store_fixture.h"
#include "base/mem.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 30000
#define UP_MS 10000

struct redis_opts store_redis_opts(const struct redis_fixture *redis)
{
    struct redis_opts o = {.prefix = "duepost",
                           .gateway = "g",
                           .claim_idle_ms = 15000,
                           .max_finished = 1000000,
                           .retention_delivered_ms = 3600000,
                           .retention_cancelled_ms = 3600000,
                           .retention_expired_ms = 3600000,
                           .retention_dead_ms = 3600000};
    char detail[REDIS_OPTS_DETAIL_SIZE];

    cr_assert_eq(redis_opts_parse(redis_fixture_url(redis), &o, detail), ERR_OK, "%s", detail);
    return o;
}

/* In the store's thread. */
static void on_done(struct store_op *op)
{
    struct ask *a = (struct ask *)(void *)op;

    atomic_store(&a->answered_mono_ms, wait_mono_ms());
    atomic_fetch_add(&a->answers, 1);
}

static void begin(struct ask *a, enum store_kind kind, const char *id)
{
    memset(a, 0, sizeof(*a));
    a->op.kind = kind;
    a->op.done = on_done;
    (void)snprintf(a->id, sizeof(a->id), "%s", id);
    a->op.id = a->id;
}

void ask_create(struct ask *a, const char *id, int64_t delay_ms, const char *request)
{
    struct task *t = task_create();
    char url[TASK_ID_MAX + 32];

    begin(a, STORE_CREATE, id);
    (void)snprintf(url, sizeof(url), "http://receiver/%s", id);
    t->id = xstrdup(id);
    t->url = xstrdup(url);
    t->due_ms = delay_ms;
    t->has_digest = request != NULL;
    for (size_t i = 0; request && request[i]; i++)
        t->digest[i % TASK_DIGEST_BYTES] = (unsigned char)(31 * t->digest[i % TASK_DIGEST_BYTES] + request[i]);
    a->op.task = t;
}

void ask_get(struct ask *a, const char *id)
{
    begin(a, STORE_GET, id);
}

void ask_cancel(struct ask *a, const char *id)
{
    begin(a, STORE_CANCEL, id);
}

void ask_settle(struct ask *a, struct task *t, const struct lua_entry *e, enum store_settle how, int64_t delay_ms)
{
    static char error[] = "broken";

    begin(a, STORE_SETTLE, e->id);
    a->op.task = t;
    a->op.lease = e->lease;
    a->op.settle = how;
    a->op.retry_delay_ms = delay_ms;
    a->op.attempt = (struct task_attempt){.at_ms = wait_wall_ms(), .duration_us = 5000, .status = 200};
    if (how != STORE_SETTLE_DELIVERED) {
        a->op.attempt.status = 500;
        a->op.attempt.error = error;
    }
}

void ask_kind(struct ask *a, enum store_kind kind)
{
    begin(a, kind, "");
}

void ask_submit(struct ask *a, struct store *s, int64_t timeout_ms)
{
    a->submitted_mono_ms = wait_mono_ms();
    a->op.deadline_mono_ms = timeout_ms ? a->submitted_mono_ms + timeout_ms : 0;
    store_submit(s, &a->op);
}

void ask_wait(struct ask *a)
{
    WAIT_UNTIL(atomic_load(&a->answers) > 0, ANSWER_MS);
}

enum err ask_now(struct ask *a, struct store *s, int64_t timeout_ms)
{
    ask_submit(a, s, timeout_ms);
    ask_wait(a);
    return a->op.err;
}

void ask_end(struct ask *a)
{
    cr_assert_eq(atomic_load(&a->answers), 1, "%s was answered %d times", a->id, (int)atomic_load(&a->answers));
    task_destroy(&a->op.task);
    task_destroy(&a->op.existing);
    free(a->op.gone_id);
    store_stats_destroy(&a->op.stats);
}

void store_wait_up(const struct store *s)
{
    WAIT_UNTIL(store_is_up(s), UP_MS);
}
