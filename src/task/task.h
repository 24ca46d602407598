#ifndef TASK_TASK_H
#define TASK_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A task: one HTTP request to be sent later (DESIGN sections 1 and 2). A value without I/O. */

#define TASK_ID_MAX 128
#define TASK_QUEUE_MAX 64
#define TASK_URL_MAX 2048
#define TASK_QUEUE_DEFAULT "default"
#define TASK_TIMEOUT_DEFAULT_MS 10000
#define TASK_TIMEOUT_MIN_MS 100
#define TASK_TIMEOUT_MAX_MS 1800000 /* 30 min */
#define TASK_DIGEST_BYTES 16
#define TASK_TRACEPARENT_BYTES 55 /* W3C Trace Context, version 00 */
#define TASK_TAKEOVERS_MAX 10     /* after so many workers lost without an outcome the task is dead (worker_lost) */

/* Numbers as stored in Redis: append only. */
enum task_state {
    TASK_SCHEDULED = 0,
    TASK_READY,
    TASK_DELIVERING,
    TASK_DELIVERED,
    TASK_DEAD,
    TASK_CANCELLED,
    TASK_EXPIRED,
    TASK_STATE_COUNT /* number of states, not one of them */
};

/* Numbers as stored in Redis: append only. */
enum task_method {
    TASK_METHOD_POST = 0,
    TASK_METHOD_GET,
    TASK_METHOD_PUT,
    TASK_METHOD_PATCH,
    TASK_METHOD_DELETE,
    TASK_METHOD_COUNT
};

/* How safe a new task is before its creation is answered. */
enum task_durability {
    TASK_DURABILITY_MEMORY = 0, /* in Redis */
    TASK_DURABILITY_FSYNC,      /* in its append-only file, on disk */
    TASK_DURABILITY_REPLICA,    /* in one replica too */
    TASK_DURABILITY_COUNT       /* number of kinds, not one of them */
};

/* How the body was given, hence under which member GET shows it. Numbers as stored in Redis. */
enum task_body_kind {
    TASK_BODY_NONE = 0,
    TASK_BODY_PAYLOAD, /* JSON, byte for byte as in the request */
    TASK_BODY_TEXT,
    TASK_BODY_BYTES, /* `body_base64`; kept decoded */
};

struct task_header {
    char *name;
    char *value;
};

/* When to try again after a failed attempt. */
struct task_retry {
    unsigned given;       /* which members the client gave, bits of its reader; only on the way to the store */
    int max_attempts;     /* 1..1000 */
    int64_t initial_ms;   /* at least 1 */
    double multiplier;    /* 1..10 */
    int64_t max_ms;       /* at least initial_ms */
    double jitter;        /* 0..1 */
    int64_t *schedule_ms; /* instead of the four above; NULL when not used */
    size_t schedule_count;
    int64_t max_age_ms; /* give up so long after the due time; 0 = never */
};

#define TASK_RETRY_DEFAULT                                                                         \
    {                                                                                              \
        .max_attempts = 10, .initial_ms = 1000, .multiplier = 2.0, .max_ms = 600000, .jitter = 0.1 \
    }

/* Why an attempt was no success. Numbers as stored in Redis: append only. */
enum task_error_kind {
    TASK_ERROR_NONE = 0,    /* it was one, or its record is of a version that did not tell */
    TASK_ERROR_DNS,         /* the name has no address */
    TASK_ERROR_CONNECT,     /* no connection */
    TASK_ERROR_TLS,         /* no TLS session; the certificate, for instance */
    TASK_ERROR_TIMEOUT,     /* in whichever phase */
    TASK_ERROR_RESET,       /* the connection ended before the head of an answer did */
    TASK_ERROR_STATUS,      /* an answer, but none of 2xx */
    TASK_ERROR_BLOCKED,     /* the address may not be dialled */
    TASK_ERROR_PROTOCOL,    /* what came is not valid HTTP, or too large */
    TASK_ERROR_WORKER_LOST, /* the gateways that tried died of it, again and again */
    TASK_ERROR_KIND_COUNT   /* number of kinds, not one of them */
};

