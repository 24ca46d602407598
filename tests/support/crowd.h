#ifndef SUPPORT_CROWD_H
#define SUPPORT_CROWD_H

#include "client.h"
#include "gateway.h"
#include <stdint.h>

/* Many tasks at once, and the calls of their queue. Whatever is not answered as it should be fails the test. */

struct crowd {
    const char *queue; /* the ids are QUEUE-0, QUEUE-1, ... */
    const char *url;   /* its paths are /QUEUE-0, ... */
    int from, count;   /* the first is QUEUE-from */
    int64_t run_at_ms; /* of the first; 0: now, all of them */
    double step_ms;    /* from one due time to the next */
    const char *more;  /* further members, ",\"retry\":..."; NULL: none */
};

/* By batches of a thousand. */
void crowd_create(struct client *api, const struct crowd *crowd);

/* PUT /queues/QUEUE with this body, in single quotes. */
void crowd_put(struct client *api, const char *queue, const char *body);

/* POST /queues/QUEUE/ACTION; the answer's JSON, borrowed. */
json_t *crowd_do(struct client *api, const char *queue, const char *action);

/* GET /queues/QUEUE, borrowed. */
json_t *crowd_queue(struct client *api, const char *queue);

/* One task of a queue for the receiver's path /ID, with further members as above ("": none); the same that the receiver
 * holds, once it is there. */
void crowd_post(struct world *w, const char *id, const char *queue, const char *more);
void crowd_post_held(struct world *w, const char *id, const char *queue);

#endif
