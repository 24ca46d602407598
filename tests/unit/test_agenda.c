#include "run/agenda_priv.h"

#include <criterion/criterion.h>

Test(agenda, nothing_is_done_before_its_time)
{
    struct agenda a = {{1000, 2000, 3000, 4000, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER}};

    cr_expect_eq(agenda_next(&a, 999), CHORE_NONE);
    cr_expect_eq(agenda_wait_us(&a, 999), 1);
    cr_expect_eq(agenda_next(&a, 1000), CHORE_MOVE);
    cr_expect_eq(agenda_wait_us(&a, 1000), 0);
    cr_expect_eq(agenda_wait_us(&a, 5000), 0);
}

Test(agenda, without_plans_it_waits_for_ever)
{
    struct agenda a;

    for (int c = 0; c < CHORE_COUNT; c++)
        a.at_us[c] = AGENDA_NEVER;
    cr_expect_eq(agenda_next(&a, INT64_MAX - 1), CHORE_NONE);
    cr_expect_eq(agenda_wait_us(&a, INT64_MAX - 1), AGENDA_NEVER);
}

Test(agenda, what_is_due_moves_before_all_that_is_hardly_late)
{
    struct agenda a = {{1000, 0, 0, 0, 1000, 1000, 1000}};

    cr_expect_eq(agenda_next(&a, 1000), CHORE_MOVE);
}

Test(agenda, each_chore_gets_its_turn_when_no_move_is_due)
{
    for (int c = CHORE_RECOVER; c < CHORE_COUNT; c++) {
        struct agenda a;
        for (int other = 0; other < CHORE_COUNT; other++)
            a.at_us[other] = other == c ? 10 : AGENDA_NEVER;
        cr_expect_eq(agenda_next(&a, 10), (enum chore)c);
    }
}

/* Every answer to a move says that more is due now, for ten seconds of calls that take a millisecond each. */
Test(agenda, a_backlog_that_never_ends_starves_nothing_and_is_hardly_slowed)
{
    static const int64_t INTERVAL_US[CHORE_COUNT] = {0, 333000, 100000, 500000};
    struct agenda a = {{0, 0, 0, 0, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER}};
    int64_t worst_us[CHORE_COUNT] = {0};
    int count[CHORE_COUNT] = {0};

    for (int64_t now = 0; now < 10000000; now += 1000) {
        enum chore c = agenda_next(&a, now);
        cr_assert_lt(c, CHORE_COUNT);
        int64_t late = now - a.at_us[c];
        worst_us[c] = late > worst_us[c] ? late : worst_us[c];
        count[c]++;
        a.at_us[c] = now + INTERVAL_US[c];
    }
    cr_expect_gt(count[CHORE_MOVE], 9800, "%d moves", count[CHORE_MOVE]);
    cr_expect_gt(count[CHORE_RECOVER], 20, "%d heartbeats", count[CHORE_RECOVER]);
    cr_expect_gt(count[CHORE_SWEEP], 50, "%d sweeps", count[CHORE_SWEEP]);
    cr_expect_gt(count[CHORE_PATROL], 10, "%d patrols", count[CHORE_PATROL]);
    cr_expect_leq(worst_us[CHORE_RECOVER], 60000, "a heartbeat %lld us late", (long long)worst_us[CHORE_RECOVER]);
}

/* A dead worker held much: recovery is due again at once, as moving is. */
Test(agenda, recovery_that_goes_on_leaves_moves_their_time)
{
    struct agenda a = {{0, 0, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER}};
    int moves = 0, recovers = 0;

    for (int64_t now = 0; now < 1000000; now += 1000) {
        enum chore c = agenda_next(&a, now);
        moves += c == CHORE_MOVE;
        recovers += c == CHORE_RECOVER;
        a.at_us[c] = now;
    }
    cr_expect_eq(moves + recovers, 1000);
    cr_expect_geq(recovers, 15, "%d", recovers);
    cr_expect_geq(moves, 900, "%d", moves);
}

/* Tasks expire and call back without an end, and there is always something to move. */
Test(agenda, expiry_and_callbacks_take_turns_with_moves)
{
    struct agenda a = {{0, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER, AGENDA_NEVER, 0, 0}};
    int count[CHORE_COUNT] = {0};

    for (int64_t now = 0; now < 900000; now += 1000) {
        enum chore c = agenda_next(&a, now);
        cr_assert_lt(c, CHORE_COUNT);
        count[c]++;
        a.at_us[c] = now + 1000;
    }
    cr_expect_eq(count[CHORE_MOVE], 300, "%d moves", count[CHORE_MOVE]);
    cr_expect_eq(count[CHORE_EXPIRE], 300, "%d expiries", count[CHORE_EXPIRE]);
    cr_expect_eq(count[CHORE_ANNOUNCE], 300, "%d callbacks", count[CHORE_ANNOUNCE]);
}
