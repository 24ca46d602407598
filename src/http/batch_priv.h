#ifndef HTTP_BATCH_PRIV_H
#define HTTP_BATCH_PRIV_H

struct request;

void tasks_batch(struct request *r); /* POST /tasks/batch */

#endif
