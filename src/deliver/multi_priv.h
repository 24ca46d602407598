#ifndef DELIVER_MULTI_PRIV_H
#define DELIVER_MULTI_PRIV_H

#include "base/err.h"
#include "base/loop.h"
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

/* A CURLM driven by a loop: its sockets are watched there, its one timer is told to the caller. Threads: the loop's.
 *
 * A connection stays watched while it is idle: the next request on it, a moment later, then costs no epoll_ctl. */
struct multi {
    CURLM *handle; /* NULL while closed */
    struct loop *loop;
    int64_t timer_mono_us; /* when multi_run_timer() has to be called; -1 never */
    bool *is_connection;   /* by descriptor: opened by multi_socket() and not closed since */
    size_t descriptor_count;
};

void multi_init(struct multi *m, struct loop *loop); /* closed; keeps the loop */

/* Open it, unless it is; at most `connections` stay open without a transfer. ERR_NOMEM. */
enum err multi_open(struct multi *m, long connections) NODISCARD;
void multi_close(struct multi *m); /* every easy handle must have been removed */

/* For CURLOPT_OPENSOCKETFUNCTION, and CURLOPT_CLOSESOCKETFUNCTION with the multi as its data. -1 with errno. */
int multi_socket(struct multi *m, const struct curl_sockaddr *address);
int multi_close_socket(void *multi, curl_socket_t fd);

enum err multi_add(struct multi *m, CURL *easy) NODISCARD;
void multi_remove(struct multi *m, CURL *easy); /* never inside a callback of libcurl */

/* Do what is due by the timer. */
void multi_run_timer(struct multi *m);

/* The next transfer that has ended: its CURLOPT_PRIVATE and result. False when there is none. */
bool multi_next_done(struct multi *m, void **private_data, CURLcode *code);

#endif
