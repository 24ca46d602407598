#include "http/connection_priv.h"
#include "base/mem.h"
#include "http/request_priv.h"
#include <netinet/in.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* netinet/tcp.h knows an older tcp_info */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Time limits of connections.
 *
 * libmicrohttpd tells when a request line is complete, but not when its first byte came; and it overlooks the end of a
 * stream that arrives together with the last bytes before it. So once a second, each connection whose request is not
 * here yet is asked through TCP_INFO. Bytes that came after the last request was answered mean that a head has begun: a
 * request line that is dripped, or stops half-way, is found as well. A connection is ended by shutdown(2) of its
 * descriptor, which libmicrohttpd sees as the end of the stream.
 *
 * A body is read as it comes, so bytes of it that lie in the socket from one sweep to the next, while none is read, are
 * some that libmicrohttpd has no memory for: a chunk's line that is longer than its pool. It would look at them again
 * and again, as fast as it can. */

#define MANY 128
#define TCP_STATE_CLOSE_WAIT 8 /* the client sends no more; in the kernel's enum, which has no header for programs */
#define RECEIVED_SLACK_MS 50   /* the kernel counts in ticks of some milliseconds */

struct connection *connections_add(struct connections *list, int fd, int64_t now_mono_ms)
{
    struct connection *c = xcalloc(1, sizeof(*c));

    c->fd = fd;
    c->waits_since_mono_ms = now_mono_ms;
    c->is_excess = list->count - list->excess_count >= list->max;
    c->next = list->first;
    if (c->next)
        c->next->prev = c;
    list->first = c;
    list->count++;
    if (list->count > list->peak_count)
        list->peak_count = list->count;
    list->excess_count += c->is_excess;
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
    list->excess_count -= self->is_excess;
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
    c->had_unread = false;
    c->head_since_mono_ms = 0;
    c->waits_since_mono_ms = now_mono_ms;
}

/* False when the kernel does not tell. */
static bool read_tcp(const struct connection *c, struct tcp_info *out)
{
    socklen_t size = sizeof(*out);

    memset(out, 0, sizeof(*out));
    return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, out, &size) == 0;
}

/* Whether the client has closed its half and libmicrohttpd has read all that came before: what is missing of its
 * request never comes. */
static bool has_left(const struct connection *c, const struct tcp_info *tcp)
{
    int unread_bytes = 0;

    return tcp->tcpi_state == TCP_STATE_CLOSE_WAIT && ioctl(c->fd, FIONREAD, &unread_bytes) == 0 && unread_bytes == 0;
}

/* Whether bytes of a next request have arrived, though no whole request line. */
static bool has_head_begun(const struct connection *c, const struct tcp_info *tcp, int64_t now_mono_ms)
{
    if (!c->had_request)
        return tcp->tcpi_bytes_received > 0;
    return now_mono_ms - (int64_t)tcp->tcpi_last_data_recv > c->waits_since_mono_ms + RECEIVED_SLACK_MS;
}

static bool is_waiting_too_long(struct connection *c, int64_t now_mono_ms)
{
    struct tcp_info tcp;

    if (c->is_excess)
        return now_mono_ms - c->waits_since_mono_ms > CONNECTION_LINGER_MS;
    if (now_mono_ms - c->waits_since_mono_ms > CONNECTION_IDLE_MS)
        return true;
    if (read_tcp(c, &tcp)) {
        if (has_left(c, &tcp))
            return true;
        if (c->head_since_mono_ms == 0 && has_head_begun(c, &tcp, now_mono_ms))
            c->head_since_mono_ms = now_mono_ms;
    }
    return c->head_since_mono_ms != 0 && now_mono_ms - c->head_since_mono_ms > CONNECTION_HEAD_MS;
}

static bool is_stuck(struct connection *c)
{
    int unread_bytes = 0, unsent_bytes = 0;
    struct tcp_info tcp;
    int64_t taken_bytes;
    bool is_as_before;

    if (ioctl(c->fd, SIOCINQ, &unread_bytes) != 0 || ioctl(c->fd, SIOCOUTQ, &unsent_bytes) != 0)
        return false;
    taken_bytes = (read_tcp(c, &tcp) ? (int64_t)tcp.tcpi_bytes_received : 0) - unread_bytes;
    is_as_before = c->had_unread && c->taken_bytes == taken_bytes && c->body_bytes == c->request->body_bytes;
    c->had_unread = unread_bytes > 0;
    c->taken_bytes = taken_bytes;
    c->body_bytes = c->request->body_bytes;
    return is_as_before && unread_bytes > 0 && unsent_bytes == 0; /* a client that does not read is no such case */
}

static bool is_request_too_slow(struct connection *c, int64_t now_mono_ms)
{
    int64_t age_ms = now_mono_ms - c->head_since_mono_ms;
    struct tcp_info tcp;

    switch (c->request->phase) {
    case REQUEST_HEAD:
        return age_ms > CONNECTION_HEAD_MS || (read_tcp(c, &tcp) && has_left(c, &tcp));
    case REQUEST_BODY:
        return age_ms > CONNECTION_REQUEST_MS || is_stuck(c) || (read_tcp(c, &tcp) && has_left(c, &tcp));
    case REQUEST_ANSWERED:
        return age_ms > CONNECTION_REQUEST_MS || is_stuck(c);
    case REQUEST_REFUSED_HEAD:
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

bool connections_have_fallen(struct connections *list)
{
    if (list->peak_count < MANY || list->count > list->peak_count / 4)
        return false;
    list->peak_count = list->count;
    return true;
}
