#ifndef RUN_RENEWAL_PRIV_H
#define RUN_RENEWAL_PRIV_H

#include "run/delivery_priv.h"

/* Renewing the leases of deliveries: tells the consumer group that they are alive. Only what has been here for a third
 * of claim-idle is renewed; most deliveries end before. */

struct renewals {
    int64_t interval_ms; /* a third of claim-idle */
    int64_t next_mono_ms;
    int under_way;
};

/* Renew what needs it now: `post` gets each operation (kind, consumer, leases and deadline are set). */
void renewals_run(struct renewals *r, const struct deliveries *all, const char *consumer,
                  void (*post)(void *ctx, struct store_op *op), void *ctx);

/* An operation came back: frees it. */
void renewals_done(struct renewals *r, struct store_op *op);

#endif
