#ifndef CHAOS_AGENT_H
#define CHAOS_AGENT_H

#include "../support/random.h"
#include "ask.h"
#include "plans.h"
#include "traffic.h"
#include <pthread.h>
#include <stdatomic.h>

/* What the files of the clients share: traffic.c, which posts and reads, and deeds.c, which changes tasks. */

#define THREADS 7
#define INSIST_MS 25000 /* how long a task is posted, and a change repeated */

struct traffic {
    struct nodes *nodes;
    struct ledger *ledger;
    int hooks_port, per_second;
    uint64_t seed;
    atomic_bool is_running, is_ending;
    atomic_int phase, busy, next_thread;
    pthread_t threads[THREADS];
    struct plans *plans;
    pthread_mutex_t lock;
    struct traffic_counts counts; /* under the lock */
};

/* One thread's own things. */
struct agent {
    struct traffic *traffic;
    struct random random;
    struct ask *ask;
};

#define COUNT(t, field)                   \
    do {                                  \
        pthread_mutex_lock(&(t)->lock);   \
        (t)->counts.field++;              \
        pthread_mutex_unlock(&(t)->lock); \
    } while (0)

/* An answer that no fault explains. */
void agent_report_wrong(struct agent *a, const char *what, long serial, int status);

/* Send to any gateway. Its slowness counts when nothing was done to that gateway itself meanwhile. */
int agent_send(struct agent *a, const char *method, const char *path, const char *body);

/* The same again and again, until the answer is definite or INSIST_MS are over: then 0 or 503. */
int agent_insist(struct agent *a, const char *method, const char *path, const char *body);

/* Do what is planned next, if its moment is near; whether something was done. */
bool agent_do_deed(struct agent *a);

#endif
