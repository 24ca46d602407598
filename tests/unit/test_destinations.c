/* How many attempts a destination may have in flight, when nothing but probes is sent to it, and how long its tasks
 * stay away. */
#include "run/destinations.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A "http://a.example/"
#define B "http://b.example/"
#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)

static struct destinations *all;
static int64_t now;

static void set_up(void)
{
    const struct destinations_opts opts = {
        .capacity = 64, .breaker_failures = 100, .breaker_after_ms = 30000, .breaker_probe_ms = 5000};

    all = destinations_create(&opts);
    now = 1000000;
}

static void tear_down(void)
{
    destinations_destroy(&all);
}

TestSuite(destinations, .init = set_up, .fini = tear_down);

static uint64_t hash_of(const char *url)
{
    struct target_place place;

    target_place(url, &place);
    return target_place_hash(&place);
}

static enum destination_answer start(const char *url, struct destination_ticket *ticket)
{
    return destinations_start(all, hash_of(url), url, now, ticket);
}

static enum destination_change end(const char *url, struct destination_ticket ticket, enum outcome_health health)
{
    const struct destination_end e = {.health = health, .error_kind = TASK_ERROR_CONNECT, .ticket = ticket};

    return destinations_end(all, hash_of(url), &e, now);
}

/* One attempt that may begin, and its end. */
static enum destination_change attempt(const char *url, enum outcome_health health)
{
    struct destination_ticket ticket;

    cr_assert_eq(start(url, &ticket), DESTINATION_GO, "at %lld", (long long)now);
    return end(url, ticket, health);
}

static int64_t back_off(const char *url, double random)
{
    bool is_stuck;

    return destinations_back_off_ms(all, hash_of(url), now, random, &is_stuck);
}

static struct destination_view view(const char *url)
{
    struct target_place place;
    struct destination_view found = {.limit = -1};
    size_t count;
    struct destination_view *list = destinations_list(all, now, 1000, &count);

    target_place(url, &place);
    char *name = target_place_name(&place);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            found = list[i];
    cr_assert_neq(found.limit, -1, "%s is not there", name);
    found.name = NULL;
    free(name);
    destinations_free_list(list, count);
    return found;
}

/* How many can be in flight at most, found by trying; they end without a word. */
static int room(const char *url)
{
    struct destination_ticket tickets[200];
    int n = 0;

    while (n < 200 && start(url, &tickets[n]) == DESTINATION_GO)
        n++;
    for (int i = 0; i < n; i++)
        (void)end(url, tickets[i], OUTCOME_UNKNOWN);
    return n;
}

/* ------------------------------------------------------------------ limit */

Test(destinations, there_is_no_limit_at_first)
{
    cr_expect_eq(room(A), 200);
    cr_expect_eq(view(A).limit, 0);
}

Test(destinations, a_failure_alone_sets_no_limit)
{
    (void)attempt(A, OUTCOME_FAILING);
    cr_expect_eq(room(A), 200);
}

