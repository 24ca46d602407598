#include "receiver.h"
#include "wait.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* One thread accepts, one thread serves each connection; the lists are under one lock. The end: `is_stopping` is set
 * and every socket is shut down, so each thread comes back from its poll or read and is joined. */

#define ANSWERS_MAX 256
#define CONNECTIONS_MAX 1024
#define REQUESTS_MAX 4096
#define REQUEST_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct connection {
    struct receiver *receiver;
    pthread_t thread;
    int fd; /* -1 once closed; under the lock, since receiver_destroy() shuts it down */
    int number;
};

struct receiver {
    int listen_fd;
    int port;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    bool is_stopping;
    struct receiver_answer answers[ANSWERS_MAX];
    int answer_count, answers_used;
    struct connection *connections[CONNECTIONS_MAX];
    int connection_count;
    struct receiver_request *requests[REQUESTS_MAX];
    int request_count;
};

static const struct receiver_answer default_answer = {
    .steps = {RECEIVER_SAY("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")},
};

static int64_t mono_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* --- the script --- */

void receiver_script(struct receiver *r, const struct receiver_answer *answer)
{
    pthread_mutex_lock(&r->lock);
    assert(r->answer_count < ANSWERS_MAX);
    r->answers[r->answer_count++] = *answer;
    pthread_mutex_unlock(&r->lock);
}

void receiver_script_bytes(struct receiver *r, const char *bytes)
{
    receiver_script(r, &(struct receiver_answer){.steps = {RECEIVER_SAY(bytes)}});
}

/* The next answer, if it begins at `when` or `when` is not asked about; it is used up then. */
static bool take_answer(struct receiver *r, bool at_accept, struct receiver_answer *out)
{
    bool have = false;

    pthread_mutex_lock(&r->lock);
    *out = default_answer;
    if (r->answers_used < r->answer_count) {
        *out = r->answers[r->answers_used];
        have = !at_accept || out->when == RECEIVER_AT_ACCEPT;
        r->answers_used += have;
    }
    pthread_mutex_unlock(&r->lock);
    return have;
}

/* --- a connection --- */

/* Wait for readability; false after `ms` (-1: none). */
static bool wait_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) > 0;
}

/* Read and drop until the peer closes. */
static void drain(int fd, int ms)
{
    char sink[4096];
    int64_t end_us = mono_us() + (int64_t)ms * 1000;

    for (;;) {
        int left = ms < 0 ? -1 : (int)((end_us - mono_us()) / 1000);
        if (ms >= 0 && left <= 0)
            return;
        if (wait_readable(fd, left) && read(fd, sink, sizeof(sink)) <= 0)
            return;
    }
}

