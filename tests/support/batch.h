#ifndef SUPPORT_BATCH_H
#define SUPPORT_BATCH_H

#include "client.h"

/* Bodies of POST /tasks/batch, and its results. */

/* A growing text. free(t->s). */
struct text {
    char *s;
    size_t n, capacity;
};
void text_put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A batch of tasks that are due in an hour, with text bodies of so many bytes; free(). */
char *batch_of(size_t count, size_t payload_bytes);

struct reply *batch_post(struct client *api, const char *body);

/* The results of a batch that must be answered, and be so many. Borrowed from the client. */
json_t *batch_results(struct client *api, const char *body, size_t count);

json_int_t batch_status(json_t *results, size_t i);

#endif
