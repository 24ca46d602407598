#ifndef HTTP_OPS_PRIV_H
#define HTTP_OPS_PRIV_H

/* The calls for operators. Each takes a checked request and either answers it or submits a store operation. */

struct buf;
struct request;
struct store_queue_stats;

void ops_stats(struct request *r);        /* GET /stats */
void ops_destinations(struct request *r); /* GET /destinations: how this process treats each */
void ops_healthz(struct request *r);      /* GET /healthz: the process lives */
void ops_readyz(struct request *r);       /* GET /readyz: tasks are accepted and delivered now */
void ops_openapi(struct request *r);      /* GET /openapi.yaml */
void ops_options(struct request *r);      /* OPTIONS of any path */

/* Append the members of a `tasks` block. */
void ops_put_tasks(struct buf *out, const struct store_queue_stats *q);

#endif
