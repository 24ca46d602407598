#ifndef BASE_EXPOSITION_H
#define BASE_EXPOSITION_H

#include "base/buf.h"
#include "base/metrics.h"

/* Appending metrics in the text format of Prometheus, version 0.0.4. A family is its head, then its samples. Label
 * values are escaped here; names come from the program. Values are in base units: seconds, bytes, counts. */

#define EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_type { EXPOSITION_COUNTER = 0, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

struct exposition_label {
    const char *name; /* NULL ends a list */
    const char *value;
};

void exposition_head(struct buf *out, const char *name, enum exposition_type type, const char *help);

/* Samples of the family whose head was written; `labels` NULL: none. */
void exposition_int(struct buf *out, const char *name, const struct exposition_label *labels, int64_t value);
void exposition_real(struct buf *out, const char *name, const struct exposition_label *labels, double value);

/* Heads and the only samples of their families. */
void exposition_counter(struct buf *out, const char *name, const char *help, int64_t value);
void exposition_gauge(struct buf *out, const char *name, const char *help, double value);
void exposition_histogram(struct buf *out, const char *name, const char *help, const struct metrics_total *total);

#endif
