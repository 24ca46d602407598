#include "deliver/multi_priv.h"
#include "base/clock.h"

static void on_socket_ready(void *ctx, int fd, unsigned events)
{
    struct multi *m = ctx;
    int mask = ((events & LOOP_READ) != 0 ? CURL_CSELECT_IN : 0) | ((events & LOOP_WRITE) != 0 ? CURL_CSELECT_OUT : 0);
    int running = 0;

    (void)curl_multi_socket_action(m->handle, fd, mask, &running);
}

static int on_socket_change(CURL *easy, curl_socket_t fd, int what, void *clientp, void *socketp)
{
    struct multi *m = clientp;
    unsigned events = 0;

    (void)easy;
    (void)socketp;
    if (what == CURL_POLL_REMOVE) {
        loop_remove(m->loop, fd);
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
