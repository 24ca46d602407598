#ifndef HTTP_TASKS_PRIV_H
#define HTTP_TASKS_PRIV_H

#include "http/reply_priv.h"
#include "store/store.h"
#include "task/task_json.h"

/* The calls under /tasks. Each takes a checked request and either answers it or submits a store operation. */

struct request;
struct head;

void tasks_create(struct request *r); /* POST /tasks */
void tasks_get(struct request *r);    /* GET /tasks/{id} */
void tasks_cancel(struct request *r); /* DELETE /tasks/{id} */

/* What they share with the calls next door. */

void tasks_reply(struct request *r, int status, const struct task *t, enum task_json_form form);
void tasks_reply_not_found(struct request *r);

/* A task on its way to the store: give it an id unless the client did; and the trace it belongs to. */
void tasks_name(struct task *t);
void tasks_take_traceparent(const struct head *h, struct task *t);
int64_t tasks_create_wait_ms(enum task_durability durability);

/* What is to be answered to a create: the task, borrowed from the operation, or a problem. */
struct tasks_created {
    int status;
    const struct task *task; /* NULL: there is a problem */
    struct problem problem;
};
void tasks_judge_created(const struct store_op *op, struct tasks_created *out);

#endif
