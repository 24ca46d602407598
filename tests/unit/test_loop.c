#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/thread.h"
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONG_US INT64_C(20000000) /* a wait that only a fault lets run out */

static struct loop *l;
static int pairs[3][2];

static void set_up(void)
{
    l = loop_create();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
}

static void tear_down(void)
{
    loop_destroy(&l);
    cr_expect_null(l);
    for (int i = 0; i < 3; i++) {
        (void)close(pairs[i][0]);
        (void)close(pairs[i][1]);
    }
}

TestSuite(loop, .init = set_up, .fini = tear_down);

struct seen {
    int calls;
    int fd;
    unsigned events;
};

static void note(void *ctx, int fd, unsigned events)
{
    struct seen *seen = ctx;

    seen->calls++;
    seen->fd = fd;
    seen->events = events;
}

static void make_readable(int pair)
{
    cr_assert_eq(write(pairs[pair][1], "x", 1), 1);
}

Test(loop, a_readable_descriptor_is_reported)
{
    struct seen seen = {0};

    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    loop_turn(l, 0);
    cr_expect_eq(seen.calls, 0);
    make_readable(0);
    loop_turn(l, LONG_US);
    cr_expect_eq(seen.calls, 1);
    cr_expect_eq(seen.fd, pairs[0][0]);
    cr_expect_eq(seen.events, (unsigned)LOOP_READ);
}

Test(loop, reading_and_writing_are_reported_together)
{
    struct seen seen = {0};

    make_readable(0);
    loop_set(l, pairs[0][0], LOOP_READ | LOOP_WRITE, note, &seen);
    loop_turn(l, LONG_US);
    cr_expect_eq(seen.events, (unsigned)(LOOP_READ | LOOP_WRITE));
}

Test(loop, setting_again_replaces_events_callback_and_context)
{
    struct seen first = {0};
    struct seen second = {0};

    make_readable(0);
    loop_set(l, pairs[0][0], LOOP_READ, note, &first);
    loop_set(l, pairs[0][0], LOOP_WRITE, note, &second);
    loop_turn(l, LONG_US);
    cr_expect_eq(first.calls, 0);
    cr_expect_eq(second.events, (unsigned)LOOP_WRITE);
}

Test(loop, a_hang_up_is_reported_as_both)
{
    struct seen seen = {0};

    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    (void)close(pairs[0][1]);
    loop_turn(l, LONG_US);
    cr_expect_eq(seen.events, (unsigned)(LOOP_READ | LOOP_WRITE));
}

Test(loop, a_silent_watch_does_not_spin_on_a_hang_up_and_hears_of_it_later)
{
    struct seen seen = {0};
    int64_t start_us = 0;

    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    loop_set(l, pairs[0][0], 0, note, &seen);
    (void)close(pairs[0][1]);
    start_us = clock_mono_us();
    loop_turn(l, 5000);
    cr_expect_geq(clock_mono_us() - start_us, 5000);
    cr_expect_eq(seen.calls, 0);
    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    loop_turn(l, LONG_US);
    cr_expect_eq(seen.calls, 1);
}

Test(loop, a_removed_descriptor_is_forgotten)
{
    struct seen seen = {0};

    make_readable(0);
    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    loop_remove(l, pairs[0][0]);
    loop_remove(l, pairs[0][0]);
    loop_turn(l, 0);
    cr_expect_eq(seen.calls, 0);
}

Test(loop, removing_what_was_never_watched_is_allowed)
{
    struct seen seen = {0};

    loop_remove(l, -1);
    loop_remove(l, 100000);
    make_readable(0);
    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    loop_turn(l, LONG_US);
    cr_expect_eq(seen.calls, 1);
}

struct killer {
    int calls;
};

/* The first of two ready descriptors removes the other. */
static void remove_the_other(void *ctx, int fd, unsigned events)
{
    struct killer *killer = ctx;

    (void)events;
    killer->calls++;
    loop_remove(l, fd == pairs[0][0] ? pairs[1][0] : pairs[0][0]);
}

Test(loop, a_descriptor_removed_by_an_earlier_callback_gets_none_in_this_turn)
{
    struct killer killer = {0};

    make_readable(0);
    make_readable(1);
    loop_set(l, pairs[0][0], LOOP_READ, remove_the_other, &killer);
    loop_set(l, pairs[1][0], LOOP_READ, remove_the_other, &killer);
    loop_turn(l, LONG_US);
    cr_expect_eq(killer.calls, 1);
}

struct swapper {
    int calls;
    struct seen fresh;
};

