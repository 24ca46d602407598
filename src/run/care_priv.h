#ifndef RUN_CARE_PRIV_H
#define RUN_CARE_PRIV_H

#include "deliver/pool.h"
#include "run/delivery_priv.h"
#include "run/destinations.h"

/* Whether a delivery may begin: its receiver's share of this thread's slots, and what the whole process knows of its
 * destination. */

/* May it begin, with so many slots free? After DESTINATION_GO its end is told. */
enum destination_answer care_begin(struct destinations *all, struct delivery *d, int free_slots, int64_t now_mono_ms);

/* It has ended with this result; NULL: it did not begin after all. Logs a breaker that opens or closes. */
void care_end(struct destinations *all, struct delivery *d, const struct webhook_result *r);

/* How long it should stay in its lane, since it may not begin. */
int64_t care_back_off_ms(struct destinations *all, struct delivery *d, int64_t now_mono_ms);

#endif
