#include "../support/manager.h"
#include "app/notify.h"
#include <criterion/criterion.h>
#include <string.h>

static struct manager *manager;
static struct notify n;

static void setup(void)
{
    manager = manager_create(false);
}

static void teardown(void)
{
    manager_destroy(&manager);
}

TestSuite(notify, .init = setup, .fini = teardown);

Test(notify, says_first_what_it_waits_for_and_then_once_that_it_is_ready)
{
    notify_begin(&n, manager_address(manager), 1000);
    cr_assert_str_eq(manager_told(manager), "STATUS=waiting for Redis");
    notify_progress(&n, false, 1010);
    cr_assert_str_eq(manager_told(manager), "");
    notify_progress(&n, true, 1020);
    cr_assert_str_eq(manager_told(manager), "READY=1\nSTATUS=ready");
    cr_assert_str_eq(manager_told(manager), "");
}

Test(notify, the_start_is_over_after_a_while_although_redis_is_away)
{
    notify_begin(&n, manager_address(manager), 1000);
    cr_assert_str_eq(manager_told(manager), "STATUS=waiting for Redis");
    notify_progress(&n, false, 1000 + NOTIFY_PATIENCE_MS - 1);
    cr_assert_str_eq(manager_told(manager), "");
    notify_progress(&n, false, 1000 + NOTIFY_PATIENCE_MS);
    cr_assert_str_eq(manager_told(manager), "READY=1\nSTATUS=not ready yet: /readyz and the log say why");
    notify_progress(&n, false, 1000 + 2 * NOTIFY_PATIENCE_MS);
    cr_assert_str_eq(manager_told(manager), "", "it is said once");
    notify_progress(&n, true, 1000 + 3 * NOTIFY_PATIENCE_MS);
    cr_assert_str_eq(manager_told(manager), "STATUS=ready");
}

Test(notify, the_end_asks_for_the_time_it_may_take)
{
    notify_begin(&n, manager_address(manager), 0);
    cr_assert_str_eq(manager_told(manager), "STATUS=waiting for Redis");
    notify_stopping(&n, 3600000);
    cr_assert_str_eq(manager_told(manager),
                     "STOPPING=1\nSTATUS=finishing what is in flight\nEXTEND_TIMEOUT_USEC=3600000000");
}

Test(notify, an_abstract_socket_is_written_with_an_at_sign)
{
    manager_destroy(&manager);
    manager = manager_create(true);
    cr_assert_eq(manager_address(manager)[0], '@');
    notify_begin(&n, manager_address(manager), 0);
    cr_assert_str_eq(manager_told(manager), "STATUS=waiting for Redis");
}

Test(notify, without_a_manager_nothing_is_sent)
{
    char long_path[sizeof n.address.sun_path + 1];
    const char *const none[] = {NULL, "", long_path};

    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        notify_begin(&n, none[i], 0);
        notify_progress(&n, true, 0);
        cr_assert(n.is_started);
        cr_assert_eq(n.address_bytes, 0);
    }
}

Test(notify, a_manager_that_has_gone_does_no_harm)
{
    notify_begin(&n, manager_address(manager), 0);
    manager_destroy(&manager);
    notify_progress(&n, true, 0);
    cr_assert(n.is_started);
}