/* Closes the other descriptor and registers a quiet one that gets its number. */
static void swap_the_other(void *ctx, int fd, unsigned events)
{
    struct swapper *swapper = ctx;
    int other = fd == pairs[0][0] ? pairs[1][0] : pairs[0][0];

    (void)events;
    swapper->calls++;
    loop_remove(l, fd);
    loop_remove(l, other);
    cr_assert_eq(dup2(pairs[2][0], other), other);
    loop_set(l, other, LOOP_READ, note, &swapper->fresh);
}

Test(loop, a_new_descriptor_under_an_old_number_does_not_get_the_old_event)
{
    struct swapper swapper = {0};

    make_readable(0);
    make_readable(1);
    loop_set(l, pairs[0][0], LOOP_READ, swap_the_other, &swapper);
    loop_set(l, pairs[1][0], LOOP_READ, swap_the_other, &swapper);
    loop_turn(l, LONG_US);
    cr_expect_eq(swapper.calls, 1);
    cr_expect_eq(swapper.fresh.calls, 0);
    make_readable(2);
    loop_turn(l, LONG_US);
    cr_expect_eq(swapper.fresh.calls, 1);
}

static void remove_itself(void *ctx, int fd, unsigned events)
{
    struct seen *seen = ctx;

    note(seen, fd, events);
    loop_remove(l, fd);
}

Test(loop, a_callback_may_remove_its_own_descriptor)
{
    struct seen seen = {0};

    make_readable(0);
    loop_set(l, pairs[0][0], LOOP_READ, remove_itself, &seen);
    loop_turn(l, LONG_US);
    loop_turn(l, 0);
    cr_expect_eq(seen.calls, 1);
}

Test(loop, waits_last_at_least_as_long_as_asked_to_the_microsecond)
{
    static const int64_t waits_us[] = {0, 1, 150, 999, 1000, 1001, 1500, 2000, 3300, 5999};

    for (size_t i = 0; i < sizeof(waits_us) / sizeof(waits_us[0]); i++) {
        int64_t start_us = clock_mono_us();

        loop_turn(l, waits_us[i]);
        cr_expect_geq(clock_mono_us() - start_us, waits_us[i], "wait of %lld us", (long long)waits_us[i]);
    }
}

Test(loop, a_fraction_of_a_millisecond_is_not_rounded_up_to_a_whole_one)
{
    int64_t best_us = LONG_US;

    for (int i = 0; i < 50; i++) { /* the best of many: a busy machine may be late */
        int64_t start_us = clock_mono_us();
        int64_t took_us = 0;

        loop_turn(l, 200);
        took_us = clock_mono_us() - start_us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    cr_expect_lt(best_us, 900);
}

Test(loop, an_event_ends_a_fractional_wait)
{
    struct seen seen = {0};

    make_readable(0);
    loop_set(l, pairs[0][0], LOOP_READ, note, &seen);
    loop_turn(l, LONG_US + 1);
    cr_expect_eq(seen.calls, 1);
}

Test(loop, a_wake_before_the_wait_ends_it)
{
    int64_t start_us = clock_mono_us();

    loop_wake(l);
    loop_wake(l);
    loop_turn(l, LONG_US);
    cr_expect_lt(clock_mono_us() - start_us, LONG_US / 2);
    start_us = clock_mono_us();
    loop_turn(l, 2000);
    cr_expect_geq(clock_mono_us() - start_us, 2000, "two wakes are used up by one turn");
}

static void wake(void *ctx)
{
    loop_wake(ctx);
}

Test(loop, a_wake_from_another_thread_ends_an_endless_wait)
{
    struct thread *t = NULL;

    cr_assert_eq(thread_start("waker", wake, l, &t), ERR_OK);
    loop_turn(l, -1);
    thread_join(&t);
}

Test(loop, many_descriptors_are_all_served)
{
    enum { MANY = 300 };
    struct seen seen[MANY];
    int fds[MANY];
    int served = 0;

    memset(seen, 0, sizeof(seen));
    make_readable(0);
    for (int i = 0; i < MANY; i++) {
        fds[i] = dup(pairs[0][0]);
        cr_assert_neq(fds[i], -1);
        loop_set(l, fds[i], LOOP_READ, remove_itself, &seen[i]);
    }
    for (int turn = 0; turn < MANY; turn++)
        loop_turn(l, 0);
    for (int i = 0; i < MANY; i++) {
        served += seen[i].calls;
        (void)close(fds[i]);
    }
    cr_expect_eq(served, MANY);
}
