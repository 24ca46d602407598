#include "run/renewal_priv.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

/* One call's worth of leases. */
struct renewal {
    struct store_op op; /* first member */
    struct store_lease leases[STORE_CALL_MAX];
};

static struct renewal *open_renewal(const struct renewals *r, const char *consumer, int64_t now)
{
    struct renewal *one = xcalloc(1, sizeof *one);

    one->op.kind = STORE_RENEW;
    one->op.deadline_mono_ms = now + r->interval_ms;
    one->op.consumer = consumer;
    one->op.leases = one->leases;
    return one;
}

void renewals_run(struct renewals *r, const struct deliveries *all, const char *consumer,
                  void (*post)(void *ctx, struct store_op *op), void *ctx)
{
    int64_t now = clock_mono_ms();
    struct renewal *one = NULL;
    struct delivery *d;

    if (now < r->next_mono_ms || r->under_way > 0)
        return;
    r->next_mono_ms = now + r->interval_ms / 2;
    for (int s = 0; s < DELIVERY_STATE_COUNT; s++) {
        TAILQ_FOREACH(d, &all->lists[s], link)
        {
            if (now - d->renewed_mono_ms < r->interval_ms)
                continue;
            d->renewed_mono_ms = now;
            if (!one)
                one = open_renewal(r, consumer, now);
            one->leases[one->op.lease_count++] = d->op.lease;
            if (one->op.lease_count < STORE_CALL_MAX)
                continue;
            r->under_way++;
            post(ctx, &one->op);
            one = NULL;
        }
    }
    if (one) {
        r->under_way++;
        post(ctx, &one->op);
    }
}

void renewals_done(struct renewals *r, struct store_op *op)
{
    r->under_way--;
    free(op);
}
