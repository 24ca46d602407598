#ifndef CHAOS_ASK_H
#define CHAOS_ASK_H

#include <jansson.h>
#include <stdint.h>

/* One HTTP client for one thread. */

struct ask;

struct ask *ask_create(void);
void ask_destroy(struct ask **a);

/* Send and wait for the answer, 20 s at most. The status; 0 when no answer came. `body` may be NULL. */
int ask_send(struct ask *a, const char *method, int port, const char *path, const char *body);

/* The requests from here on carry this Idempotency-Key; NULL: none. */
void ask_set_key(struct ask *a, const char *key);

/* Of the last answer: borrowed until the next. A string or number of its JSON by a path of names ("tasks.ready",
 * "results.0.status"); NULL or -1 when there is none. */
const char *ask_text(const struct ask *a, const char *path);
int64_t ask_number(const struct ask *a, const char *path);
int64_t ask_duration_ms(const struct ask *a);

#endif
