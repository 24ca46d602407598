#ifndef RUN_RENEWAL_PRIV_H
#define RUN_RENEWAL_PRIV_H

#include "base/log.h"
#include "run/delivery_priv.h"

/* Renewing the leases of deliveries: tells the consumer group that they are alive. Only what has been here for a third
 * of claim-idle is renewed; most deliveries end before. A renewal that failed is repeated soon, not at its next time:
 * there are only two before others take the tasks. */

struct renewals {
    int64_t interval_ms; /* a third of claim-idle */
    int64_t next_mono_ms;
    int64_t begun_mono_ms; /* the last round */
    int under_way;         /* calls of that round */
    bool has_failed;       /* one of them at least */
    struct log_limit failed_limit;
};

/* Renew what needs it now: `post` gets each operation (kind, consumer, leases and deadline are set). */
void renewals_run(struct renewals *r, const struct deliveries *all, const char *consumer,
                  void (*post)(void *ctx, struct store_op *op), void *ctx);

/* An operation came back: frees it. */
void renewals_done(struct renewals *r, struct store_op *op);

/* The time in ms after which renewals_run wants to be called again, when there are deliveries. */
int64_t renewals_wait_ms(const struct renewals *r);

#endif
