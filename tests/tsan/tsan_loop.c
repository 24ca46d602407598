#include "../support/plain.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stdlib.h>

/* A loop turned by its owner while other threads wake it and push to a queue it watches: no wake-up is lost, and what
 * was written before it is seen after it. */

#define THREADS 3
#define PUSHES 5000
#define WAKES 2000
#define PATIENCE_MS 20000

struct pusher {
    struct queue *queue;
    struct queue_node *nodes;
};

static int taken; /* by the owner alone */

static void on_queue(void *ctx, int fd, unsigned events)
{
    (void)fd;
    (void)events;
    for (struct queue_node *n = queue_take_all(ctx); n; n = n->next)
        taken++;
}

static void push(void *ctx)
{
    struct pusher *p = ctx;

    for (int i = 0; i < PUSHES; i++)
        queue_push(p->queue, &p->nodes[i]);
}

static void test_pushes(void)
{
    struct loop *loop = loop_create();
    struct queue *queue = queue_create();
    struct pusher pushers[THREADS];
    struct thread *threads[THREADS] = {0};
    int64_t end = clock_mono_ms() + PATIENCE_MS;
    bool has_started = true;

    loop_set(loop, queue_fd(queue), LOOP_READ, on_queue, queue);
    for (int i = 0; i < THREADS; i++) {
        pushers[i] = (struct pusher){queue, xcalloc(PUSHES, sizeof(struct queue_node))};
        has_started = thread_start("pusher", push, &pushers[i], &threads[i]) == ERR_OK && has_started;
    }
    while (has_started && taken < THREADS * PUSHES && clock_mono_ms() < end)
        loop_turn(loop, 100000);
    for (int i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    plain_result(taken == THREADS * PUSHES, "everything that was pushed is taken");
    loop_remove(loop, queue_fd(queue));
    loop_destroy(&loop);
    queue_destroy(&queue);
    for (int i = 0; i < THREADS; i++)
        free(pushers[i].nodes);
}

/* Ping-pong: each wake answers a value that the owner published before. */
struct rally {
    struct loop *loop;
    atomic_int ball;
};

static void return_balls(void *ctx)
{
    struct rally *r = ctx;

    for (int i = 1; i <= WAKES; i++) {
        while (atomic_load(&r->ball) != 2 * i - 1)
            ;
        atomic_store(&r->ball, 2 * i);
        loop_wake(r->loop);
    }
}

static void test_wakes(void)
{
    struct rally r = {.loop = loop_create()};
    struct thread *thread = NULL;
    int64_t longest_ms = 0;

    plain_result(thread_start("rally", return_balls, &r, &thread) == ERR_OK, "a thread starts");
    for (int i = 1; i <= WAKES; i++) {
        int64_t began = clock_mono_ms();
        atomic_store(&r.ball, 2 * i - 1);
        while (atomic_load(&r.ball) != 2 * i)
            loop_turn(r.loop, (int64_t)PATIENCE_MS * 1000);
        if (clock_mono_ms() - began > longest_ms)
            longest_ms = clock_mono_ms() - began;
    }
    thread_join(&thread);
    plain_result(longest_ms < PATIENCE_MS / 2, "no wake-up is lost");
    loop_destroy(&r.loop);
}

int main(void)
{
    test_pushes();
    test_wakes();
    return plain_end();
}
