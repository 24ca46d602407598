/* An epoll loop for one thread.
 *
 * Watches live in an array indexed by descriptor. Each registration has a generation number that travels through the
 * kernel beside the descriptor, so an event of this turn's batch is dropped when its watch was removed (or removed
 * and registered anew under the same number) by an earlier callback. Events are matched against what the watch asks
 * for at the time of the call, not of the wait.
 *
 * epoll reports errors and hang-ups even to a watch without events, which would spin; a silent watch is therefore
 * taken out of epoll and put back when it asks for events again.
 *
 * Waiting: epoll_wait counts milliseconds. The whole ones are slept there, and only a fraction that is left over when
 * nothing came in between is slept on the timerfd: most waits are ended by an event and never touch the timer. */
#include "base/loop.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH 128
#define FIRST_WATCHES 64

struct watch {
    loop_fn *fn; /* NULL: not watched */
    void *ctx;
    unsigned events;
    uint32_t generation;
};

struct loop {
    int epoll_fd;
    int wake_fd;
    int timer_fd;
    struct watch *watches; /* by descriptor */
    size_t watch_count;
};

static void die(const char *what, int fd)
{
    LOG_ERROR("loop.failed", "call=%s fd=%d errno=%d", what, fd, errno);
    abort();
}

/* Generation 0 is never given to a watch: it marks the loop's own two descriptors. */
static uint64_t pack(int fd, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint32_t)fd;
}

static uint32_t to_epoll(unsigned events)
{
    return (events & LOOP_READ ? (uint32_t)EPOLLIN : 0) | (events & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0);
}

static void add_own(struct loop *l, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = pack(fd, 0)};

    if (fd == -1 || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) == -1)
        die("create", fd);
}

struct loop *loop_create(void)
{
    struct loop *l = xcalloc(1, sizeof(*l));

    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd == -1)
        die("epoll_create1", -1);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    add_own(l, l->wake_fd);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    add_own(l, l->timer_fd);
    return l;
}

void loop_destroy(struct loop **l)
{
    if (!*l)
        return;
    (void)close((*l)->timer_fd);
    (void)close((*l)->wake_fd);
    (void)close((*l)->epoll_fd);
    free((*l)->watches);
    free(*l);
    *l = NULL;
}

static struct watch *find_or_grow(struct loop *l, int fd)
{
    size_t count = l->watch_count ? l->watch_count : FIRST_WATCHES;

    assert(fd >= 0);
    while (count <= (size_t)fd)
        count *= 2;
    if (count > l->watch_count) {
        l->watches = xrealloc(l->watches, count * sizeof(*l->watches));
        memset(l->watches + l->watch_count, 0, (count - l->watch_count) * sizeof(*l->watches));
        l->watch_count = count;
    }
    return &l->watches[fd];
}

static void tell_epoll(struct loop *l, int fd, const struct watch *w, unsigned before)
{
    struct epoll_event e = {.events = to_epoll(w->events), .data.u64 = pack(fd, w->generation)};
    int op = before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (w->events == before)
        return;
    if (w->events == 0) {
        /* Fails when the descriptor was closed before: it has left epoll by itself then. */
        (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return;
    }
    if (epoll_ctl(l->epoll_fd, op, fd, &e) == 0)
        return;
    if (op == EPOLL_CTL_MOD && errno == ENOENT && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0)
        return;
    die("epoll_ctl", fd);
}

void loop_set(struct loop *l, int fd, unsigned events, loop_fn *fn, void *ctx)
{
    struct watch *w = find_or_grow(l, fd);
    unsigned before = w->events;

    if (!w->fn && ++w->generation == 0)
        w->generation = 1;
    w->fn = fn;
    w->ctx = ctx;
    w->events = events;
    tell_epoll(l, fd, w, before);
}

void loop_remove(struct loop *l, int fd)
{
    struct watch *w = NULL;
    unsigned before = 0;

    if (fd < 0 || (size_t)fd >= l->watch_count || !l->watches[fd].fn)
        return;
    w = &l->watches[fd];
    before = w->events;
    w->fn = NULL;
    w->ctx = NULL;
    w->events = 0;
    tell_epoll(l, fd, w, before);
}

static int wait_ms(struct loop *l, struct epoll_event *events, int64_t timeout_ms)
{
    int n = epoll_wait(l->epoll_fd, events, BATCH, timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms);

    if (n == -1 && errno != EINTR)
        die("epoll_wait", l->epoll_fd);
    return n == -1 ? 0 : n;
}

static int wait_fraction(struct loop *l, struct epoll_event *events, int64_t us)
{
    struct itimerspec at = {.it_value = {.tv_nsec = us * 1000}};

    if (timerfd_settime(l->timer_fd, 0, &at, NULL) == -1)
        die("timerfd_settime", l->timer_fd);
    return wait_ms(l, events, -1);
}

static int wait_us(struct loop *l, struct epoll_event *events, int64_t timeout_us)
{
    int64_t deadline_us = 0;
    int64_t left_us = timeout_us;

    if (timeout_us < 0)
        return wait_ms(l, events, -1);
    if (timeout_us % 1000 == 0)
        return wait_ms(l, events, timeout_us / 1000);
    if (timeout_us > 1000) {
        int n = 0;

        deadline_us = clock_mono_us() + timeout_us;
        n = wait_ms(l, events, timeout_us / 1000);
        left_us = deadline_us - clock_mono_us();
        if (n > 0 || left_us <= 0)
            return n;
        if (left_us >= 1000) /* a signal cut the sleep short: the caller looks at its clock anyway */
            return 0;
    }
    return wait_fraction(l, events, left_us);
}

static void dispatch(struct loop *l, const struct epoll_event *e)
{
    int fd = (int)(uint32_t)e->data.u64;
    uint32_t generation = (uint32_t)(e->data.u64 >> 32);
    unsigned got = 0;
    struct watch *w = NULL;

    if (generation == 0) { /* the wake-up or the timer: both are quiet after one read */
        uint64_t count = 0;

        (void)!read(fd, &count, sizeof(count));
        return;
    }
    w = &l->watches[fd];
    if (!w->fn || w->generation != generation || w->events == 0)
        return;
    if (e->events & (uint32_t)(EPOLLERR | EPOLLHUP))
        got = LOOP_READ | LOOP_WRITE;
    else
        got = ((e->events & (uint32_t)EPOLLIN ? LOOP_READ : 0U) | (e->events & (uint32_t)EPOLLOUT ? LOOP_WRITE : 0U)) &
              w->events;
    if (got != 0)
        w->fn(w->ctx, fd, got);
}

void loop_turn(struct loop *l, int64_t timeout_us)
{
    struct epoll_event events[BATCH];
    int n = wait_us(l, events, timeout_us);

    for (int i = 0; i < n; i++)
        dispatch(l, &events[i]);
}

void loop_wake(struct loop *l)
{
    int before = errno; /* may run in a signal handler */
    uint64_t one = 1;

    (void)!write(l->wake_fd, &one, sizeof(one));
    errno = before;
}
