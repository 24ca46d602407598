/* How descriptors are shared out when there are few. Each test is a process of its own, so limits can be lowered. */
#include "../../src/app/limits.h"
#include <criterion/criterion.h>
#include <sys/resource.h>

Test(app_limits, connections_of_clients_give_way_first_and_then_deliveries)
{
    static const struct {
        rlim_t descriptors;
        int wanted, connections, concurrency;
    } cases[] = {
        {1000, 256, 136, 256}, /* deliveries have what they want */
        {1000, 300, 113, 263}, /* an eighth is left to clients */
        {300, 256, 25, 59},
        {100, 64, 16, 1}, /* the least of both */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct rlimit r = {cases[i].descriptors, cases[i].descriptors};
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
        struct app_limits limits = app_limits_fit(cases[i].wanted);
        cr_expect_eq(limits.connections, cases[i].connections, "case %zu: %d", i, limits.connections);
        cr_expect_eq(limits.concurrency, cases[i].concurrency, "case %zu: %d", i, limits.concurrency);
    }
}

Test(app_limits, the_soft_limit_is_raised)
{
    struct rlimit r = {200, 900};

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
    app_limits_fit(64);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
    cr_expect_eq(r.rlim_cur, 900);
}
