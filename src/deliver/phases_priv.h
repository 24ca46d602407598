#ifndef DELIVER_PHASES_PRIV_H
#define DELIVER_PHASES_PRIV_H

#include "deliver/webhook_priv.h"

/* What the phases of an attempt took. Before its handle is removed from libcurl or after, but not once it is recycled.
 */
void phases_read(const struct attempt *a, struct task_phases *out);

#endif
