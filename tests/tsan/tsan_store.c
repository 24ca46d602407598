#include "../support/plain.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/embedded.h"
#include "store/store.h"
#include <ftw.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The store's thread against several submitters on a real Redis, while scripts are forgotten and connections are cut:
 * every operation comes back once, to its owner, with an answer to it. */

#define CLIENTS 4
#define ROUNDS 150
#define TIMEOUT_MS 20000
#define FAULTS 12

struct client {
    struct store *store;
    struct queue *answers; /* to this client alone */
    int number;
    int wrong;
};

struct ask {
    struct store_op op; /* first member */
    char id[32];
};

static atomic_llong scheduled;

static void on_scheduled(void *ctx, int64_t due_at_ms)
{
    (void)ctx;
    atomic_store(&scheduled, due_at_ms);
}

static void on_done(struct store_op *op)
{
    struct client *c = op->owner;

    queue_push(c->answers, &op->node);
}

/* Submit and wait for it on the client's own queue. */
static enum err ask_now(struct client *c, struct ask *a, enum store_kind kind)
{
    struct queue_node *n = NULL;

    a->op.kind = kind;
    a->op.id = a->id;
    a->op.done = on_done;
    a->op.owner = c;
    a->op.deadline_mono_ms = clock_mono_ms() + TIMEOUT_MS;
    store_submit(c->store, &a->op);
    while (!n)
        n = queue_take_all(c->answers);
    c->wrong += n != &a->op.node || n->next != NULL;
    return a->op.err;
}

static void end_ask(struct ask *a)
{
    task_destroy(&a->op.task);
    task_destroy(&a->op.existing);
    store_stats_destroy(&a->op.stats);
}

static void run_round(struct client *c, int round)
{
    struct ask create = {0}, get = {0}, cancel = {0}, stats = {0};

    (void)snprintf(create.id, sizeof(create.id), "c%d-%d", c->number, round);
    memcpy(get.id, create.id, sizeof(get.id));
    memcpy(cancel.id, create.id, sizeof(cancel.id));
    create.op.task = task_create();
    create.op.task->id = xstrdup(create.id);
    create.op.task->url = xstrdup("http://receiver/");
    create.op.task->due_ms = 3600000;
    c->wrong += ask_now(c, &create, STORE_CREATE) != ERR_OK;
    c->wrong += ask_now(c, &get, STORE_GET) != ERR_OK || strcmp(get.op.task->id, create.id) != 0;
    c->wrong += ask_now(c, &cancel, STORE_CANCEL) != ERR_OK || cancel.op.state != TASK_CANCELLED;
    if (round % 10 == 0)
        c->wrong += ask_now(c, &stats, STORE_STATS) != ERR_OK || stats.op.stats->created == 0;
    end_ask(&create);
    end_ask(&get);
    end_ask(&cancel);
    end_ask(&stats);
}

static void run_client(void *ctx)
{
    struct client *c = ctx;

    for (int i = 0; i < ROUNDS; i++)
        run_round(c, i);
}

static void make_faults(const char *socket, const struct store *s)
{
    redisContext *r = redisConnectUnix(socket);

    for (int i = 0; i < FAULTS && r && !r->err; i++) {
        freeReplyObject(redisCommand(r, i % 2 ? "CLIENT KILL TYPE normal SKIPME yes" : "SCRIPT FLUSH"));
        for (int64_t end = clock_mono_ms() + 100; clock_mono_ms() < end || !store_is_up(s);)
            usleep(1000);
    }
    if (r)
        redisFree(r);
}

static void run_all(const char *socket_path)
{
    char *socket = xstrdup(socket_path);
    const struct store_opts opts = {.redis = {.socket_path = socket, .prefix = "duepost", .gateway = "g"},
                                    .on_scheduled = on_scheduled};
    struct store *store = NULL;
    struct client clients[CLIENTS];
    struct thread *threads[CLIENTS] = {0};
    int wrong = 0;

    plain_result(store_create(&opts, &store) == ERR_OK, "a store starts");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.store = store, .answers = queue_create(), .number = i};
        plain_result(thread_start("client", run_client, &clients[i], &threads[i]) == ERR_OK, "a thread starts");
    }
    make_faults(socket, store);
    for (int i = 0; i < CLIENTS; i++) {
        thread_join(&threads[i]);
        wrong += clients[i].wrong;
        queue_destroy(&clients[i].answers);
    }
    plain_result(wrong == 0, "every operation comes back once with an answer to it");
    plain_result(atomic_load(&scheduled) > 0, "the mover is told");
    store_destroy(&store);
    free(socket);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0;
}

int main(void)
{
    char dir[] = "/tmp/duepost-tsan-XXXXXX", detail[EMBEDDED_DETAIL_SIZE] = "";
    struct embedded *redis = NULL;

    log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
    (void)signal(SIGPIPE, SIG_IGN);
    plain_result(mkdtemp(dir) && embedded_start(dir, &redis, detail) == ERR_OK, "a Redis starts");
    if (redis)
        run_all(embedded_socket(redis));
    embedded_stop(&redis);
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return plain_end();
}
