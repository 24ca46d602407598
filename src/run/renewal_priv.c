#include "run/renewal_priv.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

#define RETRY_MS 100
#define FAILED_LOG_INTERVAL_MS 5000

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

/* After a failure all of that round are renewed again, which does no harm to those that were. */
static bool is_due(const struct renewals *r, const struct delivery *d, int64_t now, int64_t failed_round_ms)
{
    return now - d->renewed_mono_ms >= r->interval_ms || d->renewed_mono_ms == failed_round_ms;
}

static void begin_round(struct renewals *r, int64_t now)
{
    r->has_failed = false;
    r->begun_mono_ms = now;
    r->next_mono_ms = now + r->interval_ms / 2;
}

void renewals_run(struct renewals *r, const struct deliveries *all, const char *consumer,
                  void (*post)(void *ctx, struct store_op *op), void *ctx)
{
    int64_t now = clock_mono_ms();
    struct renewal *one = NULL;
    int64_t failed_round_ms = r->has_failed ? r->begun_mono_ms : -1;
    struct delivery *d;

    if (now < r->next_mono_ms || r->under_way > 0)
        return;
    begin_round(r, now);
    for (int s = 0; s < DELIVERY_STATE_COUNT; s++) {
        TAILQ_FOREACH(d, &all->lists[s], link)
        {
            if (!is_due(r, d, now, failed_round_ms))
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
    long held = 0;

    r->under_way--;
    if (op->err != ERR_OK) {
        r->has_failed = true;
        r->next_mono_ms = clock_mono_ms() + RETRY_MS;
        if (log_limit_pass(&r->failed_limit, FAILED_LOG_INTERVAL_MS, &held))
            LOG_WARN("worker.renewal_failed", "consumer=%s deliveries=%zu why=%s repeats=%ld", log_quote(op->consumer),
                     op->lease_count, err_code(op->err), held);
    }
    free(op);
}

int64_t renewals_wait_ms(const struct renewals *r)
{
    return r->has_failed ? RETRY_MS : r->interval_ms / 4;
}