static bool send_all(int fd, const char *bytes)
{
    size_t n = strlen(bytes);

    for (size_t sent = 0; sent < n;) {
        ssize_t k = send(fd, bytes + sent, n - sent, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        sent += (size_t)k;
    }
    return true;
}

static void reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

/* Run the steps. True when the connection goes on. */
static bool run_steps(int fd, const struct receiver_answer *answer)
{
    for (int i = 0; i < RECEIVER_STEPS_MAX; i++) {
        const struct receiver_step *s = &answer->steps[i];
        switch (s->action) {
        case RECEIVER_END:
            return true;
        case RECEIVER_SEND:
            if (!send_all(fd, s->bytes))
                return false;
            break;
        case RECEIVER_FLOOD:
            while (send_all(fd, s->bytes)) {
            }
            return false;
        case RECEIVER_PAUSE:
            (void)poll(NULL, 0, s->ms);
            break;
        case RECEIVER_HALF_CLOSE:
            (void)shutdown(fd, SHUT_WR);
            drain(fd, -1);
            return false;
        case RECEIVER_HANG:
            drain(fd, -1);
            return false;
        case RECEIVER_RESET:
            reset(fd);
            return false;
        case RECEIVER_CLOSE:
            return false;
        }
    }
    return true;
}

/* Read until `have` reaches `want` bytes or, with `want` 0, until the head is complete. False when the peer ends. */
static bool read_more(int fd, struct receiver_request *q, size_t want)
{
    for (;;) {
        ssize_t k = 0;
        const char *end = strstr(q->bytes, "\r\n\r\n");
        if (want == 0 && end != NULL) {
            q->head_bytes = (size_t)(end - q->bytes) + 4;
            q->at_mono_us = mono_us();
            return true;
        }
        if (want > 0 && q->bytes_count >= want)
            return true;
        if (q->bytes_count + 65537 > REQUEST_BYTES_MAX)
            return false;
        q->bytes = realloc(q->bytes, q->bytes_count + 65537);
        assert(q->bytes != NULL);
        k = read(fd, q->bytes + q->bytes_count,
                 want > 0 && want - q->bytes_count < 65536 ? want - q->bytes_count : 65536);
        if (k <= 0)
            return false;
        q->bytes_count += (size_t)k;
        q->bytes[q->bytes_count] = '\0';
    }
}

static struct receiver_request *read_head(struct connection *c)
{
    struct receiver_request *q = calloc(1, sizeof(*q));

    assert(q != NULL);
    q->bytes = calloc(1, 1);
    q->connection = c->number;
    if (q->bytes != NULL && read_more(c->fd, q, 0))
        return q;
    free(q->bytes);
    free(q);
    return NULL;
}

static void record(struct receiver *r, struct receiver_request *q)
{
    pthread_mutex_lock(&r->lock);
    assert(r->request_count < REQUESTS_MAX);
    r->requests[r->request_count++] = q;
    pthread_mutex_unlock(&r->lock);
}

/* One request and its answer. True when the connection goes on. */
static bool serve_request(struct connection *c)
{
    struct receiver_answer answer;
    struct receiver_request *q = read_head(c);
    char length[32];

    if (q == NULL)
        return false;
    (void)take_answer(c->receiver, false, &answer);
    if (answer.when == RECEIVER_AFTER_REQUEST) {
        size_t body = (size_t)strtoul(receiver_header(q, "Content-Length", length, sizeof(length)), NULL, 10);
        bool is_whole = body == 0 || read_more(c->fd, q, q->head_bytes + body);
        record(c->receiver, q);
        if (!is_whole)
            return false;
    } else {
        record(c->receiver, q);
    }
    return run_steps(c->fd, &answer);
}

static void *serve(void *ctx)
{
    struct connection *c = ctx;
    struct receiver_answer answer;
    int fd = c->fd;

    if (take_answer(c->receiver, true, &answer)) {
        (void)run_steps(fd, &answer);
    } else {
        while (serve_request(c)) {
        }
    }
    pthread_mutex_lock(&c->receiver->lock);
    c->fd = -1;
    (void)close(fd);
    pthread_mutex_unlock(&c->receiver->lock);
    return NULL;
}

/* --- the receiver --- */

static void begin_connection(struct receiver *r, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));

    assert(c != NULL);
    pthread_mutex_lock(&r->lock);
    assert(r->connection_count < CONNECTIONS_MAX);
    *c = (struct connection){.receiver = r, .fd = fd, .number = r->connection_count};
    if (r->is_stopping || pthread_create(&c->thread, NULL, serve, c) != 0) {
        (void)close(fd);
        free(c);
    } else {
        r->connections[r->connection_count++] = c;
    }
    pthread_mutex_unlock(&r->lock);
}

static void *accept_all(void *ctx)
{
    struct receiver *r = ctx;
    int fd = -1;

    while ((fd = accept(r->listen_fd, NULL, NULL)) != -1 || errno == ECONNABORTED || errno == EINTR)
        if (fd != -1)
            begin_connection(r, fd);
    return NULL;
}

struct receiver *receiver_create(void)
{
    struct receiver *r = calloc(1, sizeof(*r));
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(sa);
    bool is_up = false;

