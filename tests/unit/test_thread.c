#include "base/thread.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct seen {
    char name[32];
    bool blocks_term;
    bool blocks_int;
};

static void look(void *ctx)
{
    struct seen *seen = ctx;
    sigset_t mask;

    (void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->blocks_term = sigismember(&mask, SIGTERM) == 1;
    seen->blocks_int = sigismember(&mask, SIGINT) == 1;
}

Test(thread, runs_under_its_name_with_all_signals_blocked)
{
    struct seen seen = {.blocks_term = false};
    struct thread *t = NULL;

    cr_assert_eq(thread_start("mover", look, &seen, &t), ERR_OK);
    thread_join(&t);
    cr_expect_null(t);
    cr_expect_str_eq(seen.name, "mover");
    cr_expect(seen.blocks_term);
    cr_expect(seen.blocks_int);
}

Test(thread, a_long_name_is_cut_to_what_the_kernel_takes)
{
    struct seen seen = {.blocks_term = false};
    struct thread *t = NULL;

    cr_assert_eq(thread_start("a-name-of-many-characters", look, &seen, &t), ERR_OK);
    thread_join(&t);
    cr_expect_str_eq(seen.name, "a-name-of-many-");
}

Test(thread, the_creator_keeps_its_own_signal_mask)
{
    struct seen seen = {.blocks_term = false};
    struct thread *t = NULL;
    sigset_t mask;

    cr_assert_eq(thread_start("other", look, &seen, &t), ERR_OK);
    thread_join(&t);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    cr_expect_eq(sigismember(&mask, SIGTERM), 0);
}

Test(thread, joining_nothing_is_allowed)
{
    struct thread *none = NULL;

    thread_join(&none);
    cr_expect_null(none);
}
