#include "base/err.h"
#include "base/queue.h"
#include "base/thread.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define PRODUCERS 4
#define NODES_EACH 20000
#define DEADLINE_MS 20000

struct item {
    struct queue_node node; /* first, so that a node is its item */
    int producer;
    int number;
};

struct producer {
    struct queue *queue;
    struct item *items;
};

static struct queue *q;

static void set_up(void)
{
    q = queue_create();
}

static void tear_down(void)
{
    queue_destroy(&q);
    cr_expect_null(q);
}

TestSuite(queue, .init = set_up, .fini = tear_down);

static bool is_readable(int timeout_ms)
{
    struct pollfd p = {.fd = queue_fd(q), .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

Test(queue, a_new_queue_is_empty_and_quiet)
{
    cr_expect_not(is_readable(0));
    cr_expect_null(queue_take_all(q));
}

Test(queue, nodes_come_out_in_order_of_arrival)
{
    struct queue_node nodes[3];

    for (int i = 0; i < 3; i++)
        queue_push(q, &nodes[i]);
    cr_expect_eq(queue_take_all(q), &nodes[0]);
    cr_expect_eq(nodes[0].next, &nodes[1]);
    cr_expect_eq(nodes[1].next, &nodes[2]);
    cr_expect_null(nodes[2].next);
    cr_expect_null(queue_take_all(q));
}

Test(queue, a_chain_is_appended_whole)
{
    struct queue_node first;
    struct queue_node chain[2] = {{&chain[1]}, {NULL}};

    queue_push(q, &first);
    queue_push_chain(q, &chain[0], &chain[1]);
    cr_expect_eq(queue_take_all(q), &first);
    cr_expect_eq(first.next, &chain[0]);
    cr_expect_eq(chain[0].next, &chain[1]);
    cr_expect_null(chain[1].next);
}

Test(queue, a_burst_writes_the_eventfd_once)
{
    struct queue_node nodes[5];
    uint64_t count = 0;

    for (int i = 0; i < 5; i++)
        queue_push(q, &nodes[i]);
    cr_assert_eq(read(queue_fd(q), &count, sizeof(count)), (ssize_t)sizeof(count));
    cr_expect_eq(count, 1);
}

Test(queue, taking_clears_the_eventfd_and_the_next_push_sets_it_again)
{
    struct queue_node node;

    queue_push(q, &node);
    cr_expect(is_readable(0));
    cr_expect_not_null(queue_take_all(q));
    cr_expect_not(is_readable(0));
    queue_push(q, &node);
    cr_expect(is_readable(0));
}

Test(queue, wake_makes_an_empty_queue_readable)
{
    queue_wake(q);
    cr_expect(is_readable(0));
    cr_expect_null(queue_take_all(q));
    cr_expect_not(is_readable(0));
}

Test(queue, destroying_nothing_is_allowed)
{
    struct queue *none = NULL;

    queue_destroy(&none);
    cr_expect_null(none);
}

static void produce(void *ctx)
{
    struct producer *p = ctx;

    for (int i = 0; i < NODES_EACH; i++)
        queue_push(p->queue, &p->items[i].node);
}

Test(queue, nothing_is_lost_or_reordered_between_many_producers_and_a_consumer)
{
    struct producer producers[PRODUCERS];
    struct thread *threads[PRODUCERS] = {NULL};
    int next[PRODUCERS] = {0};
    int total = 0;

    for (int p = 0; p < PRODUCERS; p++) {
        producers[p].queue = q;
        producers[p].items = calloc(NODES_EACH, sizeof(struct item));
        for (int i = 0; i < NODES_EACH; i++) {
            producers[p].items[i].producer = p;
            producers[p].items[i].number = i;
        }
        cr_assert_eq(thread_start("producer", produce, &producers[p], &threads[p]), ERR_OK);
    }
    while (total < PRODUCERS * NODES_EACH) {
        cr_assert(is_readable(DEADLINE_MS), "a wake-up was lost after %d nodes", total);
        for (struct queue_node *n = queue_take_all(q); n; n = n->next) {
            const struct item *item = (const struct item *)(const void *)n;

            cr_assert_eq(item->number, next[item->producer]++);
            total++;
        }
    }
    for (int p = 0; p < PRODUCERS; p++) {
        thread_join(&threads[p]);
        free(producers[p].items);
    }
    cr_expect_null(queue_take_all(q));
}
