#ifndef HTTP_METRICS_PRIV_H
#define HTTP_METRICS_PRIV_H

/* Metrics for Prometheus. See http/route_priv.h for what a handler does. */

struct request;

void metrics_get(struct request *r); /* GET /metrics */

#endif
