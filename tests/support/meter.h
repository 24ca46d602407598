#ifndef SUPPORT_METER_H
#define SUPPORT_METER_H

#include <stddef.h>
#include <stdint.h>

/* A receiver that counts: of each request it keeps only when it came, to which path, and how many were under way then,
 * so it takes tens of thousands of them. It answers 200 after a while that can be changed. One thread, on 127.0.0.1 at
 * a port of the kernel's choice. (For what a request holds there is sink.h.) */

struct meter;

#define METER_PATH_SIZE 40

struct meter_arrival {
    int64_t at_us; /* Unix time when its head was complete */
    int under_way; /* requests without an answer, this one included */
    char path[METER_PATH_SIZE];
};

struct meter *meter_create(int hold_ms);
void meter_destroy(struct meter **m); /* NULL-safe */

/* "http://127.0.0.1:PORT", without a path. Borrowed. */
const char *meter_url(const struct meter *m);

void meter_set_hold(struct meter *m, int hold_ms); /* of later requests */
void meter_set_status(struct meter *m, int status);

/* Arrivals at paths that begin with `prefix` ("": all), in their order. Gives *out; free(). */
size_t meter_arrivals(struct meter *m, const char *prefix, struct meter_arrival **out);
size_t meter_count(struct meter *m, const char *prefix);

/* Requests without an answer. */
int meter_under_way(struct meter *m);

/* The most that were under way at once since the last call. */
int meter_take_peak(struct meter *m);

#endif