    assert(r != NULL);
    (void)pthread_mutex_init(&r->lock, NULL);
    r->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_up = bind(r->listen_fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && listen(r->listen_fd, 1024) == 0 &&
            getsockname(r->listen_fd, (struct sockaddr *)&sa, &size) == 0 &&
            pthread_create(&r->thread, NULL, accept_all, r) == 0;
    assert(is_up);
    (void)is_up;
    r->port = ntohs(sa.sin_port);
    (void)snprintf(r->url, sizeof(r->url), "http://127.0.0.1:%d/hook", r->port);
    return r;
}

static void stop_connections(struct receiver *r)
{
    pthread_mutex_lock(&r->lock);
    r->is_stopping = true;
    for (int i = 0; i < r->connection_count; i++)
        if (r->connections[i]->fd != -1)
            (void)shutdown(r->connections[i]->fd, SHUT_RDWR);
    pthread_mutex_unlock(&r->lock);
}

void receiver_destroy(struct receiver **r)
{
    if (*r == NULL)
        return;
    (void)shutdown((*r)->listen_fd, SHUT_RDWR);
    (void)pthread_join((*r)->thread, NULL);
    stop_connections(*r);
    for (int i = 0; i < (*r)->connection_count; i++) {
        (void)pthread_join((*r)->connections[i]->thread, NULL);
        free((*r)->connections[i]);
    }
    for (int i = 0; i < (*r)->request_count; i++) {
        free((*r)->requests[i]->bytes);
        free((*r)->requests[i]);
    }
    (void)close((*r)->listen_fd);
    (void)pthread_mutex_destroy(&(*r)->lock);
    free(*r);
    *r = NULL;
}

int receiver_port(const struct receiver *r)
{
    return r->port;
}

const char *receiver_url(const struct receiver *r)
{
    return r->url;
}

/* --- what came --- */

int receiver_count(struct receiver *r)
{
    int count = 0;

    pthread_mutex_lock(&r->lock);
    count = r->request_count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

int receiver_connection_count(struct receiver *r)
{
    int count = 0;

    pthread_mutex_lock(&r->lock);
    count = r->connection_count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

int receiver_open_count(struct receiver *r)
{
    int count = 0;

    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->connection_count; i++)
        count += r->connections[i]->fd != -1;
    pthread_mutex_unlock(&r->lock);
    return count;
}

void receiver_wait(struct receiver *r, int count)
{
    WAIT_UNTIL(receiver_count(r) >= count, 5000);
}

const struct receiver_request *receiver_request(struct receiver *r, int i)
{
    const struct receiver_request *q = NULL;

    receiver_wait(r, i + 1);
    pthread_mutex_lock(&r->lock);
    q = r->requests[i];
    pthread_mutex_unlock(&r->lock);
    return q;
}

/* The value of a header line that begins at `line`, when it has that name. */
static const char *value_of(const char *line, const char *name)
{
    size_t n = strlen(name);

    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " ");
}

const char *receiver_header(const struct receiver_request *q, const char *name, char *out, size_t size)
{
    const char *end = q->bytes + q->head_bytes - 2;

    out[0] = '\0';
    for (const char *line = strstr(q->bytes, "\r\n"); line != NULL && line < end; line = strstr(line + 2, "\r\n")) {
        const char *value = value_of(line + 2, name);
        if (value != NULL) {
            (void)snprintf(out, size, "%.*s", (int)strcspn(value, "\r"), value);
            break;
        }
    }
    return out;
}

int receiver_header_count(const struct receiver_request *q, const char *name)
{
    const char *end = q->bytes + q->head_bytes - 2;
    int count = 0;

    for (const char *line = strstr(q->bytes, "\r\n"); line != NULL && line < end; line = strstr(line + 2, "\r\n"))
        count += value_of(line + 2, name) != NULL;
    return count;
}
