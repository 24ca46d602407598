#include "store/waiting_priv.h"
#include <criterion/criterion.h>

static struct waiting w;
static struct store_op ops[4];

static void set_up(void)
{
    w = (struct waiting){0};
    for (size_t i = 0; i < 4; i++)
        ops[i] = (struct store_op){.kind = STORE_SETTLE};
}

TestSuite(waiting, .init = set_up);

static size_t count(struct op_list l)
{
    size_t n = 0;

    while (l.first) {
        (void)op_list_take(&l);
        n++;
    }
    return n;
}

Test(waiting, operations_keep_their_order_and_come_back_in_front)
{
    waiting_add(&w, &ops[0]);
    waiting_add(&w, &ops[1]);
    cr_assert_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[0]);
    waiting_put_back(&w, &ops[0]);
    cr_expect_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[0]);
    cr_expect_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[1]);
    cr_expect(waiting_is_empty(&w));
}

Test(waiting, a_kind_that_is_held_waits_and_others_do_not)
{
    ops[1].kind = STORE_CREATE;
    waiting_add(&w, &ops[0]);
    waiting_add(&w, &ops[1]);
    waiting_hold(&w, STORE_SETTLE, 1000);
    cr_expect_not(waiting_is_due(&w, STORE_SETTLE, 1199));
    cr_expect(waiting_is_due(&w, STORE_SETTLE, 1200));
    cr_expect(waiting_is_due(&w, STORE_CREATE, 1000));
    cr_expect_not(waiting_is_due(&w, STORE_GET, 1000));
}

Test(waiting, one_that_is_put_aside_holds_up_nobody)
{
    waiting_put_aside(&w, &ops[0], 1000);
    waiting_add(&w, &ops[1]);
    cr_expect(waiting_is_due(&w, STORE_SETTLE, 1000));
    cr_expect_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[1]);
    cr_expect_not(waiting_is_empty(&w));
    cr_expect_eq(count(waiting_expire(&w, 1199)), 0);
    cr_expect_not(waiting_is_due(&w, STORE_SETTLE, 1199));
    cr_expect_eq(count(waiting_expire(&w, 1200)), 0);
    cr_expect(waiting_is_due(&w, STORE_SETTLE, 1200));
}

Test(waiting, it_is_tried_more_and_more_seldom_but_at_least_each_30_s)
{
    static const int64_t waits_ms[] = {200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    int64_t now = 0;

    for (size_t i = 0; i < sizeof(waits_ms) / sizeof(*waits_ms); i++) {
        waiting_put_aside(&w, &ops[0], now);
        (void)waiting_expire(&w, now + waits_ms[i] - 1);
        cr_expect_null(w.kinds[STORE_SETTLE].first, "try %zu", i);
        now += waits_ms[i];
        (void)waiting_expire(&w, now);
        cr_assert_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[0], "try %zu", i);
    }
}

Test(waiting, what_is_past_its_deadline_is_taken_out)
{
    ops[0].deadline_mono_ms = 500;
    ops[1].deadline_mono_ms = 501;
    for (size_t i = 0; i < 3; i++)
        waiting_add(&w, &ops[i]);
    struct op_list late = waiting_expire(&w, 500);
    cr_expect_eq(op_list_take(&late), &ops[0]);
    cr_expect_null(late.first);
    cr_expect_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[1]);
    cr_expect_eq(op_list_take(&w.kinds[STORE_SETTLE]), &ops[2]);
}

Test(waiting, everything_can_be_taken_out)
{
    ops[1].kind = STORE_GET;
    waiting_add(&w, &ops[0]);
    waiting_add(&w, &ops[1]);
    waiting_put_aside(&w, &ops[2], 0);
    cr_expect_eq(count(waiting_take_all(&w)), 3);
    cr_expect(waiting_is_empty(&w));
}
