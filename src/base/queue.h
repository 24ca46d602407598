#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

/* Hand-over between threads: many producers, one consumer, an intrusive list under a mutex, and an eventfd that
 * the consumer polls. The eventfd is written only when the queue was empty, so a burst costs one system call. */

struct queue_node {
    struct queue_node *next; /* owned by the queue while the node is in it */
};

struct queue;

/* Aborts when the kernel has no descriptor or memory left: created at start only. */
struct queue *queue_create(void);
void queue_destroy(struct queue **q); /* the nodes still inside are the caller's: drain with queue_take_all first */

/* The eventfd to poll for reading. */
int queue_fd(const struct queue *q);

/* Append a node (any thread), or a whole chain first..last linked by `next`. */
void queue_push(struct queue *q, struct queue_node *node);
void queue_push_chain(struct queue *q, struct queue_node *first, struct queue_node *last);

/* Take everything in order of arrival (consumer only); clears the eventfd. NULL when empty. The chain is linked
 * by `next` and ends with NULL. */
struct queue_node *queue_take_all(struct queue *q);

/* Wake the consumer although nothing was pushed (any thread). */
void queue_wake(struct queue *q);

#endif
