#ifndef HTTP_QUEUES_PRIV_H
#define HTTP_QUEUES_PRIV_H

/* The calls under /queues. Each takes a checked request and either answers it or submits a store operation. */

struct request;

void queues_list(struct request *r);    /* GET /queues */
void queues_get(struct request *r);     /* GET /queues/{queue} */
void queues_put(struct request *r);     /* PUT /queues/{queue} */
void queues_delete(struct request *r);  /* DELETE /queues/{queue} */
void queues_pause(struct request *r);   /* POST /queues/{queue}/pause */
void queues_resume(struct request *r);  /* POST /queues/{queue}/resume */
void queues_purge(struct request *r);   /* POST /queues/{queue}/purge */
void queues_redrive(struct request *r); /* POST /queues/{queue}/redrive */

#endif
