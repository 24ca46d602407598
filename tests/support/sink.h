#ifndef SUPPORT_SINK_H
#define SUPPORT_SINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A receiver of webhooks inside the test: listens on a port of the kernel's choice on 127.0.0.1, keeps every request,
 * and answers each path from a script. A path without a script is answered with 200. One thread a connection. */

struct sink;

struct sink_answer {
    int status;          /* 0: close the connection without an answer */
    int delay_ms;        /* before answering */
    bool is_held;        /* answer only after sink_release() */
    const char *headers; /* "Name: value\r\n..."; may be NULL */
    const char *body;    /* may be NULL */
};

struct sink_request {
    char *method;
    char *target;
    char *head;        /* as it came, with the request line and the empty line */
    json_t *headers;   /* an object: names in lower case -> value */
    json_t *raw_names; /* an array of the names as they came, repeats included */
    char *body;        /* NUL-terminated */
    size_t body_bytes;
    int64_t arrived_us; /* Unix time of its first byte */
};

struct sink *sink_create(void);

/* One that refuses connections at its port until it is told to listen. */
struct sink *sink_create_deaf(void);
void sink_listen(struct sink *s);

void sink_destroy(struct sink **s);

int sink_port(const struct sink *s);

/* "http://127.0.0.1:PORT" + path. Borrowed, valid until the sink is destroyed. */
const char *sink_url(struct sink *s, const char *path);

/* The n-th request to `path` gets the n-th answer; the last one repeats. The path is copied; the strings of
 * the answers are borrowed for good. */
void sink_script(struct sink *s, const char *path, const struct sink_answer *answers, size_t count);
#define SINK_SCRIPT(s, path, ...)                                   \
    sink_script(s, path, (const struct sink_answer[]){__VA_ARGS__}, \
                sizeof((const struct sink_answer[]){__VA_ARGS__}) / sizeof(struct sink_answer))

/* Let everything that is held, now and later, be answered. */
void sink_release(struct sink *s);

/* How many requests came; `path` NULL: to any path. */
size_t sink_count(struct sink *s, const char *path);

/* The n-th request (from 1) to `path`; waits up to `ms` (scaled) for it, then fails the test. Borrowed. */
const struct sink_request *sink_wait(struct sink *s, const char *path, size_t n, int ms);

/* A header's value by its lower-case name; NULL when it is not there. */
const char *sink_header(const struct sink_request *r, const char *name);

#endif
