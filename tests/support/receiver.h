#ifndef SUPPORT_RECEIVER_H
#define SUPPORT_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A receiver for the wire itself: it sends the very bytes a script gives, well-formed or not, and keeps the very bytes
 * that came. On 127.0.0.1, at a port of the kernel's choice; one thread a connection. (For ordinary answers by path
 * there is sink.h.)
 *
 *   struct receiver *r = receiver_create();
 *   receiver_script(r, &(struct receiver_answer){.steps = {RECEIVER_SAY("HTTP/1.1 200 OK\r\n"), {RECEIVER_RESET}}});
 *   ... send a task to receiver_url(r) ...
 *   receiver_wait(r, 1);
 *   cr_assert(eq(sz, receiver_header_count(receiver_request(r, 0), "webhook-id"), 1));
 *   receiver_destroy(&r);
 */

struct receiver;

enum receiver_action {
    RECEIVER_END = 0,    /* of the steps: the connection stays, and the next request on it gets the next answer */
    RECEIVER_SEND,       /* `bytes` */
    RECEIVER_FLOOD,      /* `bytes` again and again, until the peer has enough */
    RECEIVER_PAUSE,      /* `ms`, or shorter when the peer closes */
    RECEIVER_HANG,       /* say nothing until the peer closes */
    RECEIVER_CLOSE,      /* an orderly end */
    RECEIVER_HALF_CLOSE, /* no more bytes from here, but the connection stays open until the peer closes */
    RECEIVER_RESET,      /* RST */
};

struct receiver_step {
    enum receiver_action action;
    const char *bytes; /* NUL-terminated; borrowed for good */
    int ms;
};

#define RECEIVER_SAY(text)                       \
    {                                            \
        .action = RECEIVER_SEND, .bytes = (text) \
    }

/* When the steps begin. */
enum receiver_when {
    RECEIVER_AFTER_REQUEST = 0, /* head and body are complete */
    RECEIVER_AFTER_HEAD,        /* the body, if any, is not read */
    RECEIVER_AT_ACCEPT,         /* nothing is read; the connection ends after the steps, and is no request */
};

#define RECEIVER_STEPS_MAX 8

struct receiver_answer {
    enum receiver_when when;
    struct receiver_step steps[RECEIVER_STEPS_MAX];
};

/* A request as it came. */
struct receiver_request {
    char *bytes; /* NUL-terminated */
    size_t bytes_count;
    size_t head_bytes;  /* with the empty line */
    int connection;     /* which connection it came on, from 0 */
    int64_t at_mono_us; /* when its head was complete */
};

struct receiver *receiver_create(void);
void receiver_destroy(struct receiver **r);

int receiver_port(const struct receiver *r);
const char *receiver_url(const struct receiver *r); /* "http://127.0.0.1:PORT/hook" */

/* Add an answer to the script (copied). Answers are used once each, in order; then every request gets
 * "200 OK" with the body "ok". */
void receiver_script(struct receiver *r, const struct receiver_answer *answer);

/* The usual case: these bytes after the request. */
void receiver_script_bytes(struct receiver *r, const char *bytes);

int receiver_count(struct receiver *r);            /* requests so far */
int receiver_connection_count(struct receiver *r); /* connections accepted so far */
int receiver_open_count(struct receiver *r);       /* connections open at the moment */
void receiver_wait(struct receiver *r, int count); /* until so many requests came; fails the test after 5 s */

/* The i-th request, from 0. Borrowed, valid until the receiver is destroyed. Fails the test when there is none. */
const struct receiver_request *receiver_request(struct receiver *r, int i);

/* How often a header came (names in any case), and the value of its first appearance in `out`; "" when it is absent. */
int receiver_header_count(const struct receiver_request *q, const char *name);
const char *receiver_header(const struct receiver_request *q, const char *name, char *out, size_t size);

#endif
