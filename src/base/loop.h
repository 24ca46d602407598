#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/* A small epoll loop, one for each thread that waits for several things. Timers are the caller's: it computes
 * the time to its next work and passes it to loop_turn(). Sub-millisecond sleeps use a timerfd inside, since
 * epoll_wait counts whole milliseconds. Threads: one owner, except loop_wake(). */

struct loop;

enum loop_events {
    LOOP_READ = 1,
    LOOP_WRITE = 2,
};

/* `events` is a set of LOOP_READ and LOOP_WRITE; errors and hang-ups are reported as both, so the read or write
 * that follows finds the reason. */
typedef void loop_fn(void *ctx, int fd, unsigned events);

/* Aborts when the kernel refuses: created at start only. */
struct loop *loop_create(void);
void loop_destroy(struct loop **l);

/* Watch `fd` (replaces what was watched on it). `events` 0 keeps it registered but silent. A callback may set,
 * change and remove any descriptor, its own included: a removed one gets no further callback in this turn. */
void loop_set(struct loop *l, int fd, unsigned events, loop_fn *fn, void *ctx);
void loop_remove(struct loop *l, int fd);

/* Wait until something happens or `timeout_us` has passed (-1: no limit, 0: only look), and call back. */
void loop_turn(struct loop *l, int64_t timeout_us);

/* End the current or next wait early. Any thread, async-signal-safe. */
void loop_wake(struct loop *l);

#endif