/* What the phases of an attempt took, each alone, in us. TASK_TIME_NONE: it was not completed, or not needed; on a
 * connection used before there is only the last, on one that failed in TLS only the first. */
#define TASK_TIME_NONE (-1)
struct task_phases {
    int64_t dns_us; /* until the address was known, waiting for other lookups included */
    int64_t connect_us;
    int64_t tls_us;
    int64_t first_byte_us; /* from the connection to the first byte of the answer */
};
#define TASK_PHASES_NONE                                                                  \
    {                                                                                     \
        .dns_us = TASK_TIME_NONE, .connect_us = TASK_TIME_NONE, .tls_us = TASK_TIME_NONE, \
        .first_byte_us = TASK_TIME_NONE                                                   \
    }

/* One HTTP request to the receiver that has ended. */
struct task_attempt {
    int64_t at_ms; /* Unix ms of its start, by the Redis clock */
    int64_t duration_us;
    int status; /* HTTP status; 0 when no complete head came */
    enum task_error_kind error_kind;
    char *error;         /* short text; NULL on success */
    int64_t lateness_us; /* from the due time to its first byte; TASK_TIME_NONE: nothing was sent */
    struct task_phases phases;
};

struct task {
    /* The request. */
    char *id;
    char *queue;
    enum task_method method;
    char *url;
    struct task_header *headers;
    size_t header_count;
    enum task_body_kind body_kind;
    char *body; /* NULL when there is none, or when it was dropped after delivery */
    size_t body_bytes;
    int64_t timeout_ms;
    bool is_timeout_given; /* else it may come from the queue; only on the way to the store */
    struct task_retry retry;
    char *on_success;  /* URL told when it was delivered; NULL: none */
    char *on_failure;  /* URL told when it ended dead or expired; NULL: none */
    char *traceparent; /* of the request that created it; NULL: none */
    bool has_digest;   /* the client chose the id: `digest` tells a repeated request from another one */
    unsigned char digest[TASK_DIGEST_BYTES]; /* SHA-256 of the request bytes, cut */

    /* The due time as asked for, only on the way to create: relative to Redis TIME, or absolute. */
    bool is_due_absolute;
    int64_t due_ms;
    enum task_durability durability; /* only on the way to create */

    /* When it is given up undelivered: on the way to the store maybe relative to Redis TIME, else absolute. */
    bool has_expiry;
    bool is_expiry_relative;
    int64_t expires_ms;

    /* What the store knows. */
    enum task_state state;
    int64_t run_at_ms;
    int64_t created_at_ms;
    int64_t when_ms; /* finished states: finished_at; else the next attempt's due time after a first attempt */
    int attempts;    /* attempts that ended */
    int takeovers;
    unsigned generation;
    bool cancel_requested;
    struct task_attempt *history; /* oldest first; the last one is `last_attempt` */
    size_t history_count;
};

/* A task with every default of the contract and no id, url or body. Aborts when out of memory. */
struct task *task_create(void);
void task_destroy(struct task **t);

const char *task_state_name(enum task_state s);           /* "scheduled" */
const char *task_method_name(enum task_method m);         /* "POST" */
const char *task_error_kind_name(enum task_error_kind k); /* "dns"; NULL for TASK_ERROR_NONE */
bool task_durability_from_name(const char *s, size_t n, enum task_durability *out);
bool task_method_from_name(const char *s, size_t n, enum task_method *out);
bool task_state_is_finished(enum task_state s);

/* `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}` and `[a-z0-9][a-z0-9._-]{0,63}`. */
bool task_id_is_valid(const char *s, size_t n);
bool task_queue_is_valid(const char *s, size_t n);

#endif
