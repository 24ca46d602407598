#include "../support/plain.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/thread.h"
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Several producers, alone and in chains, one consumer that polls: every node arrives once, each producer's in order.
 */

#define PRODUCERS 4
#define NODES 20000
#define CHAIN 7

struct item {
    struct queue_node node; /* first member */
    int producer, number;
    int filled; /* written by the producer before the push, read by the consumer after it */
};

struct producer {
    struct queue *queue;
    struct item *items;
    int number;
};

static void produce(void *ctx)
{
    struct producer *p = ctx;

    for (int i = 0; i < NODES;) {
        int count = i % 3 == 0 && i + CHAIN <= NODES ? CHAIN : 1;
        for (int k = 0; k < count; k++) {
            struct item *item = &p->items[i + k];
            item->producer = p->number;
            item->number = i + k;
            item->filled = i + k + 1;
            item->node.next = k + 1 < count ? &p->items[i + k + 1].node : NULL;
        }
        if (count > 1)
            queue_push_chain(p->queue, &p->items[i].node, &p->items[i + count - 1].node);
        else
            queue_push(p->queue, &p->items[i].node);
        if (i % 1000 == 0)
            queue_wake(p->queue);
        i += count;
    }
}

static int take_all(struct queue *q, int next[PRODUCERS])
{
    int bad = 0;

    for (struct queue_node *n = queue_take_all(q); n; n = n->next) {
        const struct item *item = (const struct item *)(const void *)n;
        bad += item->number != next[item->producer] || item->filled != item->number + 1;
        next[item->producer] = item->number + 1;
    }
    return bad;
}

int main(void)
{
    struct queue *q = queue_create();
    struct producer producers[PRODUCERS];
    struct thread *threads[PRODUCERS] = {0};
    int next[PRODUCERS] = {0}, bad = 0, sum = 0;

    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){q, xcalloc(NODES, sizeof(struct item)), i};
        plain_result(thread_start("producer", produce, &producers[i], &threads[i]) == ERR_OK, "a thread starts");
    }
    while (sum < PRODUCERS * NODES) {
        struct pollfd p = {.fd = queue_fd(q), .events = POLLIN};
        if (poll(&p, 1, 10000) != 1)
            break;
        bad += take_all(q, next);
        sum = next[0] + next[1] + next[2] + next[3];
    }
    for (int i = 0; i < PRODUCERS; i++)
        thread_join(&threads[i]);
    plain_result(sum == PRODUCERS * NODES, "every node arrives");
    plain_result(bad == 0, "each producer's nodes arrive in order, as they were filled");
    plain_result(queue_take_all(q) == NULL, "nothing is left");
    queue_destroy(&q);
    for (int i = 0; i < PRODUCERS; i++)
        free(producers[i].items);
    return plain_end();
}
