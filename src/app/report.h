#ifndef APP_REPORT_H
#define APP_REPORT_H

#include "base/buf.h"
#include "base/metrics.h"
#include "run/destinations.h"
#include "run/mover.h"
#include "run/worker.h"

/* What this process tells of itself in GET /stats, GET /metrics and GET /readyz; forms as server_opts asks for them.
 * `mover` may be NULL. */

void report_stats(struct buf *out, struct metrics_window *lateness, const struct mover *mover,
                  struct worker *const *workers, int worker_count);
void report_metrics(struct buf *out, struct metrics_window *lateness, struct metrics_window *durations,
                    const struct mover *mover, struct worker *const *workers, int worker_count);
void report_destinations_metrics(struct buf *out, struct destinations *d);
void report_destinations_summary(struct buf *out, struct destinations *d);
void report_destinations(struct buf *out, struct destinations *d);
void report_unready(struct buf *out, const struct mover *mover, struct worker *const *workers, int worker_count);

#endif
