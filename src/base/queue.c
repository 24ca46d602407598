#include "base/queue.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    pthread_mutex_t lock;
    struct queue_node *head; /* under lock */
    struct queue_node *tail; /* under lock; meaningless while head is NULL */
    int fd;
};

struct queue *queue_create(void)
{
    struct queue *q = xcalloc(1, sizeof(*q));

    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd == -1 || pthread_mutex_init(&q->lock, NULL) != 0) {
        LOG_ERROR("queue.create_failed", "errno=%d", errno);
        abort();
    }
    return q;
}

void queue_destroy(struct queue **q)
{
    if (!*q)
        return;
    /* Whoever has pushed the last node may not have left yet. */
    (void)pthread_mutex_lock(&(*q)->lock);
    (void)pthread_mutex_unlock(&(*q)->lock);
    (void)pthread_mutex_destroy(&(*q)->lock);
    (void)close((*q)->fd);
    free(*q);
    *q = NULL;
}

int queue_fd(const struct queue *q)
{
    return q->fd;
}

void queue_wake(struct queue *q)
{
    uint64_t one = 1;

    /* EAGAIN would mean a counter near 2^64, which is readable all the same. */
    while (write(q->fd, &one, sizeof(one)) == -1 && errno == EINTR)
        continue;
}

void queue_push_chain(struct queue *q, struct queue_node *first, struct queue_node *last)
{
    bool was_empty = false;

    last->next = NULL;
    (void)pthread_mutex_lock(&q->lock);
    was_empty = !q->head;
    if (was_empty)
        q->head = first;
    else
        q->tail->next = first;
    q->tail = last;
    /* Who finds it non-empty relies on the one who did not: that one writes, or has written and was not yet read. Under
     * the lock, since the consumer may destroy the queue once it has the last node. */
    if (was_empty)
        queue_wake(q);
    (void)pthread_mutex_unlock(&q->lock);
}

void queue_push(struct queue *q, struct queue_node *node)
{
    queue_push_chain(q, node, node);
}

struct queue_node *queue_take_all(struct queue *q)
{
    struct queue_node *first = NULL;
    uint64_t count = 0;

    /* Clear before taking: the other way round would swallow the wake-up of a node pushed in between. */
    while (read(q->fd, &count, sizeof(count)) == -1 && errno == EINTR)
        continue;
    (void)pthread_mutex_lock(&q->lock);
    first = q->head;
    q->head = NULL;
    q->tail = NULL;
    (void)pthread_mutex_unlock(&q->lock);
    return first;
}
