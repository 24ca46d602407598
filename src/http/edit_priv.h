#ifndef HTTP_EDIT_PRIV_H
#define HTTP_EDIT_PRIV_H

/* The calls that change a task. */

struct request;

void edit_patch(struct request *r);   /* PATCH /tasks/{id} */
void edit_run(struct request *r);     /* POST /tasks/{id}/run */
void edit_redrive(struct request *r); /* POST /tasks/{id}/redrive */

#endif
