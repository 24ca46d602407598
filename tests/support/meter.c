/* One thread with epoll. A connection holds the bytes of the request that is coming and, once its head and body are
 * complete, the time when it is to be answered; the waiting ones are few, so they are looked through each turn. A
 * client that closes before its answer is not under way any more. */
#include "meter.h"
#include "base/mem.h"
#include "wait.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES_MAX 16384
#define EVENTS_MAX 64
#define TURN_MS 100

struct connection {
    struct connection *next, **link;
    int fd;
    bool is_waiting;
    int64_t answer_mono_ms;
    char bytes[BYTES_MAX];
    size_t count;
};

struct meter {
    int epoll_fd, listen_fd, stop_fd;
    char url[64];
    pthread_t thread;
    struct connection *connections; /* the thread's */
    pthread_mutex_t lock;
    int hold_ms, status; /* these and all below: under the lock */
    int under_way, peak;
    struct meter_arrival *arrivals;
    size_t count, capacity;
};

static void watch(struct meter *m, int fd, void *what)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = what};

    if (epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0)
        abort();
}

static void set_waiting(struct meter *m, struct connection *c, bool is_waiting)
{
    if (c->is_waiting == is_waiting)
        return;
    c->is_waiting = is_waiting;
    m->under_way += is_waiting ? 1 : -1;
    if (m->under_way > m->peak)
        m->peak = m->under_way;
}

static void note_arrival(struct meter *m, struct connection *c)
{
    size_t method = strcspn(c->bytes, " ") + 1;
    size_t path = strcspn(c->bytes + method, " ");

    (void)pthread_mutex_lock(&m->lock);
    set_waiting(m, c, true);
    c->answer_mono_ms = wait_mono_ms() + m->hold_ms;
    if (m->count == m->capacity) {
        m->capacity = m->capacity ? m->capacity * 2 : 1024;
        m->arrivals = xrealloc(m->arrivals, m->capacity * sizeof(*m->arrivals));
    }
    struct meter_arrival *a = &m->arrivals[m->count++];
    a->at_us = wait_wall_us();
    a->under_way = m->under_way;
    (void)snprintf(a->path, sizeof(a->path), "%.*s", (int)path, c->bytes + method);
    (void)pthread_mutex_unlock(&m->lock);
}

/* How long the request at the start is, head and body; 0 when it is not complete. */
static size_t request_bytes(const struct connection *c)
{
    const char *end = strstr(c->bytes, "\r\n\r\n");
    const char *length = strcasestr(c->bytes, "\r\nContent-Length:");

    if (!end)
        return 0;
    size_t n = (size_t)(end - c->bytes) + 4;
    if (length && length < end)
        n += strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    return c->count >= n ? n : 0;
}

static void close_connection(struct meter *m, struct connection *c)
{
    (void)pthread_mutex_lock(&m->lock);
    set_waiting(m, c, false);
    (void)pthread_mutex_unlock(&m->lock);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    (void)close(c->fd);
    free(c);
}

static void read_some(struct meter *m, struct connection *c)
{
    ssize_t got = recv(c->fd, c->bytes + c->count, sizeof(c->bytes) - 1 - c->count, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close_connection(m, c);
        return;
    }
    c->count += (size_t)got;
    c->bytes[c->count] = '\0';
    size_t n = request_bytes(c);
    if (n == 0)
        return;
    note_arrival(m, c);
    memmove(c->bytes, c->bytes + n, c->count - n + 1);
    c->count -= n;
}

static void accept_one(struct meter *m)
{
    int fd = accept(m->listen_fd, NULL, NULL), on = 1;

    if (fd < 0)
        return;
    struct connection *c = xcalloc(1, sizeof(*c));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->fd = fd;
    c->next = m->connections;
    c->link = &m->connections;
    if (c->next)
        c->next->link = &c->next;
    m->connections = c;
    watch(m, fd, c);
}

