#include "http/cursor_priv.h"
#include <criterion/criterion.h>
#include <string.h>

Test(cursor, what_is_written_is_read)
{
    static const struct {
        enum task_state state;
        struct store_place after;
        const char *text;
    } rows[] = {
        {TASK_SCHEDULED, {"", ""}, "scheduled"},
        {TASK_DELIVERING, {"", ""}, "delivering"},
        {TASK_SCHEDULED, {"1700000000000", "order-1"}, "scheduled.1700000000000.order-1"},
        {TASK_DEAD, {"0", "a.b:c_d-e"}, "dead.0.a.b:c_d-e"},
        {TASK_READY, {"1700000000000-0", ""}, "ready.1700000000000-0"},
        {TASK_DELIVERING,
         {"1700000000000-9999999999999999999", "shown"},
         "delivering.1700000000000-9999999999999999999"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct store_place after;
        enum task_state state;
        struct buf out;
        buf_init(&out, 1000);
        cursor_write(&out, rows[i].state, &rows[i].after);
        cr_expect_str_eq(out.data, rows[i].text);
        cr_assert(cursor_read(out.data, &state, &after), "%s", rows[i].text);
        cr_expect_eq(state, rows[i].state);
        cr_expect_str_eq(after.score, rows[i].after.score);
        bool has_id = state != TASK_READY && state != TASK_DELIVERING;
        cr_expect_str_eq(after.id, has_id ? rows[i].after.id : "");
        buf_deinit(&out);
    }
}

Test(cursor, anything_else_is_refused)
{
    static const char *const rows[] = {
        "",
        ".",
        "Dead",
        "gone",
        "scheduled.",
        "scheduled.1",
        "scheduled.1.",
        "scheduled..a",
        "scheduled.-1.a",
        "scheduled.1e3.a",
        "scheduled.inf.a",
        "scheduled.1-0.a",
        "scheduled.12345678901234567890.a",
        "ready.18446744073709551616-0",
        "ready.18446744073709551615-18446744073709551615",
        "scheduled.1.a b",
        "scheduled.1.-a",
        "ready.1",
        "ready.1-",
        "ready.-1",
        "ready.1-0.",
        "ready.1-0.a",
        "ready.1-0-0",
        "delivering.1-12345678901234567890",
        "scheduled.1."
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct store_place after;
        enum task_state state;
        cr_expect_not(cursor_read(rows[i], &state, &after), "%s", rows[i]);
    }
}