Test(destinations, one_that_asks_for_less_gets_half_of_what_is_in_flight)
{
    static const struct {
        int in_flight, limit;
    } rows[] = {{64, 32}, {33, 16}, {3, 1}, {2, 1}, {1, 1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct destination_ticket tickets[64];
        tear_down();
        set_up();
        for (int n = 0; n < rows[i].in_flight; n++)
            cr_assert_eq(start(A, &tickets[n]), DESTINATION_GO);
        (void)end(A, tickets[0], OUTCOME_BUSY);
        cr_expect_eq(view(A).limit, rows[i].limit, "%d in flight", rows[i].in_flight);
        for (int n = 1; n < rows[i].in_flight; n++)
            (void)end(A, tickets[n], OUTCOME_BUSY);
        cr_expect_eq(view(A).limit, rows[i].limit, "the answers to what was sent before cut nothing more");
        cr_expect_eq(room(A), rows[i].limit);
    }
}

Test(destinations, asking_again_halves_again_down_to_one)
{
    static const int limits[] = {8, 4, 2, 1, 1};
    struct destination_ticket tickets[16];
    int in_flight = 16;

    for (size_t round = 0; round < sizeof limits / sizeof *limits; round++) {
        for (int n = 0; n < in_flight; n++)
            cr_assert_eq(start(A, &tickets[n]), DESTINATION_GO);
        cr_expect(round == 0 || start(A, &tickets[in_flight]) == DESTINATION_FULL);
        for (int n = 0; n < in_flight; n++)
            (void)end(A, tickets[n], OUTCOME_BUSY);
        in_flight = view(A).limit;
        cr_expect_eq(in_flight, limits[round], "round %zu", round);
    }
}

Test(destinations, each_success_adds_one_until_there_is_no_limit_again)
{
    (void)attempt(A, OUTCOME_BUSY);
    for (int limit = 1; limit < 64; limit++) {
        cr_assert_eq(view(A).limit, limit);
        cr_assert_eq(room(A), limit);
        (void)attempt(A, OUTCOME_ALIVE);
    }
    cr_expect_eq(view(A).limit, 0);
    cr_expect_eq(room(A), 200);
}

Test(destinations, what_one_asks_for_holds_for_no_other)
{
    (void)attempt(A, OUTCOME_BUSY);
    cr_expect_eq(room(A), 1);
    cr_expect_eq(room(B), 200);
    cr_expect_eq(room("https://a.example/"), 200);
    cr_expect_eq(room("http://a.example:8080/"), 200);
    cr_expect_eq(room("http://a.example:80/other?path"), 1);
}

/* ---------------------------------------------------------------- breaker */

/* Failed attempts spread evenly over a time; the change that the last one brings. */
static enum destination_change fail(const char *url, int count, int64_t over_ms)
{
    enum destination_change change = DESTINATION_SAME;
    int64_t begin = now;

    for (int i = 0; i < count; i++) {
        now = begin + (count > 1 ? over_ms * i / (count - 1) : 0);
        change = attempt(url, OUTCOME_FAILING);
    }
    return change;
}

Test(destinations, the_breaker_opens_after_many_failures_over_a_time)
{
    static const struct {
        int failures;
        int64_t over_ms;
        bool opens;
    } rows[] = {
        {100, 30000, true}, {99, 30000, false}, {100, 29999, false}, {99, 3600000, false}, {100, 3600000, true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tear_down();
        set_up();
        cr_expect_eq(fail(A, rows[i].failures, rows[i].over_ms) == DESTINATION_HAS_OPENED, rows[i].opens, "row %zu", i);
        cr_expect_eq(view(A).state == DESTINATION_STATE_OPEN, rows[i].opens, "row %zu", i);
    }
}

Test(destinations, a_success_between_starts_the_count_and_the_time_anew)
{
    (void)fail(A, 99, 40000);
    cr_expect_eq(attempt(A, OUTCOME_ALIVE), DESTINATION_SAME);
    cr_expect_eq(view(A).failures_in_a_row, 0);
    cr_expect_eq(fail(A, 200, 29999), DESTINATION_SAME);
    now += 1;
    cr_expect_eq(attempt(A, OUTCOME_BUSY), DESTINATION_HAS_OPENED, "being busy is a failure too");
}

Test(destinations, what_was_never_asked_neither_fails_nor_succeeds)
{
    (void)fail(A, 99, 40000);
    cr_expect_eq(attempt(A, OUTCOME_UNKNOWN), DESTINATION_SAME);
    cr_expect_eq(view(A).failures_in_a_row, 99);
}

Test(destinations, a_breaker_that_is_off_never_opens)
{
    const struct destinations_opts opts = {.capacity = 64, .breaker_after_ms = 0, .breaker_probe_ms = 5000};

    destinations_destroy(&all);
    all = destinations_create(&opts);
    cr_expect_eq(fail(A, 10000, 3600000), DESTINATION_SAME);
}

Test(destinations, an_open_one_gets_a_probe_less_and_less_often)
{
    static const int64_t waits_ms[] = {5000, 5000, 10000, 20000, 40000, 60000, 60000};
    struct destination_ticket ticket;

    cr_assert_eq(fail(A, 100, 30000), DESTINATION_HAS_OPENED);
    for (size_t i = 0; i < sizeof waits_ms / sizeof *waits_ms; i++) {
        cr_expect_eq(view(A).next_probe_mono_ms, now + waits_ms[i], "probe %zu", i);
        now += waits_ms[i] - 1;
        cr_assert_eq(start(A, &ticket), DESTINATION_CLOSED, "probe %zu comes too early", i);
        cr_expect_eq(view(A).state, DESTINATION_STATE_OPEN);
        now++;
        cr_assert_eq(start(A, &ticket), DESTINATION_GO, "probe %zu", i);
        cr_expect(ticket.is_probe);
        cr_expect_eq(view(A).state, DESTINATION_STATE_HALF_OPEN);
        struct destination_ticket other;
        cr_expect_eq(start(A, &other), DESTINATION_CLOSED, "one at a time");
        cr_expect_eq(end(A, ticket, OUTCOME_FAILING), DESTINATION_SAME);
    }
}

Test(destinations, a_probe_that_hangs_does_not_hold_up_the_next)
{
    struct destination_ticket first, second;

    (void)fail(A, 100, 30000);
    now += 5000;
    cr_assert_eq(start(A, &first), DESTINATION_GO);
    now += 5000;
    cr_assert_eq(start(A, &second), DESTINATION_GO);
    cr_expect_eq(end(A, second, OUTCOME_ALIVE), DESTINATION_HAS_CLOSED);
    cr_expect_eq(end(A, first, OUTCOME_FAILING), DESTINATION_SAME);
    cr_expect_eq(room(A), 200);
}

Test(destinations, a_probe_that_succeeds_closes_it_and_everything_may_go)
{
    (void)fail(A, 100, 30000);
    now += 5000;
    cr_expect_eq(attempt(A, OUTCOME_ALIVE), DESTINATION_HAS_CLOSED);
    cr_expect_eq(view(A).state, DESTINATION_STATE_CLOSED);
    cr_expect_eq(view(A).next_probe_mono_ms, -1);
    cr_expect_eq(view(A).failures_in_a_row, 0);
    cr_expect_eq(room(A), 200);
    cr_expect_eq(fail(A, 100, 29999), DESTINATION_SAME, "all begins anew");
}

Test(destinations, a_late_success_of_before_closes_it_too)
{
    struct destination_ticket slow;

    cr_assert_eq(start(A, &slow), DESTINATION_GO);
    cr_assert_eq(fail(A, 100, 30000), DESTINATION_HAS_OPENED);
    cr_expect_eq(end(A, slow, OUTCOME_ALIVE), DESTINATION_HAS_CLOSED);
}

Test(destinations, one_that_is_open_stops_no_other)
{
    (void)fail(A, 100, 30000);
    cr_expect_eq(room(A), 0);
    cr_expect_eq(room(B), 200);
}

/* ------------------------------------------------------------- backing off */

Test(destinations, waiting_grows_while_nothing_succeeds_and_ends_with_a_success)
{
    struct destination_ticket ticket;
    bool is_stuck;
    int64_t wait;

    cr_assert_eq(start(A, &ticket), DESTINATION_GO);
    wait = destinations_back_off_ms(all, hash_of(A), now, 0, &is_stuck);
    cr_expect_eq(wait, 100);
    cr_expect_not(is_stuck, "the first time may be a burst");
    now += 50;
    cr_expect_eq(back_off(A, 0), 100, "many at once grow it once");
    cr_expect_eq(back_off(A, 0.5), 150, "spread");
    for (int i = 0; i < 20; i++) {
        now += wait;
        wait = destinations_back_off_ms(all, hash_of(A), now, 0, &is_stuck);
    }
    cr_expect_eq(wait, 30000);
    cr_expect(is_stuck);
    (void)end(A, ticket, OUTCOME_ALIVE);
    wait = destinations_back_off_ms(all, hash_of(A), now, 0, &is_stuck);
    cr_expect_eq(wait, 100);
    cr_expect_not(is_stuck);
}

Test(destinations, behind_an_open_one_a_few_tasks_wait_for_the_next_probe)
{
    (void)fail(A, 100, 30000);
    now += 1000;
    cr_expect_eq(back_off(A, 0), 4000);
    for (int i = 0; i < 9; i++)
        cr_expect(back_off(A, 0.99) >= 4000 && back_off(A, 0.99) < 4000 + 100);
}

Test(destinations, while_a_probe_is_on_the_way_tasks_come_back_soon)
{
    struct destination_ticket probe;

    (void)fail(A, 100, 30000);
    now += 5000;
    cr_assert_eq(start(A, &probe), DESTINATION_GO);
    cr_expect_eq(back_off(A, 0), 100);
    now += 2000;
    cr_expect_eq(back_off(A, 0), 2000, "as long again as it has already taken");
}

/* What a backlog costs: each task comes back when its wait is over and is given back again. Time in steps of 10 ms. */
static int given_back_a_second(int tasks, int64_t seconds)
{
    int64_t *due = calloc((size_t)tasks, sizeof *due);
    int given_back = 0;
    int64_t from = now + (seconds - 60) * SECOND_MS, until = now + seconds * SECOND_MS;
    unsigned dice = 1;

    for (; now < until; now += 10) {
        for (int i = 0; i < tasks; i++) {
            struct destination_ticket ticket;
            if (due[i] > now)
                continue;
            dice = dice * 1103515245u + 12345u;
            if (start(A, &ticket) == DESTINATION_GO)
                (void)end(A, ticket, OUTCOME_FAILING);
            due[i] = now + back_off(A, (double)(dice >> 8 & 0xffff) / 65536);
            given_back += now >= from;
        }
    }
    free(due);
    return given_back / 60;
}

Test(destinations, a_large_backlog_of_a_dead_one_costs_a_few_hundred_turns_a_second)
{
    (void)fail(A, 100, 30000);
    int rate = given_back_a_second(20000, 300);
    cr_expect_leq(rate, 1000, "%d a second", rate);
    cr_expect_geq(rate, 50, "%d a second: they must come back, too", rate);
}

Test(destinations, a_crowd_of_yesterday_keeps_nobody_waiting)
{
    (void)attempt(A, OUTCOME_BUSY);
    for (int i = 0; i < 100000; i++)
        (void)back_off(A, 0);
    (void)attempt(A, OUTCOME_ALIVE);
    cr_expect_gt(back_off(A, 0.5), 50000);
    now += 20 * MINUTE_MS;
    (void)attempt(A, OUTCOME_ALIVE);
    cr_expect_leq(back_off(A, 0.99), 200);
}

Test(destinations, one_that_nobody_knows_waits_shortly)
{
    cr_expect_eq(back_off(A, 0), 100);
}

/* ------------------------------------------------------------- the table */

static struct destinations_summary summary(void)
{
    struct destinations_summary s;

    destinations_summarize(all, now, &s);
    return s;
}

Test(destinations, they_are_forgotten_when_nobody_has_used_them_for_long)
{
    struct destination_ticket held;

    cr_assert_eq(start("http://held/", &held), DESTINATION_GO);
    (void)attempt(A, OUTCOME_FAILING);
    (void)attempt("http://limited/", OUTCOME_BUSY);
    cr_expect_eq(summary().count, 3);
    cr_expect_eq(summary().limited, 1);
    now += 10 * MINUTE_MS - 1;
    cr_expect_eq(summary().count, 3);
    now += 1;
    cr_expect_eq(summary().count, 2, "the normal one is gone");
    now += 50 * MINUTE_MS;
    cr_expect_eq(summary().count, 1, "so is the limited one");
    now += 1000 * MINUTE_MS;
    cr_expect_eq(summary().count, 1, "never one with an attempt in flight");
    (void)end("http://held/", held, OUTCOME_ALIVE);
}

Test(destinations, there_are_at_most_ten_thousand_and_the_oldest_go)
{
    struct destination_ticket held;

    cr_assert_eq(start(A, &held), DESTINATION_GO);
    (void)attempt(B, OUTCOME_BUSY);
    for (int i = 0; i < 9998; i++) {
        char url[64];
        (void)snprintf(url, sizeof url, "http://host-%d/", i);
        (void)attempt(url, OUTCOME_ALIVE);
    }
    cr_expect_eq(summary().count, 10000);
    cr_expect_eq(room(B), 1);
    (void)attempt("http://one-more/", OUTCOME_ALIVE);
    cr_expect_eq(summary().count, 10000);
    cr_expect_eq(room("http://host-0/"), 200, "it is new");
    cr_expect_eq(view(A).in_flight, 1, "the oldest, but in use");
}

Test(destinations, the_worst_come_first)
{
    static const char *const want[] = {"http://a.example:80", "http://limited:80", "http://fails-often:80",
                                       "http://fails:80",     "http://busy:80",    "http://fine:80"};
    struct destination_ticket busy;
    size_t count;

    (void)attempt("http://fine/", OUTCOME_ALIVE);
    cr_assert_eq(start("http://busy/", &busy), DESTINATION_GO);
    (void)fail("http://fails/", 2, 0);
    (void)fail("http://fails-often/", 3, 0);
    (void)attempt("http://limited/", OUTCOME_BUSY);
    (void)fail(A, 100, 30000);
    struct destination_view *list = destinations_list(all, now, 1000, &count);
    cr_assert_eq(count, sizeof want / sizeof *want);
    for (size_t i = 0; i < count; i++)
        cr_expect_str_eq(list[i].name, want[i], "place %zu", i);
    cr_expect_eq(list[0].failures_in_a_row, 100);
    cr_expect_eq(list[0].last_failure_mono_ms, now);
    cr_expect_eq(list[0].last_success_mono_ms, -1);
    cr_expect_eq(list[0].last_error_kind, TASK_ERROR_CONNECT);
    cr_expect_eq(list[1].limit, 1);
    cr_expect_eq(list[4].in_flight, 1);
    destinations_free_list(list, count);
    list = destinations_list(all, now, 2, &count);
    cr_expect_eq(count, 2);
    cr_expect_str_eq(list[1].name, want[1]);
    destinations_free_list(list, count);
    cr_expect_eq(summary().open, 1);
}
