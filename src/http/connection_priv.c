#include "http/connection_priv.h"
#include "base/mem.h"
#include "http/request_priv.h"
#include <netinet/in.h>
#include <linux/tcp.h> /* netinet/tcp.h knows an older tcp_info */
#include <stdlib.h>
#include <sys/socket.h>

/* Time limits of connections.
 *
 * libmicrohttpd tells when a request line is complete, but not when its first byte came. Once a second, each connection
 * that waits for a request is therefore asked through TCP_INFO when it last received anything: after its last request
 * was answered means that a head has begun. So a request line that is dripped, or stops half-way, is found as well. A
 * connection is ended by shutdown(2) of its descriptor, which libmicrohttpd sees as the end of the stream. */

#define RECEIVED_SLACK_MS 50 /* the kernel counts in ticks of some milliseconds */

struct connection *connections_add(struct connections *list, int fd, int64_t now_mono_ms)
{
    struct connection *c = xcalloc(1, sizeof(*c));

    c->fd = fd;
    c->waits_since_mono_ms = now_mono_ms;
    c->is_excess = list->count >= list->max;
    c->next = list->first;
    if (c->next)
        c->next->prev = c;
    list->first = c;
    list->count++;
    return c;
}

void connections_remove(struct connections *list, struct connection **c)
{
    struct connection *self = *c;

    *c = NULL;
    if (self->prev)
        self->prev->next = self->next;
    else
        list->first = self->next;
    if (self->next)
        self->next->prev = self->prev;
    list->count--;
    free(self);
}

void connection_begin(struct connection *c, struct request *r)
{
    c->request = r;
    c->had_request = true;
    if (c->head_since_mono_ms == 0)
        c->head_since_mono_ms = r->began_mono_ms;
}

void connection_end(struct connection *c, int64_t now_mono_ms)
{
    c->request = NULL;
    c->head_since_mono_ms = 0;
    c->waits_since_mono_ms = now_mono_ms;
}

/* Whether bytes of a next request have arrived, though no whole request line. */
static bool has_head_begun(const struct connection *c, int64_t now_mono_ms)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == -1)
        return false;
    if (!c->had_request)
        return info.tcpi_bytes_received > 0;
    return now_mono_ms - (int64_t)info.tcpi_last_data_recv > c->waits_since_mono_ms + RECEIVED_SLACK_MS;
}

static bool is_waiting_too_long(struct connection *c, int64_t now_mono_ms)
{
    if (c->is_excess)
        return now_mono_ms - c->waits_since_mono_ms > CONNECTION_LINGER_MS;
    if (now_mono_ms - c->waits_since_mono_ms > CONNECTION_IDLE_MS)
        return true;
    if (c->head_since_mono_ms == 0 && has_head_begun(c, now_mono_ms))
        c->head_since_mono_ms = now_mono_ms;
    return c->head_since_mono_ms != 0 && now_mono_ms - c->head_since_mono_ms > CONNECTION_HEAD_MS;
}

static bool is_request_too_slow(const struct connection *c, int64_t now_mono_ms)
{
    int64_t age_ms = now_mono_ms - c->head_since_mono_ms;

    switch (c->request->phase) {
    case REQUEST_HEAD:
        return age_ms > CONNECTION_HEAD_MS;
    case REQUEST_BODY:
    case REQUEST_ANSWERED:
        return age_ms > CONNECTION_REQUEST_MS;
    case REQUEST_REFUSED:
        return now_mono_ms - c->refused_mono_ms > CONNECTION_LINGER_MS;
    case REQUEST_WAITING:
    case REQUEST_SUSPENDED: /* its operation has a deadline of its own */
    case REQUEST_PHASE_COUNT:
        break;
    }
    return false;
}

void connections_sweep(struct connections *list, int64_t now_mono_ms)
{
    for (struct connection *c = list->first; c; c = c->next) {
        if (c->is_shut)
            continue;
        c->is_shut = c->request ? is_request_too_slow(c, now_mono_ms) : is_waiting_too_long(c, now_mono_ms);
        if (c->is_shut)
            (void)shutdown(c->fd, SHUT_RDWR);
    }
}
