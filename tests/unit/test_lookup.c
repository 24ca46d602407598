/* The gate before name lookups: how many, for whom, and for how long. */
#include "deliver/lookup_priv.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#define SECOND_US INT64_C(1000000)

static struct lookup_gate gate;

struct url_case {
    char url[64];
    bool needs_lookup;
};

ParameterizedTestParameters(lookup, only_names_need_a_lookup)
{
    static struct url_case cases[] = {
        {"http://example.com/", true},    {"https://example.com:8443", true}, {"http://127.0.0.1/", false},
        {"http://127.0.0.1:80/x", false}, {"http://[::1]:80/", false},        {"http://a?b", true},
        {"http://a.example#f", true},
    };

    return cr_make_param_array(struct url_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct url_case *c, lookup, only_names_need_a_lookup)
{
    cr_expect_eq(lookup_host(c->url) != 0, c->needs_lookup, "%s", c->url);
}

Test(lookup, a_host_is_the_same_in_any_case_and_at_any_port_and_path)
{
    cr_expect_eq(lookup_host("http://Example.COM/a"), lookup_host("https://example.com:8443?b"));
    cr_expect_neq(lookup_host("http://example.com/"), lookup_host("http://example.org/"));
}

Test(lookup, an_address_passes)
{
    cr_expect_eq(lookup_enter(&gate, 0, 0), LOOKUP_NOT_NEEDED);
}

Test(lookup, one_lookup_of_a_host_at_a_time)
{
    cr_expect_eq(lookup_enter(&gate, 7, 0), LOOKUP_MAY_BEGIN);
    cr_expect_eq(lookup_enter(&gate, 7, 0), LOOKUP_MUST_WAIT);
    cr_expect_eq(lookup_enter(&gate, 8, 0), LOOKUP_MAY_BEGIN);
}

Test(lookup, a_name_that_was_found_passes_for_a_while)
{
    cr_assert_eq(lookup_enter(&gate, 7, 0), LOOKUP_MAY_BEGIN);
    lookup_leave(&gate, 7, LOOKUP_FOUND, 0);
    cr_expect_eq(lookup_enter(&gate, 7, 29 * SECOND_US), LOOKUP_NOT_NEEDED);
    cr_expect_eq(lookup_enter(&gate, 7, 31 * SECOND_US), LOOKUP_MAY_BEGIN);
}

Test(lookup, a_name_that_was_not_found_is_looked_up_again)
{
    cr_assert_eq(lookup_enter(&gate, 7, 0), LOOKUP_MAY_BEGIN);
    lookup_leave(&gate, 7, LOOKUP_FAILED, 0);
    cr_expect_eq(lookup_enter(&gate, 7, 0), LOOKUP_MAY_BEGIN);
}

Test(lookup, no_more_than_64_at_once)
{
    for (uint64_t host = 1; host <= LOOKUP_MAX; host++)
        cr_assert_eq(lookup_enter(&gate, host, 0), LOOKUP_MAY_BEGIN);
    cr_expect_eq(lookup_enter(&gate, 1000, 0), LOOKUP_MUST_WAIT);
    lookup_leave(&gate, 5, LOOKUP_FAILED, 0);
    cr_expect_eq(lookup_enter(&gate, 1000, 0), LOOKUP_MAY_BEGIN);
    cr_expect_eq(lookup_enter(&gate, 1001, 0), LOOKUP_MUST_WAIT);
}

Test(lookup, one_that_was_let_go_keeps_its_place_while_its_thread_may_run)
{
    for (uint64_t host = 1; host <= LOOKUP_MAX; host++) {
        cr_assert_eq(lookup_enter(&gate, host, 0), LOOKUP_MAY_BEGIN);
        lookup_leave(&gate, host, LOOKUP_LET_GO, (int64_t)host * SECOND_US);
    }
    cr_expect_eq(lookup_enter(&gate, 1000, 30 * SECOND_US), LOOKUP_MUST_WAIT);
    cr_expect_eq(lookup_next_free_us(&gate), 31 * SECOND_US);
    cr_expect_eq(lookup_enter(&gate, 1000, 31 * SECOND_US), LOOKUP_MAY_BEGIN);
}

Test(lookup, a_host_whose_lookups_hang_cannot_take_every_place)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(lookup_enter(&gate, 7, i), LOOKUP_MAY_BEGIN);
        lookup_leave(&gate, 7, LOOKUP_LET_GO, i);
    }
    cr_expect_eq(lookup_enter(&gate, 7, 10), LOOKUP_MUST_WAIT);
    cr_expect_eq(lookup_enter(&gate, 8, 10), LOOKUP_MAY_BEGIN);
}
