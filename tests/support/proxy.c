/* One thread, one poll() over all pairs of sockets; writes block, which is fine for a test's few bytes. */
#include "proxy.h"
#include "tmpdir.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define LOOK_MS 20

struct pair {
    int client, server; /* -1: ended */
    int kinds;          /* of proxy_kind, by what the client has sent */
    bool is_silent;
};

struct proxy {
    char *dir, *path, *url, *target;
    int listener;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    struct pair pairs[PAIRS_MAX];
    int pair_count;
    bool is_stopping;
};

static int unix_socket(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    cr_assert_lt(strlen(path), sizeof(address->sun_path));
    memcpy(address->sun_path, path, strlen(path) + 1);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void end_pair(struct pair *p)
{
    if (p->client >= 0)
        close(p->client);
    if (p->server >= 0)
        close(p->server);
    p->client = p->server = -1;
}

static void open_pair(struct proxy *p)
{
    struct sockaddr_un address;
    struct pair new = {.client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC),
                       .server = unix_socket(p->target, &address)};

    if (p->pair_count == PAIRS_MAX || new.client < 0 ||
        connect(new.server, (const struct sockaddr *)&address, sizeof(address)) != 0)
        end_pair(&new);
    else
        p->pairs[p->pair_count++] = new;
}

static void note_kind(struct pair *p, const char *bytes, size_t n)
{
    if (memmem(bytes, n, "SUBSCRIBE", strlen("SUBSCRIBE")))
        p->kinds |= PROXY_WAKE;
    if (memmem(bytes, n, "XREADGROUP", strlen("XREADGROUP")))
        p->kinds |= PROXY_READER;
}

static void pass(struct pair *p, bool is_from_client)
{
    char bytes[16384];
    ssize_t n = recv(is_from_client ? p->client : p->server, bytes, sizeof(bytes), 0);

    if (!is_from_client && p->is_silent) {
        if (n <= 0) {
            close(p->server);
            p->server = -1; /* the client is not told */
        }
        return;
    }
    if (n > 0 && is_from_client)
        note_kind(p, bytes, (size_t)n);
    if (n <= 0 || send(is_from_client ? p->server : p->client, bytes, (size_t)n, MSG_NOSIGNAL) != n)
        end_pair(p);
}

static void turn(struct proxy *p)
{
    struct pollfd fds[2 * PAIRS_MAX + 1] = {{.fd = p->listener, .events = POLLIN}};
    int count = p->pair_count;

    for (int i = 0; i < count; i++) {
        fds[2 * i + 1] = (struct pollfd){.fd = p->pairs[i].client, .events = POLLIN};
        fds[2 * i + 2] = (struct pollfd){.fd = p->pairs[i].server, .events = POLLIN};
    }
    pthread_mutex_unlock(&p->lock);
    (void)poll(fds, (nfds_t)(2 * count + 1), LOOK_MS);
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < count; i++) {
        if (fds[2 * i + 1].revents && p->pairs[i].client >= 0)
            pass(&p->pairs[i], true);
        if (fds[2 * i + 2].revents && p->pairs[i].server >= 0)
            pass(&p->pairs[i], false);
    }
    if (fds[0].revents)
        open_pair(p);
}

static void *run(void *arg)
{
    struct proxy *p = arg;

    pthread_mutex_lock(&p->lock);
    while (!p->is_stopping)
        turn(p);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct proxy *proxy_create(const char *target_socket)
{
    struct proxy *p = calloc(1, sizeof(*p));
    struct sockaddr_un address;

    cr_assert_not_null(p);
    p->target = strdup(target_socket);
    p->dir = tmpdir_create();
    p->path = tmpdir_path(p->dir, "proxy.sock");
    cr_assert(asprintf(&p->url, "unix://%s", p->path) > 0);
    p->listener = unix_socket(p->path, &address);
    cr_assert_eq(bind(p->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(p->listener, 64), 0);
    cr_assert_eq(pthread_mutex_init(&p->lock, NULL), 0);
    cr_assert_eq(pthread_create(&p->thread, NULL, run, p), 0);
    return p;
}

void proxy_destroy(struct proxy **proxy)
{
    struct proxy *p = *proxy;

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < p->pair_count; i++)
        end_pair(&p->pairs[i]);
    close(p->listener);
    pthread_mutex_destroy(&p->lock);
    tmpdir_destroy(&p->dir);
    free(p->path);
    free(p->url);
    free(p->target);
    free(p);
    *proxy = NULL;
}

const char *proxy_url(const struct proxy *p)
{
    return p->url;
}

int proxy_silence(struct proxy *p, enum proxy_kind kind)
{
    int count = 0;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->pair_count; i++) {
        struct pair *pair = &p->pairs[i];
        if (pair->client >= 0 && (pair->kinds & (int)kind) != 0) {
            pair->is_silent = true;
            count++;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return count;
}
