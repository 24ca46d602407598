/* A thread a connection, each a straight line of blocking calls. Destroying shuts every socket down and waits until the
 * last thread has gone; what waits (a slow answer, a hang) does so in poll() on its own socket, so it ends with it. */
#include "hooks.h"
#include "base/clock.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX 16384
#define CONNECTIONS_MAX 2048
#define STACK_BYTES 262144
#define SLOWEST_MS 3000
#define LIMITED_MS 50

#define ADDRESSES 2

struct door {
    struct hooks *hooks;
    int fd;
    pthread_t acceptor;
};

struct hooks {
    struct ledger *ledger;
    struct door doors[ADDRESSES];
    int port;
    pthread_mutex_t lock;
    bool is_stopping; /* these and below: under the lock */
    int fds[CONNECTIONS_MAX];
    int count, strange, limited, busiest;
};

struct guest {
    struct hooks *hooks;
    int fd;
    char bytes[REQUEST_MAX];
    size_t used;
};

/* Read until a request is complete; its length, or 0 when the connection ended. */
static size_t read_request(struct guest *g)
{
    for (;;) {
        g->bytes[g->used] = '\0';
        const char *end = strstr(g->bytes, "\r\n\r\n");
        if (end) {
            const char *length = strcasestr(g->bytes, "\r\ncontent-length:");
            size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
            size_t whole = (size_t)(end - g->bytes) + 4 + body;
            if (whole <= g->used)
                return whole;
        }
        ssize_t n = recv(g->fd, g->bytes + g->used, sizeof(g->bytes) - 1 - g->used, 0);
        if (n <= 0)
            return 0;
        g->used += (size_t)n;
    }
}

/* Wait, or until the gateway closes; whether the connection is still there. */
static bool wait_ms(const struct guest *g, long serial, int64_t ms)
{
    struct pollfd p = {.fd = g->fd, .events = POLLRDHUP};

    if (poll(&p, 1, (int)ms) == 0)
        return true;
    ledger_cut(g->hooks->ledger, serial);
    return false;
}

static bool say(const struct guest *g, int status, const char *headers)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "HTTP/1.1 %d Chaos\r\nContent-Length: 0\r\n%s\r\n", status, headers);

    return send(g->fd, text, (size_t)n, MSG_NOSIGNAL) == n;
}

static bool say_ok(const struct guest *g, long serial)
{
    ledger_success(g->hooks->ledger, serial);
    return say(g, 200, "");
}

static bool reset(const struct guest *g)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt(g->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    return false;
}

/* Answer the n-th request of a task; whether the connection goes on. */
static bool answer(const struct guest *g, long serial, int n)
{
    switch (ledger_read(g->hooks->ledger, serial).behaviour) {
    case BEHAVE_OK:
    case BEHAVE_COUNT:
        return say_ok(g, serial);
    case BEHAVE_FAIL_ONCE:
        return n <= 1 ? say(g, 500, "") : say_ok(g, serial);
    case BEHAVE_FAIL_TWICE:
        return n <= 2 ? say(g, 500, "") : say_ok(g, serial);
    case BEHAVE_SLOW:
        return wait_ms(g, serial, serial * 37 % SLOWEST_MS) && say_ok(g, serial);
    case BEHAVE_HANG_ONCE:
        if (n > 1)
            return say_ok(g, serial);
        (void)wait_ms(g, serial, -1);
        return false;
    case BEHAVE_RESET_ONCE:
        return n <= 1 ? reset(g) : say_ok(g, serial);
    case BEHAVE_BUSY_ONCE:
        return n <= 1 ? say(g, 429, "Retry-After: 1\r\n") : say_ok(g, serial);
    case BEHAVE_GONE:
        return say(g, 410, "");
    case BEHAVE_GONE_ONCE:
        return n <= 1 ? say(g, 410, "") : say_ok(g, serial);
    case BEHAVE_FAIL_ALWAYS:
        return say(g, 500, "");
    }
    return false;
}

static void copy_webhook_id(const char *head, char *out, size_t size)
{
    const char *at = strcasestr(head, "\r\nwebhook-id:");
    size_t n;

    out[0] = '\0';
    if (!at)
        return;
    at += strlen("\r\nwebhook-id:");
    at += strspn(at, " ");
    n = strcspn(at, "\r");
    (void)snprintf(out, size, "%.*s", (int)n, at);
}

static bool refuse(const struct guest *g)
{
    pthread_mutex_lock(&g->hooks->lock);
    g->hooks->strange++;
    pthread_mutex_unlock(&g->hooks->lock);
    return say(g, 404, "");
}

/* "POST /cb/SERIAL HTTP/1.1" with {"type":"task.delivered",...} */
static bool serve_callback(const struct guest *g, long serial)
{
    static const char *const TYPES[END_COUNT] = {
        [END_DELIVERED] = "\"type\":\"task.delivered\"",
        [END_DEAD] = "\"type\":\"task.dead\"",
        [END_EXPIRED] = "\"type\":\"task.expired\"",
    };

    for (int end = 0; end < END_COUNT; end++) {
        if (strstr(g->bytes, TYPES[end]))
            return ledger_told(g->hooks->ledger, serial, (enum end)end) ? say(g, 200, "") : refuse(g);
    }
    return refuse(g);
}

