#ifndef DELIVER_WEBHOOK_PRIV_H
#define DELIVER_WEBHOOK_PRIV_H

#include "base/buf.h"
#include "base/err.h"
#include "base/netaddr.h"
#include "deliver/multi_priv.h"
#include "deliver/pool.h"
#include "task/signature.h"
#include "task/task.h"
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* One attempt: the request for libcurl, what the callbacks learn while it runs, and the result. The pool moves
 * attempts from list to list; this file knows neither lists nor the loop. */

#define WEBHOOK_HEAD_MAX ((size_t)64 * 1024) /* all heads of an answer, those of 1xx included */
#define WEBHOOK_BODY_MAX ((size_t)64 * 1024)
#define WEBHOOK_EXCERPT_BYTES 256 /* kept of a body that tells why; shown in part */

/* Which of the pool's lists an attempt is in; only attempt_move() of the pool changes it. */
enum attempt_state {
    ATTEMPT_IDLE = 0,  /* an easy handle to be used again */
    ATTEMPT_WAITING,   /* for its turn to look a name up; not yet libcurl's */
    ATTEMPT_RUNNING,   /* libcurl's */
    ATTEMPT_ANSWERED,  /* libcurl's, but a 2xx head is complete: a success to be reported */
    ATTEMPT_LINGERING, /* libcurl's, reported: the rest of its answer is read for the connection's sake */
    ATTEMPT_ENDED,     /* no longer libcurl's, to be reported */
    ATTEMPT_STATE_COUNT
};

/* What is the same for all attempts of a pool. */
struct webhook_env {
    const struct pool_opts *opts;
    struct multi *multi;                   /* opens and closes the sockets */
    const curl_version_info_data *libcurl; /* asked once: libcurl writes its text anew each time */
    char *agent_line;                      /* "User-Agent: duepost/0.1.0" */
    void *ctx;
    void (*on_found)(void *ctx, struct attempt *a);   /* its name is resolved */
    void (*on_success)(void *ctx, struct attempt *a); /* a 2xx head is complete; inside libcurl */
};

/* What has come back. */
struct answer {
    int status;       /* of the last head that began; counts once is_complete */
    bool is_in_head;  /* its status line has come, its end has not */
    bool is_complete; /* the head of the final answer */
    bool is_invalid;  /* a status line is none */
    size_t head_bytes;
    int retry_after_count;
    int64_t retry_after_ms;
    char reason[64]; /* as it came */
    size_t body_bytes;
    size_t excerpt_bytes;
    char excerpt[WEBHOOK_EXCERPT_BYTES]; /* as it came */
};

struct attempt {
    TAILQ_ENTRY(attempt) link;
    enum attempt_state state;
    struct webhook_env *env;
    CURL *easy;

    /* The request. */
    const struct task *task; /* borrowed until reported, then NULL */
    void *owner;
    int64_t wall_offset_us;
    int64_t started_mono_us;
    int64_t launched_mono_us; /* when libcurl got it */
    int64_t ended_mono_us;
    uint64_t host; /* for the lookup gate */
    bool holds_lookup;
    struct buf lines; /* the header lines, each with its NUL; `nodes` point into it */
    struct curl_slist *nodes;
    size_t node_capacity;

    /* What happened. */
    int64_t sent_mono_us;
    bool was_resent;          /* libcurl wanted to send once more, and was refused */
    const char *local_reason; /* why the gateway ended it itself; static, NULL when it did not */
    bool is_new_connection;   /* its address was found; false: not yet, or one used before serves */
    int open_count;           /* sockets opened */
    int socket_errno;         /* why the last one could not be; 0 */
    CURLcode code;
    struct answer answer;
    char blocked[128]; /* the address that may not be dialled, and why; "" */
    char curl_error[CURL_ERROR_SIZE];
};

/* Gives an attempt with an easy handle and everything set that never changes; NULL when out of memory. */
struct attempt *attempt_create(struct webhook_env *env);
void attempt_destroy(struct attempt **a);

/* Make the request of `t`, whose memory must last until the transfer ends. The owner and times are set by the pool.
 * ERR_NOMEM. */
enum err attempt_prepare(struct attempt *a, const struct task *t, int attempt_number, bool is_last) NODISCARD;

/* Whether the whole request has gone out, so that libcurl needs the task's memory no more. */
bool attempt_is_sent(const struct attempt *a);

/* What the attempt brought, once it is answered or ended. */
void attempt_result(const struct attempt *a, struct webhook_result *result);

/* Forget the task; keeps the handle and a little memory for the next. */
void attempt_recycle(struct attempt *a);

#endif
