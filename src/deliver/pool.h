#ifndef DELIVER_POOL_H
#define DELIVER_POOL_H

#include "base/endpoint.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/netaddr.h"
#include "task/signature.h"
#include "task/task.h"
#include <stdbool.h>
#include <stdint.h>

/* HTTP requests to receivers: one CURLM driven by the owner's loop, hundreds of attempts in flight.
 * Threads: the loop's. */

/* What an attempt brought. */
struct webhook_result {
    int status;      /* of the final head; 0 when no complete head came */
    char error[256]; /* "" when there is none: what failed, for last_attempt.error; valid UTF-8 */
    enum task_error_kind error_kind;
    int64_t retry_after_ms; /* -1: none given, given twice, or nonsense */
    int64_t duration_us;    /* from the start to the end of the attempt; no less than the sum of the phases */
    struct task_phases phases;
    int64_t sent_mono_us;  /* when the first byte went out; 0 when none did */
    bool is_local_failure; /* no attempt was made for a local reason (EMFILE, memory): give the task back */
};

struct pool;
struct attempt; /* one request under way; owned by the pool */

struct pool_opts {
    struct loop *loop;                       /* keeps */
    int capacity;                            /* attempts in flight at most */
    const struct cidr_list *allow_net;       /* keeps */
    const struct endpoint_list *own;         /* keeps: never dialled, whatever is allowed; NULL: none */
    const struct signature_secrets *secrets; /* keeps; count 0: unsigned */
    const char *ca_file;                     /* keeps; NULL: the system's */
    const char *version;                     /* keeps; for User-Agent */
    /* An attempt has ended; called from pool_run(), never inside libcurl. `owner` as given to pool_start. */
    void (*on_done)(void *ctx, void *owner, const struct webhook_result *result);
    void *ctx;
};

/* curl_global_init must have been called (pool_global_init, once in main before any thread). */
enum err pool_global_init(void) NODISCARD;
enum err pool_create(const struct pool_opts *opts, struct pool **out) NODISCARD;
void pool_destroy(struct pool **p); /* aborts what is under way, without on_done */

/* Begin an attempt for `t` (borrowed until on_done). `attempt_number` counts from 1; `wall_offset_us` is Redis time
 * minus our monotonic time, for webhook-timestamp. `is_last`: no pooled connection is used, so that a dead one never
 * makes a task dead. ERR_NOMEM or ERR_TOO_BIG (capacity) when it cannot begin; on_done is not called then. */
enum err pool_start(struct pool *p, const struct task *t, int attempt_number, int64_t wall_offset_us, bool is_last,
                    void *owner) NODISCARD;

/* To be called once a turn of the loop, after loop_turn: drives timeouts and reports what ended. Returns the time in
 * ms until it wants to be called again at the latest, -1 for never. */
int64_t pool_run(struct pool *p);

int pool_in_flight(const struct pool *p);

/* Abort all attempts under way: on_done comes for each in the next pool_run(), with is_local_failure set for those
 * without a complete head. */
void pool_abort_all(struct pool *p);

#endif
