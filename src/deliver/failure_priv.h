#ifndef DELIVER_FAILURE_PRIV_H
#define DELIVER_FAILURE_PRIV_H

#include "deliver/webhook_priv.h"

/* Say in result->error and error_kind why an attempt that ended was no success, and set result->is_local_failure when
 * the reason is ours. result->status is set already. The text is valid UTF-8 on one line and holds nothing of the
 * request but the address that was dialled. */
void failure_describe(const struct attempt *a, struct webhook_result *result);

#endif
