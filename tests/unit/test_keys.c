#include "store/keys_priv.h"
#include <criterion/criterion.h>
#include <string.h>

static struct keys keys;

static void set_up(void)
{
    keys_init(&keys, "shop", 7);
}

static void tear_down(void)
{
    keys_deinit(&keys);
}

TestSuite(keys, .init = set_up, .fini = tear_down);

/* In the order in which lua/common.lua takes them apart. */
Test(keys, the_containers_have_their_names_in_the_order_of_the_scripts)
{
    static const char *const names[KEYS_FIXED] = {
        "shop{7}:lanes",     "shop{7}:ready",   "shop{7}:totals",    "shop{7}:out",
        "shop{7}:busy",      "shop{7}:queues",  "shop{7}:delivered", "shop{7}:dead",
        "shop{7}:cancelled", "shop{7}:expired", "shop{7}:workers",   "shop{7}:flight",
        "shop{7}:settings",  "shop{7}:rates",   "shop{7}:expiry",    "shop{7}:callbacks"};

    for (size_t i = 0; i < KEYS_FIXED; i++) {
        cr_expect_str_eq(keys.fixed[i], names[i]);
        cr_expect_eq(keys.fixed_bytes[i], strlen(names[i]));
    }
    cr_expect_str_eq(keys.lanes, "shop{7}:lanes");
    cr_expect_str_eq(keys.ready, "shop{7}:ready");
}

Test(keys, what_is_no_container_has_the_same_hash_tag)
{
    cr_expect_str_eq(keys.base, "shop{7}");
    cr_expect_eq(keys.base_bytes, strlen("shop{7}"));
    cr_expect_str_eq(keys.meta, "shop{7}:meta");
    cr_expect_str_eq(keys.probe, "shop{7}:probe");
    cr_expect_str_eq(keys.wake, "shop{7}:wake");
}

Test(keys, partitions_share_no_key)
{
    struct keys other;

    keys_init(&other, "shop", 8);
    for (size_t i = 0; i < KEYS_FIXED; i++)
        cr_expect_str_neq(keys.fixed[i], other.fixed[i]);
    cr_expect_str_neq(keys.meta, other.meta);
    cr_expect_str_neq(keys.wake, other.wake);
    keys_deinit(&other);
}
