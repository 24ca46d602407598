#ifndef RUN_DELIVERY_PRIV_H
#define RUN_DELIVERY_PRIV_H

#include "run/destinations.h"
#include "run/share.h"
#include "store/store.h"

#include <sys/queue.h>

/* A delivery is one task in a worker's hands:
 *
 *   feed -> WAITING -> SENDING -> SETTLING -> gone
 *              |                     ^
 *              +--- no slot in time -+   given back to its lane, no attempt counted
 *
 * It is in exactly one list, which is its state; delivery_move() is the only setter. While it is here its lease is
 * renewed, so nobody takes it for lost. */

enum delivery_state {
    DELIVERY_WAITING = 0, /* for a slot that its receiver may take */
    DELIVERY_SENDING,
    DELIVERY_SETTLING, /* its outcome is on the way to Redis; fills no slot */
    DELIVERY_STATE_COUNT
};

struct delivery {
    struct store_op op; /* first member: the op's node is the delivery's */
    TAILQ_ENTRY(delivery) link;
    enum delivery_state state;
    struct task *task;
    struct share_host *host;
    struct destination_ticket ticket; /* while SENDING */
    int64_t offset_us;                /* Redis time minus our monotonic time, at the claim */
    int64_t wait_until_mono_ms;
    int64_t started_mono_ms;
    int64_t renewed_mono_ms;
    char error[256];
};

TAILQ_HEAD(delivery_list, delivery);

struct deliveries {
    struct delivery_list lists[DELIVERY_STATE_COUNT];
    int counts[DELIVERY_STATE_COUNT];
};

void deliveries_init(struct deliveries *all);
void deliveries_deinit(struct deliveries *all, struct share *share); /* frees what is left */
int deliveries_count(const struct deliveries *all);

/* A new one, WAITING. Takes the task. */
struct delivery *delivery_open(struct deliveries *all, struct share *share, struct task *t,
                               const struct store_lease *lease, int64_t now_mono_ms);
void delivery_move(struct deliveries *all, struct delivery *d, enum delivery_state to);
void delivery_close(struct deliveries *all, struct share *share, struct delivery *d);

bool deliveries_have_entry(const struct deliveries *all, const char *entry_id);

#endif
