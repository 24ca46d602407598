#include "run/renewal_priv.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL_MS = 60000, POSTED_MAX = 8 };

static struct share *share;
static struct deliveries all;
static struct renewals renewals;
static struct store_op *posted[POSTED_MAX];
static int posted_count;

static void post(void *ctx, struct store_op *op)
{
    (void)ctx;
    cr_assert_lt(posted_count, POSTED_MAX);
    posted[posted_count++] = op;
}

static void set_up(void)
{
    share = share_create();
    deliveries_init(&all);
    renewals = (struct renewals){.interval_ms = INTERVAL_MS};
    posted_count = 0;
}

static void tear_down(void)
{
    for (int i = 0; i < posted_count; i++)
        free(posted[i]);
    deliveries_deinit(&all, share);
    share_destroy(&share);
}

TestSuite(renewal, .init = set_up, .fini = tear_down);

/* Deliveries that have been here for so long. */
static void hold(int count, int64_t for_ms)
{
    for (int i = 0; i < count; i++) {
        struct store_lease lease = {.generation = 1};
        struct task *t = task_create();
        t->url = strdup("http://a.example/");
        (void)snprintf(lease.entry_id, sizeof lease.entry_id, "%d-0", i);
        (void)delivery_open(&all, share, t, &lease, clock_mono_ms() - for_ms);
    }
}

/* One more turn of the worker, as if all pauses were over; the number of leases that it asks to renew. */
static size_t turn(void)
{
    size_t leases = 0;

    posted_count = 0;
    renewals.next_mono_ms = clock_mono_ms();
    renewals_run(&renewals, &all, "gateway/0", post, NULL);
    for (int i = 0; i < posted_count; i++) {
        cr_expect_eq(posted[i]->kind, STORE_RENEW);
        leases += posted[i]->lease_count;
    }
    return leases;
}

static void answer(int nr, enum err err)
{
    posted[nr]->err = err;
    renewals_done(&renewals, posted[nr]);
    posted[nr] = NULL;
}

Test(renewal, only_what_has_been_here_for_the_interval_is_renewed)
{
    hold(3, INTERVAL_MS);
    hold(2, INTERVAL_MS / 2);
    cr_expect_eq(turn(), 3);
    answer(0, ERR_OK);
    cr_expect_eq(turn(), 0);
}

Test(renewal, a_round_is_not_begun_before_the_last_one_is_over)
{
    hold(STORE_CALL_MAX + 1, INTERVAL_MS);
    cr_assert_eq(turn(), STORE_CALL_MAX + 1);
    cr_assert_eq(posted_count, 2);
    struct store_op *last = posted[1];
    answer(0, ERR_OK);
    hold(1, INTERVAL_MS);
    cr_expect_eq(turn(), 0);
    posted[0] = last;
    answer(0, ERR_OK);
    cr_expect_eq(turn(), 1);
}

Test(renewal, one_that_failed_is_repeated_soon_and_not_at_its_next_time)
{
    hold(3, INTERVAL_MS);
    cr_assert_eq(turn(), 3);
    answer(0, ERR_UNAVAILABLE);
    cr_expect_leq(renewals.next_mono_ms, clock_mono_ms() + 1000);
    cr_expect_leq(renewals_wait_ms(&renewals), 1000);
    cr_expect_eq(turn(), 3, "the same ones again");
    answer(0, ERR_UNAVAILABLE);
    cr_expect_eq(turn(), 3, "and again");
    answer(0, ERR_OK);
    cr_expect_eq(turn(), 0, "and no more once it went well");
    cr_expect_gt(renewals_wait_ms(&renewals), 1000);
}

Test(renewal, one_failed_call_of_a_round_repeats_that_round)
{
    hold(STORE_CALL_MAX + 1, INTERVAL_MS);
    cr_assert_eq(turn(), STORE_CALL_MAX + 1);
    answer(0, ERR_UNAVAILABLE);
    answer(1, ERR_OK);
    cr_expect_eq(turn(), STORE_CALL_MAX + 1);
    answer(0, ERR_OK);
    answer(1, ERR_OK);
    cr_expect_eq(turn(), 0);
}

Test(renewal, what_ended_meanwhile_is_not_renewed_again)
{
    hold(2, INTERVAL_MS);
    cr_assert_eq(turn(), 2);
    answer(0, ERR_UNAVAILABLE);
    delivery_close(&all, share, TAILQ_FIRST(&all.lists[DELIVERY_WAITING]));
    cr_expect_eq(turn(), 1);
}
