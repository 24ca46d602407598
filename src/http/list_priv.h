#ifndef HTTP_LIST_PRIV_H
#define HTTP_LIST_PRIV_H

/* The list of tasks. See http/route_priv.h for what a handler does. */

struct request;

void list_tasks(struct request *r); /* GET /tasks */

#endif