/* "POST /SERIAL HTTP/1.1" */
static bool serve_one(const struct guest *g)
{
    static const char callback[] = "/cb/";
    const char *slash = strchr(g->bytes, '/');
    char id[40];

    if (slash && strncmp(slash, callback, sizeof(callback) - 1) == 0)
        return serve_callback(g, strtol(slash + sizeof(callback) - 1, NULL, 10));
    long serial = slash ? strtol(slash + 1, NULL, 10) : -1;

    copy_webhook_id(g->bytes, id, sizeof(id));
    int n = ledger_request(g->hooks->ledger, serial, id, strstr(g->bytes, "\"version\":2") != NULL);
    return n > 0 ? answer(g, serial, n) : refuse(g);
}

static void add_limited(struct hooks *h, int n)
{
    pthread_mutex_lock(&h->lock);
    h->limited += n;
    if (h->limited > h->busiest)
        h->busiest = h->limited;
    pthread_mutex_unlock(&h->lock);
}

/* A request of the limited queue takes its time, so that several meet. */
static bool serve_counted(const struct guest *g)
{
    struct pollfd p = {.fd = g->fd, .events = POLLRDHUP};

    if (!strcasestr(g->bytes, "\r\nduepost-queue: " LIMITED_QUEUE "\r\n"))
        return serve_one(g);
    add_limited(g->hooks, 1);
    (void)poll(&p, 1, LIMITED_MS);
    /* Its slot is free as soon as the gateway has read the answer, which is before we know that. */
    add_limited(g->hooks, -1);
    return serve_one(g);
}

/* The descriptor leaves the list before it is closed, so that stopping never shuts a stranger down. */
static void leave(struct guest *g)
{
    struct hooks *h = g->hooks;

    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < h->count; i++) {
        if (h->fds[i] == g->fd) {
            h->fds[i] = h->fds[--h->count];
            break;
        }
    }
    close(g->fd);
    pthread_mutex_unlock(&h->lock);
    free(g);
}

static void *serve(void *arg)
{
    struct guest *g = arg;
    size_t n;

    while ((n = read_request(g)) > 0 && serve_counted(g)) {
        memmove(g->bytes, g->bytes + n, g->used - n);
        g->used -= n;
    }
    leave(g);
    return NULL;
}

static bool enter(struct hooks *h, int fd)
{
    bool has_room;

    pthread_mutex_lock(&h->lock);
    has_room = !h->is_stopping && h->count < CONNECTIONS_MAX;
    if (has_room)
        h->fds[h->count++] = fd;
    pthread_mutex_unlock(&h->lock);
    return has_room;
}

static void *accept_all(void *arg)
{
    const struct door *door = arg;
    struct hooks *h = door->hooks;
    pthread_attr_t attr;
    pthread_t thread;
    int fd;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    while ((fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct guest *g = calloc(1, sizeof(*g));
        if (!g)
            abort();
        *g = (struct guest){.hooks = h, .fd = fd};
        if (!enter(h, fd)) {
            close(fd);
            free(g);
        } else if (pthread_create(&thread, &attr, serve, g) != 0) {
            leave(g);
        }
    }
    pthread_attr_destroy(&attr);
    return NULL;
}

/* 127.0.0.1, 127.0.0.2: all at one port, which the first one chooses. */
static void open_door(struct hooks *h, int i)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)i),
                                  .sin_port = htons((uint16_t)h->port)};
    socklen_t length = sizeof(address);
    struct door *d = &h->doors[i];

    d->hooks = h;
    d->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (d->fd < 0 || bind(d->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(d->fd, 1024) != 0 ||
        getsockname(d->fd, (struct sockaddr *)&address, &length) != 0 ||
        pthread_create(&d->acceptor, NULL, accept_all, d) != 0)
        abort();
    h->port = ntohs(address.sin_port);
}

struct hooks *hooks_create(struct ledger *ledger)
{
    struct hooks *h = calloc(1, sizeof(*h));

    if (!h)
        abort();
    h->ledger = ledger;
    pthread_mutex_init(&h->lock, NULL);
    for (int i = 0; i < ADDRESSES; i++)
        open_door(h, i);
    return h;
}

static int end_all(struct hooks *h)
{
    pthread_mutex_lock(&h->lock);
    h->is_stopping = true;
    for (int i = 0; i < h->count; i++)
        shutdown(h->fds[i], SHUT_RDWR);
    int left = h->count;
    pthread_mutex_unlock(&h->lock);
    return left;
}

void hooks_destroy(struct hooks **hooks)
{
    struct hooks *h = *hooks;

    if (!h)
        return;
    for (int i = 0; i < ADDRESSES; i++) {
        shutdown(h->doors[i].fd, SHUT_RDWR);
        pthread_join(h->doors[i].acceptor, NULL);
    }
    while (end_all(h) > 0)
        (void)poll(NULL, 0, 2);
    for (int i = 0; i < ADDRESSES; i++)
        close(h->doors[i].fd);
    pthread_mutex_destroy(&h->lock);
    free(h);
    *hooks = NULL;
}

int hooks_port(const struct hooks *h)
{
    return h->port;
}

int hooks_take_busiest(struct hooks *h)
{
    pthread_mutex_lock(&h->lock);
    int n = h->busiest;
    h->busiest = h->limited;
    pthread_mutex_unlock(&h->lock);
    return n;
}

int hooks_strange(struct hooks *h)
{
    pthread_mutex_lock(&h->lock);
    int n = h->strange;
    pthread_mutex_unlock(&h->lock);
    return n;
}
