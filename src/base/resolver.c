#include "base/resolver.h"

#include "base/loop.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A lookup that hangs cannot be ended, so its thread is detached and shares a counted state with the owner: whoever
 * lets go last frees it. */

#define ADDRESSES_MAX 16

struct lookup {
    pthread_mutex_t lock;
    int holders;       /* all under lock from here */
    struct loop *loop; /* NULL once the owner is gone */
    enum resolver_result result;
    char addresses[ADDRESSES_MAX][RESOLVER_ADDRESS_SIZE];
    size_t count;
    char why[RESOLVER_WHY_SIZE];
    char host[]; /* constant */
};

struct resolver {
    char *host;
    struct loop *loop;
    struct lookup *lookup; /* the last one; NULL: none yet */
    size_t next;
};

static void release(struct lookup *l)
{
    bool is_last;

    (void)pthread_mutex_lock(&l->lock);
    is_last = --l->holders == 0;
    (void)pthread_mutex_unlock(&l->lock);
    if (is_last) {
        (void)pthread_mutex_destroy(&l->lock);
        free(l);
    }
}

static void add_addresses(struct lookup *l, const struct addrinfo *list, int family)
{
    for (const struct addrinfo *a = list; a && l->count < ADDRESSES_MAX; a = a->ai_next) {
        char *text = l->addresses[l->count];

        if (a->ai_family == family &&
            getnameinfo(a->ai_addr, a->ai_addrlen, text, RESOLVER_ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST) == 0)
            l->count++;
    }
}

static void look_up(struct lookup *l, int flags)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list = NULL;
    int code = getaddrinfo(l->host, NULL, &hints, &list);

    (void)pthread_mutex_lock(&l->lock);
    if (code == 0) {
        add_addresses(l, list, AF_INET);
        add_addresses(l, list, AF_INET6);
    }
    l->result = l->count > 0 ? RESOLVER_FOUND : RESOLVER_FAILED;
    (void)snprintf(l->why, sizeof(l->why), "%s", code != 0 ? gai_strerror(code) : "the name has no address");
    if (l->loop)
        loop_wake(l->loop);
    (void)pthread_mutex_unlock(&l->lock);
    if (list)
        freeaddrinfo(list);
}

static void *run(void *ctx)
{
    struct lookup *l = ctx;

    look_up(l, 0);
    release(l);
    return NULL;
}

static bool start_thread(struct lookup *l)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    bool is_started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the main thread alone handles signals */
    is_started = pthread_create(&thread, &attributes, run, l) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return is_started;
}

static struct lookup *lookup_create(const char *host, struct loop *loop)
{
    size_t host_size = strlen(host) + 1;
    struct lookup *l = xcalloc(1, sizeof(*l) + host_size);

    if (pthread_mutex_init(&l->lock, NULL) != 0)
        abort();
    memcpy(l->host, host, host_size);
    l->holders = 1;
    l->loop = loop;
    return l;
}

struct resolver *resolver_create(const char *host, struct loop *loop)
{
    struct resolver *r = xcalloc(1, sizeof(*r));

    r->host = xstrdup(host);
    r->loop = loop;
    return r;
}

static void let_go(struct resolver *r)
{
    if (!r->lookup)
        return;
    (void)pthread_mutex_lock(&r->lookup->lock);
    r->lookup->loop = NULL;
    (void)pthread_mutex_unlock(&r->lookup->lock);
    release(r->lookup);
    r->lookup = NULL;
}

void resolver_destroy(struct resolver **r)
{
    if (!*r)
        return;
    let_go(*r);
    free((*r)->host);
    free(*r);
    *r = NULL;
}

static bool is_numeric(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static enum resolver_result result_of(struct lookup *l)
{
    enum resolver_result result;

    (void)pthread_mutex_lock(&l->lock);
    result = l->result;
    (void)pthread_mutex_unlock(&l->lock);
    return result;
}

void resolver_begin(struct resolver *r)
{
    if (r->lookup && result_of(r->lookup) == RESOLVER_PENDING)
        return;
    let_go(r);
    r->lookup = lookup_create(r->host, r->loop);
    if (is_numeric(r->host)) {
        look_up(r->lookup, AI_NUMERICHOST);
        return;
    }
    r->lookup->holders++;
    if (!start_thread(r->lookup)) {
        r->lookup->holders--;
        r->lookup->result = RESOLVER_FAILED;
        (void)snprintf(r->lookup->why, sizeof(r->lookup->why), "there is no thread left to look up the name");
    }
}

enum resolver_result resolver_look(struct resolver *r, char address[RESOLVER_ADDRESS_SIZE], char why[RESOLVER_WHY_SIZE])
{
    struct lookup *l = r->lookup;
    enum resolver_result result = l ? result_of(l) : RESOLVER_PENDING;

    if (result == RESOLVER_FOUND)
        memcpy(address, l->addresses[r->next++ % l->count], RESOLVER_ADDRESS_SIZE);
    else if (result == RESOLVER_FAILED)
        memcpy(why, l->why, RESOLVER_WHY_SIZE);
    return result;
}
