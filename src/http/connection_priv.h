#ifndef HTTP_CONNECTION_PRIV_H
#define HTTP_CONNECTION_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The connections of one server, with the limits libmicrohttpd does not keep: it neither answers nor closes what is
 * over its connection limit, and its timeout counts inactivity only, so a client that sends a byte now and then holds
 * its place for ever. Threads: the server's. */

struct request;

#define CONNECTION_IDLE_MS 60000
#define CONNECTION_HEAD_MS 15000
#define CONNECTION_REQUEST_MS 60000
#define CONNECTION_LINGER_MS 2000 /* how long a refused body is read away; an excess connection may wait as long */
#define CONNECTION_SWEEP_MS 1000

struct connection {
    struct connection *next;
    struct connection *prev;
    struct request *request; /* the one under way; NULL between requests. Not a holder: cleared by its owner */
    int fd;
    bool is_excess; /* one too many: gets a 503 */
    bool had_request;
    bool is_shut;                /* ended by us; libmicrohttpd will close it */
    int64_t waits_since_mono_ms; /* no request since then */
    int64_t head_since_mono_ms;  /* the first bytes of a head were noticed then; 0: none */
    int64_t refused_mono_ms;     /* when its body was refused; 0: it was not */
    bool had_unread;             /* at the last sweep, while a body was read, some of it lay in the socket */
    int64_t taken_bytes;         /* from the socket until then, counted from any point, */
    size_t body_bytes;           /* and of the body */
};

struct connections {
    struct connection *first;
    size_t count;
    size_t excess_count; /* of them */
    size_t max;          /* not counting the excess */
    size_t peak_count;   /* since connections_have_fallen() last said so */
};

/* Gives; belongs to the list until connections_remove(). */
struct connection *connections_add(struct connections *list, int fd, int64_t now_mono_ms);
void connections_remove(struct connections *list, struct connection **c);

/* A request's line has come / its last byte has gone. */
void connection_begin(struct connection *c, struct request *r);
void connection_end(struct connection *c, int64_t now_mono_ms);

/* Shut down every connection that took too long; to be called each CONNECTION_SWEEP_MS. */
void connections_sweep(struct connections *list, int64_t now_mono_ms);

/* Whether there were many and far fewer are left: their memory can go back to the system. */
bool connections_have_fallen(struct connections *list);

#endif
