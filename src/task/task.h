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
#define TASK_DIGEST_BYTES 16
#define TASK_TAKEOVERS_MAX 10 /* after so many workers lost without an outcome the task is dead (worker_lost) */

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
    int max_attempts;     /* 1..1000 */
    int64_t initial_ms;   /* at least 1 */
    double multiplier;    /* 1..10 */
    int64_t max_ms;       /* at least initial_ms */
    double jitter;        /* 0..1 */
    int64_t *schedule_ms; /* instead of the four above; NULL when not used */
    size_t schedule_count;
    int64_t max_age_ms; /* give up so long after the due time; 0 = never */
};

/* One HTTP request to the receiver that has ended. */
struct task_attempt {
    int64_t at_ms; /* Unix ms of its start, by the Redis clock */
    int64_t duration_ms;
    int status;  /* HTTP status; 0 when no complete head came */
    char *error; /* short text; NULL on success */
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
    struct task_retry retry;
    bool has_digest; /* the client chose the id: `digest` tells a repeated request from another one */
    unsigned char digest[TASK_DIGEST_BYTES]; /* SHA-256 of the request bytes, cut */

    /* The due time as asked for, only on the way to create: relative to Redis TIME, or absolute. */
    bool is_due_absolute;
    int64_t due_ms;
    enum task_durability durability; /* only on the way to create */

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

const char *task_state_name(enum task_state s);   /* "scheduled" */
const char *task_method_name(enum task_method m); /* "POST" */
bool task_durability_from_name(const char *s, size_t n, enum task_durability *out);
bool task_method_from_name(const char *s, size_t n, enum task_method *out);
bool task_state_is_finished(enum task_state s);

/* `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}` and `[a-z0-9][a-z0-9._-]{0,63}`. */
bool task_id_is_valid(const char *s, size_t n);
bool task_queue_is_valid(const char *s, size_t n);

#endif
