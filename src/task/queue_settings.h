#ifndef TASK_QUEUE_SETTINGS_H
#define TASK_QUEUE_SETTINGS_H

#include "base/buf.h"
#include "task/fault.h"
#include "task/task.h"

/* What can be set for a queue (DESIGN section 2, Queues). A value without I/O. */
struct queue_settings {
    bool is_paused;
    int max_concurrency;   /* attempts under way at most; 0: any number */
    double max_per_second; /* attempts begun; 0: any number */
    /* Defaults of new tasks: what retry.given does not name is not set. */
    int64_t timeout_ms; /* 0: not set */
    struct task_retry retry;
};

void queue_settings_init(struct queue_settings *s); /* nothing is set */
void queue_settings_deinit(struct queue_settings *s);

/* Nothing is set. */
bool queue_settings_are_default(const struct queue_settings *s);

/* Read the body of PUT /queues/{q}: paused, max_concurrency, max_per_second, timeout, retry, as strict as a task.
 * Initializes *out, also on error. ERR_INVALID_JSON, ERR_INVALID (faults with pointers), ERR_NOMEM. */
enum err queue_settings_parse(const char *json, size_t n, struct faults *faults, struct queue_settings *out) NODISCARD;

/* Read the body of POST /queues/{q}/redrive: at most how many tasks; *limit stays as it was when it does not say.
 * Errors as above. */
#define QUEUE_REDRIVE_MAX 100000
#define QUEUE_REDRIVE_DEFAULT 1000
enum err queue_redrive_parse(const char *json, size_t n, struct faults *faults, int *limit) NODISCARD;

/* Append the members of an answer: "paused":…,"max_concurrency":…,"max_per_second":…,"timeout":…,"retry":… (null where
 * nothing is set). */
void queue_settings_write(struct buf *out, const struct queue_settings *s);

/* The first three of these. */
void queue_settings_write_limits(struct buf *out, const struct queue_settings *s);

/* As stored in Redis, for scripts and for us: see `settings` in lua/common.lua. Decode initializes *out; false when the
 * text is not of that form. */
void queue_settings_encode(struct buf *out, const struct queue_settings *s);
bool queue_settings_decode(const char *text, size_t n, struct queue_settings *out);

/* Fill in what the client did not give: from the settings of its queue (NULL: it has none), else the default of the
 * contract. Member by member; where only one of `initial` and `max` was given and the other would not fit it, that
 * follows. Can be repeated with other settings. */
void queue_settings_apply(const struct queue_settings *s, struct task *t);

#endif
