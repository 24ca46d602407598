#include "base/thread.h"
#include "base/mem.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>

#define NAME_SIZE 16 /* the kernel's limit, with the NUL */

struct thread {
    pthread_t id;
    void (*fn)(void *ctx);
    void *ctx;
    char name[NAME_SIZE];
};

static void *run(void *arg)
{
    struct thread *t = arg;

    (void)pthread_setname_np(pthread_self(), t->name);
    t->fn(t->ctx);
    return NULL;
}

enum err thread_start(const char *name, void (*fn)(void *ctx), void *ctx, struct thread **out)
{
    struct thread *t = xcalloc(1, sizeof(*t));
    sigset_t all;
    sigset_t before;
    int rc = 0;

    *out = NULL;
    t->fn = fn;
    t->ctx = ctx;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);

    /* A thread inherits the mask of its creator: block everything around the creation, so that no signal can
     * reach it even in its first instants. */
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&t->id, NULL, run, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(t);
        return ERR_IO;
    }
    *out = t;
    return ERR_OK;
}

void thread_join(struct thread **t)
{
    if (!*t)
        return;
    (void)pthread_join((*t)->id, NULL);
    free(*t);
    *t = NULL;
}
