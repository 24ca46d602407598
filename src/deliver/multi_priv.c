/* Between libcurl's multi interface and the loop.
 *
 * libcurl says which sockets it wants watched and when it wants to be called. It stops watching a connection after each
 * answer and begins again with the next request, which would be two epoll_ctl a request. So a connection, known from
 * the moment when multi_socket() opened it until multi_close_socket(), is rather left with the loop, and only what is
 * called changes. An idle one that becomes readable has been closed by the receiver: it is taken out, and libcurl
 * notices when it is about to use it. */
#include "deliver/multi_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_DESCRIPTORS 64

static void on_socket_ready(void *ctx, int fd, unsigned events)
{
    struct multi *m = ctx;
    int mask = ((events & LOOP_READ) != 0 ? CURL_CSELECT_IN : 0) | ((events & LOOP_WRITE) != 0 ? CURL_CSELECT_OUT : 0);
    int running = 0;

    (void)curl_multi_socket_action(m->handle, fd, mask, &running);
}

static bool is_connection(const struct multi *m, int fd)
{
    return (size_t)fd < m->descriptor_count && m->is_connection[fd];
}

/* The receiver has closed an idle connection, or talks out of turn: libcurl sees it when it is about to use it. */
static void on_idle_ready(void *ctx, int fd, unsigned events)
{
    struct multi *m = ctx;

    (void)events;
    loop_remove(m->loop, fd);
}

/* libcurl watches no more, because the transfer has ended, or because the descriptor is about to be closed. Of those
 * that are no connection (a name lookup has a pair of sockets) the close is not told. */
static void rest(struct multi *m, int fd)
{
    if (is_connection(m, fd))
        loop_set(m->loop, fd, LOOP_READ, on_idle_ready, m);
    else
        loop_remove(m->loop, fd);
}

static int on_socket_change(CURL *easy, curl_socket_t fd, int what, void *clientp, void *socketp)
{
    struct multi *m = clientp;
    unsigned events = 0;

    (void)easy;
    (void)socketp;
    if (what == CURL_POLL_REMOVE) {
        rest(m, fd);
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= LOOP_READ;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= LOOP_WRITE;
    loop_set(m->loop, fd, events, on_socket_ready, m);
    return 0;
}

static int on_timer_change(CURLM *handle, long timeout_ms, void *clientp)
{
    struct multi *m = clientp;

    (void)handle;
    m->timer_mono_us = timeout_ms < 0 ? -1 : clock_mono_us() + (int64_t)timeout_ms * 1000;
    return 0;
}

void multi_init(struct multi *m, struct loop *loop)
{
    *m = (struct multi){.handle = NULL, .loop = loop, .timer_mono_us = -1};
}

enum err multi_open(struct multi *m, long connections)
{
    int failed = 0;

    if (m->handle != NULL)
        return ERR_OK;
    m->handle = curl_multi_init();
    if (m->handle == NULL)
        return ERR_NOMEM;
    failed |= (int)curl_multi_setopt(m->handle, CURLMOPT_SOCKETFUNCTION, on_socket_change);
    failed |= (int)curl_multi_setopt(m->handle, CURLMOPT_SOCKETDATA, m);
    failed |= (int)curl_multi_setopt(m->handle, CURLMOPT_TIMERFUNCTION, on_timer_change);
    failed |= (int)curl_multi_setopt(m->handle, CURLMOPT_TIMERDATA, m);
    failed |= (int)curl_multi_setopt(m->handle, CURLMOPT_MAXCONNECTS, connections);
    /* Of several requests on one HTTP/2 connection, those under way fail when the receiver ends it in good order, as
     * nginx does after 1000: that was up to 1 attempt in 80. And a connection that breaks would fail all of them. */
    failed |= (int)curl_multi_setopt(m->handle, CURLMOPT_MAX_CONCURRENT_STREAMS, 1L);
    if (failed == 0)
        return ERR_OK;
    multi_close(m);
    return ERR_NOMEM;
}

void multi_close(struct multi *m)
{
    if (m->handle != NULL)
        (void)curl_multi_cleanup(m->handle);
    m->handle = NULL;
    m->timer_mono_us = -1;
    free(m->is_connection);
    m->is_connection = NULL;
    m->descriptor_count = 0;
}

static void note_connection(struct multi *m, int fd)
{
    size_t count = m->descriptor_count ? m->descriptor_count : FIRST_DESCRIPTORS;

    while (count <= (size_t)fd)
        count *= 2;
    if (count > m->descriptor_count) {
        m->is_connection = xrealloc(m->is_connection, count * sizeof(*m->is_connection));
        memset(m->is_connection + m->descriptor_count, 0, (count - m->descriptor_count) * sizeof(*m->is_connection));
        m->descriptor_count = count;
    }
    m->is_connection[fd] = true;
}

int multi_socket(struct multi *m, const struct curl_sockaddr *address)
{
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

    if (fd != -1)
        note_connection(m, fd);
    return fd;
}

int multi_close_socket(void *multi, curl_socket_t fd)
{
    struct multi *m = multi;

    if (is_connection(m, fd)) {
        m->is_connection[fd] = false;
        loop_remove(m->loop, fd);
    }
    return close(fd);
}

enum err multi_add(struct multi *m, CURL *easy)
{
    return curl_multi_add_handle(m->handle, easy) == CURLM_OK ? ERR_OK : ERR_NOMEM;
}

void multi_remove(struct multi *m, CURL *easy)
{
    (void)curl_multi_remove_handle(m->handle, easy);
}

void multi_run_timer(struct multi *m)
{
    int running = 0;

    if (m->timer_mono_us == -1 || m->timer_mono_us > clock_mono_us())
        return;
    m->timer_mono_us = -1; /* libcurl tells the next one, if there is one */
    (void)curl_multi_socket_action(m->handle, CURL_SOCKET_TIMEOUT, 0, &running);
}

bool multi_next_done(struct multi *m, void **private_data, CURLcode *code)
{
    CURLMsg *message = NULL;
    char *text = NULL;
    int left = 0;

    while (m->handle != NULL && (message = curl_multi_info_read(m->handle, &left)) != NULL) {
        *code = message->data.result;
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &text) == CURLE_OK) {
            *private_data = text;
            return true;
        }
    }
    return false;
}