/* Answer those whose time has come; the time in ms until the next one. */
static int answer_due(struct meter *m)
{
    int64_t now = wait_mono_ms(), next = now + TURN_MS;
    char text[96];

    for (struct connection *c = m->connections, *following; c; c = following) {
        following = c->next;
        if (!c->is_waiting)
            continue;
        if (c->answer_mono_ms > now) {
            next = c->answer_mono_ms < next ? c->answer_mono_ms : next;
            continue;
        }
        (void)pthread_mutex_lock(&m->lock);
        set_waiting(m, c, false); /* before the answer: who has it may send the next one at once */
        int n = snprintf(text, sizeof(text), "HTTP/1.1 %d Some\r\nContent-Length: 0\r\n\r\n", m->status);
        (void)pthread_mutex_unlock(&m->lock);
        if (send(c->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
            close_connection(m, c);
    }
    return (int)(next - now);
}

static void *run(void *ctx)
{
    struct meter *m = ctx;
    struct epoll_event events[EVENTS_MAX];

    for (;;) {
        int n = epoll_wait(m->epoll_fd, events, EVENTS_MAX, answer_due(m));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &m->stop_fd)
                return NULL;
            if (events[i].data.ptr == m)
                accept_one(m);
            else
                read_some(m, events[i].data.ptr);
        }
    }
}

struct meter *meter_create(int hold_ms)
{
    struct meter *m = xcalloc(1, sizeof(*m));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    m->hold_ms = hold_ms;
    m->status = 200;
    m->epoll_fd = epoll_create1(0);
    m->stop_fd = eventfd(0, 0);
    m->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(m->listen_fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(m->listen_fd, SOMAXCONN), 0);
    cr_assert_eq(getsockname(m->listen_fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(m->url, sizeof(m->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    watch(m, m->listen_fd, m);
    watch(m, m->stop_fd, &m->stop_fd);
    cr_assert_eq(pthread_mutex_init(&m->lock, NULL), 0);
    cr_assert_eq(pthread_create(&m->thread, NULL, run, m), 0);
    return m;
}

void meter_destroy(struct meter **meter)
{
    struct meter *m = *meter;
    uint64_t one = 1;

    if (!m)
        return;
    *meter = NULL;
    if (write(m->stop_fd, &one, sizeof(one)) != sizeof(one))
        abort();
    (void)pthread_join(m->thread, NULL);
    while (m->connections)
        close_connection(m, m->connections);
    (void)close(m->listen_fd);
    (void)close(m->stop_fd);
    (void)close(m->epoll_fd);
    (void)pthread_mutex_destroy(&m->lock);
    free(m->arrivals);
    free(m);
}

const char *meter_url(const struct meter *m)
{
    return m->url;
}

void meter_set_hold(struct meter *m, int hold_ms)
{
    (void)pthread_mutex_lock(&m->lock);
    m->hold_ms = hold_ms;
    (void)pthread_mutex_unlock(&m->lock);
}

void meter_set_status(struct meter *m, int status)
{
    (void)pthread_mutex_lock(&m->lock);
    m->status = status;
    (void)pthread_mutex_unlock(&m->lock);
}

size_t meter_arrivals(struct meter *m, const char *prefix, struct meter_arrival **out)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&m->lock);
    *out = xcalloc(m->count + 1, sizeof(**out));
    for (size_t i = 0; i < m->count; i++)
        if (strncmp(m->arrivals[i].path, prefix, strlen(prefix)) == 0)
            (*out)[n++] = m->arrivals[i];
    (void)pthread_mutex_unlock(&m->lock);
    return n;
}

size_t meter_count(struct meter *m, const char *prefix)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->count; i++)
        n += strncmp(m->arrivals[i].path, prefix, strlen(prefix)) == 0;
    (void)pthread_mutex_unlock(&m->lock);
    return n;
}

int meter_under_way(struct meter *m)
{
    (void)pthread_mutex_lock(&m->lock);
    int n = m->under_way;
    (void)pthread_mutex_unlock(&m->lock);
    return n;
}

int meter_take_peak(struct meter *m)
{
    (void)pthread_mutex_lock(&m->lock);
    int peak = m->peak;
    m->peak = m->under_way;
    (void)pthread_mutex_unlock(&m->lock);
    return peak;
}
