#ifndef DELIVER_REQUEST_PRIV_H
#define DELIVER_REQUEST_PRIV_H

#include "base/err.h"
#include "deliver/webhook_priv.h"

#define REQUEST_LINES_MAX_BYTES ((size_t)256 * 1024) /* cap of a->lines */

/* Fill a->lines and a->nodes with the header lines of the request: ours, the task's, and the defaults it did not
 * set. `now_mono_us` becomes webhook-timestamp. ERR_NOMEM. */
enum err request_headers(struct attempt *a, int attempt_number, int64_t now_mono_us) NODISCARD;

#endif
