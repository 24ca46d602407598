/* What was planned for a task is done at its moment, within 5 ms of the due time where that is what is tried: the
 * answer says who was first, and from then on the receiver must see accordingly. */
#include "agent.h"
#include "base/clock.h"
#include <stdio.h>

#define LOOK_MS 10
#define REDRIVE_TRIES 8
#define REDRIVE_AGAIN_MS 1000

static void deleted(struct agent *a, const struct plan *p, int status)
{
    struct traffic *t = a->traffic;

    COUNT(t, deletes);
    if (status == 204) {
        ledger_cancelled(t->ledger, p->serial);
        COUNT(t, cancelled);
    } else if (status == 202) {
        COUNT(t, under_way);
    } else if (status == 409) {
        COUNT(t, too_late);
    } else {
        agent_report_wrong(a, "DELETE", p->serial, status);
    }
}

static void patched(struct agent *a, const struct plan *p, int status)
{
    struct traffic *t = a->traffic;

    COUNT(t, patches);
    if (status == 200) {
        ledger_patched(t->ledger, p->serial);
        COUNT(t, patched);
    } else if (status != 409) {
        agent_report_wrong(a, "PATCH", p->serial, status);
    }
}

static void was_run(struct agent *a, const struct plan *p, int status)
{
    struct traffic *t = a->traffic;

    COUNT(t, runs);
    if (status == 200)
        ledger_run(t->ledger, p->serial);
    else if (status != 409)
        agent_report_wrong(a, "run", p->serial, status);
}

/* Is it not dead yet, it is tried again later. */
static void redriven(struct agent *a, const struct plan *p, int status)
{
    struct traffic *t = a->traffic;

    if (status == 200) {
        ledger_redriven(t->ledger, p->serial);
        COUNT(t, redriven);
    } else if (status != 409) {
        agent_report_wrong(a, "redrive", p->serial, status);
    } else if (p->tries < REDRIVE_TRIES) {
        struct plan again = *p;

        again.tries++;
        again.at_ms = clock_wall_ms() + REDRIVE_AGAIN_MS;
        plans_add(t->plans, &again);
    }
}

static void do_deed(struct agent *a, const struct plan *p)
{
    static const struct {
        const char *method, *suffix;
        void (*judge)(struct agent *a, const struct plan *p, int status);
    } DEEDS[DEED_COUNT] = {
        [DEED_DELETE] = {"DELETE", "", deleted},
        [DEED_PATCH] = {"PATCH", "", patched},
        [DEED_RUN] = {"POST", "/run", was_run},
        [DEED_REDRIVE] = {"POST", "/redrive", redriven},
    };
    struct traffic *t = a->traffic;
    const struct entry e = ledger_read(t->ledger, p->serial);
    char path[80], body[80];

    (void)snprintf(path, sizeof(path), "/tasks/%s%s", e.id, DEEDS[p->deed].suffix);
    (void)snprintf(body, sizeof(body), "{\"payload\":{\"serial\":%ld,\"version\":2}}", p->serial);
    if (p->deed == DEED_DELETE)
        ledger_delete_sent(t->ledger, p->serial);
    if (p->deed == DEED_RUN)
        ledger_run_sent(t->ledger, p->serial);
    int status = agent_insist(a, DEEDS[p->deed].method, path, p->deed == DEED_PATCH ? body : NULL);

    if (status == 404)
        ledger_missed(t->ledger, p->serial);
    else if (status != 0 && status != 503)
        DEEDS[p->deed].judge(a, p, status);
}

bool agent_do_deed(struct agent *a)
{
    struct plan p;

    if (!plans_take(a->traffic->plans, LOOK_MS, &p))
        return false;
    int64_t left_ms = p.at_ms - clock_wall_ms();

    if (left_ms > 0)
        nodes_sleep_ms(left_ms);
    do_deed(a, &p);
    return true;
}
