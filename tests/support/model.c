#include "model.h"
#include <criterion/criterion.h>
#include <string.h>

struct model model;

const char *const model_queues[3] = {"mail", "sms", "default"};

size_t model_below(size_t n)
{
    return random_below(&model.dice, n);
}

struct model_task *model_any_task(void)
{
    return &model.tasks[model_below(TASKS)];
}

bool model_is_current(const struct model_lease *l)
{
    const struct model_task *t = l->task;

    return (t->state == TASK_READY || t->state == TASK_DELIVERING) && t->generation == l->entry.lease.generation;
}

bool model_is_finished(const struct model_task *t)
{
    return t->state >= TASK_DELIVERED;
}

int model_count_phase(enum phase phase)
{
    int n = 0;

    for (size_t i = 0; i < model.lease_count; i++)
        n += model.leases[i].phase == phase;
    return n;
}

void model_finish(struct model_task *t, enum task_state state)
{
    t->state = (int)state;
    t->has_when = true;
    model.totals.delivered += state == TASK_DELIVERED;
    model.totals.dead += state == TASK_DEAD;
    model.totals.cancelled += state == TASK_CANCELLED;
}

/* A ready task is taken out of the Stream. */
void model_leave_stream(const struct model_task *t)
{
    for (size_t i = 0; i < model.lease_count && t->state == TASK_READY; i++) {
        struct model_lease *l = &model.leases[i];
        if (l->task != t || !model_is_current(l) || l->phase > PHASE_HELD)
            continue;
        l->phase = l->phase == PHASE_HELD ? PHASE_OLD : PHASE_FORGOTTEN;
    }
}

/* ------------------------------------------------------------------ checks */

static void check_task(const struct model_task *want)
{
    struct task *t = lua_task(model.lua, want->id);

    cr_assert_eq(t ? (int)t->state : -1, want->state, "%s is %s", want->id, t ? task_state_name(t->state) : "gone");
    if (!t)
        return;
    cr_assert_str_eq(t->queue, model_queues[want->queue], "%s", want->id);
    cr_assert_eq(t->attempts, want->attempts, "%s: %d attempts", want->id, t->attempts);
    cr_assert_eq(t->takeovers, want->takeovers, "%s: %d takeovers", want->id, t->takeovers);
    cr_assert_eq(t->generation, want->generation, "%s: generation %u", want->id, t->generation);
    cr_assert_eq(t->cancel_requested, want->has_cancel, "%s: cancel mark", want->id);
    cr_assert_eq(t->history_count > 0, want->has_history, "%s: history", want->id);
    cr_assert_str_eq(t->url, "http://receiver/", "%s", want->id);
    cr_assert_eq(t->body != NULL, t->state != TASK_DELIVERED, "%s: body", want->id);
    task_destroy(&t);
}

static void check_totals(void)
{
    const struct {
        const char *name;
        int want;
    } fields[] = {{"created", model.totals.created},
                  {"duplicates", model.totals.duplicates},
                  {"attempts", model.totals.attempts},
                  {"delivered", model.totals.delivered},
                  {"failed_attempts", model.totals.failed_attempts},
                  {"retried", model.totals.retried},
                  {"dead", model.totals.dead},
                  {"cancelled", model.totals.cancelled},
                  {"recovered", model.totals.recovered},
                  {"trimmed", model.totals.trimmed},
                  {"orphans", model.totals.orphans},
                  {"redriven", model.totals.redriven},
                  {"purged", model.totals.purged}};

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        cr_assert_eq(lua_counter(model.lua, "totals", fields[i].name), fields[i].want, "totals.%s is %lld, not %d",
                     fields[i].name, (long long)lua_counter(model.lua, "totals", fields[i].name), fields[i].want);
}

void model_check(void)
{
    lua_check(model.lua);
    for (int i = 0; i < TASKS; i++)
        check_task(&model.tasks[i]);
    check_totals();
    cr_assert_eq(redis_fixture_integer(lua_redis(model.lua), "XLEN %s", lua_keys(model.lua)->ready),
                 model_count_phase(PHASE_UNREAD) + model_count_phase(PHASE_HELD));
}
