#ifndef SUPPORT_POOL_FIXTURE_H
#define SUPPORT_POOL_FIXTURE_H

#include "deliver/pool.h"
#include "receiver.h"

/* A pool in a loop, its results kept in the order of their arrival, and a receiver beside it. */

#define POOL_FIXTURE_RESULTS 512
#define POOL_FIXTURE_SECRET "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"
#define POOL_FIXTURE_OTHER_SECRET "whsec_TkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkU="

struct pool_fixture_opts {
    const char *allow_net; /* NULL: 127.0.0.0/8,::1 */
    const char *secrets;   /* NULL: none */
    const char *ca_file;   /* NULL: the system's */
    int capacity;          /* 0: 256 */
};

struct pool_fixture {
    struct loop *loop;
    struct pool *pool;
    struct receiver *receiver;
    struct cidr_list allow_net;
    struct endpoint_list own; /* empty */
    struct signature_secrets secrets;
    struct webhook_result results[POOL_FIXTURE_RESULTS];
    void *owners[POOL_FIXTURE_RESULTS];
    int done;
    /* Called in on_done, when set. */
    void (*then)(struct pool_fixture *f);
};

struct pool_fixture *pool_fixture_create(const struct pool_fixture_opts *opts); /* NULL: all defaults */
void pool_fixture_destroy(struct pool_fixture **f);

/* A task to `url` (NULL: the receiver) with id "task-1", POST, no body, a timeout of 5 s. task_destroy(). */
struct task *pool_fixture_task(struct pool_fixture *f, const char *url);
void pool_fixture_add_header(struct task *t, const char *name, const char *value);
void pool_fixture_set_body(struct task *t, enum task_body_kind kind, const char *body, size_t n);

/* Begin an attempt, which must be possible. The task is its owner. */
void pool_fixture_start(struct pool_fixture *f, const struct task *t, bool is_last);

/* One turn of the loop, of at most 20 ms. */
void pool_fixture_turn(struct pool_fixture *f);

/* Turn the loop until so many attempts have ended; fails the test after 20 s (scaled). */
void pool_fixture_wait(struct pool_fixture *f, int done);

/* One attempt from start to end; the result is borrowed. */
const struct webhook_result *pool_fixture_send(struct pool_fixture *f, const struct task *t);
const struct webhook_result *pool_fixture_send_last(struct pool_fixture *f, const struct task *t);

/* Send a task to the receiver, which answers with these bytes. */
const struct webhook_result *pool_fixture_answered(struct pool_fixture *f, const struct receiver_answer *answer);

#endif
