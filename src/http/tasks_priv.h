#ifndef HTTP_TASKS_PRIV_H
#define HTTP_TASKS_PRIV_H

/* The calls under /tasks. Each takes a checked request and either answers it or submits a store operation. */

struct request;

void tasks_create(struct request *r); /* POST /tasks */
void tasks_get(struct request *r);    /* GET /tasks/{id} */
void tasks_cancel(struct request *r); /* DELETE /tasks/{id} */

#endif
