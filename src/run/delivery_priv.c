#include "run/delivery_priv.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void deliveries_init(struct deliveries *all)
{
    memset(all, 0, sizeof *all);
    for (int s = 0; s < DELIVERY_STATE_COUNT; s++)
        TAILQ_INIT(&all->lists[s]);
}

static void delivery_free(struct share *share, struct delivery *d)
{
    share_leave(share, d->host);
    task_destroy(&d->task);
    free(d);
}

void deliveries_deinit(struct deliveries *all, struct share *share)
{
    for (int s = 0; s < DELIVERY_STATE_COUNT; s++) {
        for (struct delivery *d = TAILQ_FIRST(&all->lists[s]), *next; d; d = next) {
            next = TAILQ_NEXT(d, link);
            delivery_free(share, d);
        }
    }
    deliveries_init(all);
}

int deliveries_count(const struct deliveries *all)
{
    return all->counts[DELIVERY_WAITING] + all->counts[DELIVERY_SENDING] + all->counts[DELIVERY_SETTLING];
}

struct delivery *delivery_open(struct deliveries *all, struct share *share, struct task *t,
                               const struct store_lease *lease, int64_t now_mono_ms)
{
    struct delivery *d = xcalloc(1, sizeof *d);

    d->task = t;
    d->host = share_enter(share, t->url);
    d->op.lease = *lease;
    d->renewed_mono_ms = now_mono_ms;
    TAILQ_INSERT_TAIL(&all->lists[d->state], d, link);
    all->counts[d->state]++;
    return d;
}

static void unlink_delivery(struct deliveries *all, struct delivery *d)
{
    TAILQ_REMOVE(&all->lists[d->state], d, link);
    all->counts[d->state]--;
}

void delivery_move(struct deliveries *all, struct delivery *d, enum delivery_state to)
{
    unlink_delivery(all, d);
    d->state = to;
    TAILQ_INSERT_TAIL(&all->lists[to], d, link);
    all->counts[to]++;
}

void delivery_close(struct deliveries *all, struct share *share, struct delivery *d)
{
    unlink_delivery(all, d);
    delivery_free(share, d);
}

bool deliveries_have_entry(const struct deliveries *all, const char *entry_id)
{
    const struct delivery *d;

    for (int s = 0; s < DELIVERY_STATE_COUNT; s++)
        TAILQ_FOREACH(d, &all->lists[s], link)
    if (strcmp(d->op.lease.entry_id, entry_id) == 0)
        return true;
    return false;
}
