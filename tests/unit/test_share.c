#include "run/share.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct share *share;

static void set_up(void)
{
    share = share_create();
}

static void tear_down(void)
{
    share_destroy(&share);
}

TestSuite(share, .init = set_up, .fini = tear_down);

Test(share, a_receiver_is_a_scheme_host_and_port)
{
    static const struct {
        const char *a, *b;
        bool is_same;
    } rows[] = {
        {"http://a.example/x", "http://a.example/y?z", true},    {"http://a.example", "http://a.example/#f", true},
        {"HTTP://A.example/", "http://a.EXAMPLE/", true},        {"http://a.example/", "http://b.example/", false},
        {"http://a.example:80/", "http://a.example:81/", false}, {"http://a.example/", "https://a.example/", false},
        {"http://[::1]:9/", "http://[::1]:9/x", true},           {"http://a.example/", "http://a.example:80/", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct share_host *a = share_enter(share, rows[i].a);
        struct share_host *b = share_enter(share, rows[i].b);
        cr_expect_eq(a == b, rows[i].is_same, "%s %s", rows[i].a, rows[i].b);
        share_leave(share, a);
        share_leave(share, b);
    }
}

Test(share, one_receiver_never_takes_all_slots_and_others_always_find_one)
{
    enum { SLOTS = 256 };
    int free_slots = SLOTS;

    /* Receiver after receiver takes what it may: each leaves an eighth of what it found, so a third one still finds
     * one. */
    for (int receiver = 0; receiver < 2; receiver++) {
        char url[32];
        (void)snprintf(url, sizeof url, "http://host-%d/", receiver);
        struct share_host *h = share_enter(share, url);
        int found = free_slots;
        while (share_may_start(h, free_slots)) {
            share_start(h);
            free_slots--;
        }
        cr_expect_gt(free_slots, 0, "receiver %d", receiver);
        cr_expect_leq(free_slots, found / 8 + 1, "receiver %d leaves %d of %d", receiver, free_slots, found);
    }
}

Test(share, a_single_slot_can_be_used)
{
    struct share_host *h = share_enter(share, "http://a/");

    cr_expect(share_may_start(h, 1));
    share_start(h);
    cr_expect_not(share_may_start(h, 0));
}

Test(share, a_slot_given_back_can_be_taken_again)
{
    struct share_host *h = share_enter(share, "http://a/");

    for (int i = 0; i < 8; i++)
        share_start(h);
    cr_expect_not(share_may_start(h, 1));
    share_end(h, false);
    cr_expect(share_may_start(h, 1));
}

Test(share, a_receiver_is_stuck_until_something_succeeds)
{
    struct share_host *h = share_enter(share, "http://a/");

    cr_expect_not(share_is_stuck(h));
    share_set_stuck(h, true);
    share_start(h);
    share_end(h, false);
    cr_expect(share_is_stuck(h));
    share_start(h);
    share_end(h, true);
    cr_expect_not(share_is_stuck(h));
}
