#include "task/trace.h"
#include <criterion/criterion.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define MIDDLE "-" TRACE "-" PARENT "-"

Test(trace, what_the_specification_allows_is_kept)
{
    static const struct {
        const char *value;
        const char *kept;
    } rows[] = {
        {"00" MIDDLE "00", "00" MIDDLE "00"},
        {"00" MIDDLE "01", "00" MIDDLE "01"},
        {"00" MIDDLE "03", "00" MIDDLE "03"},
        {"00" MIDDLE "ff", "00" MIDDLE "ff"},
        {"00-00000000000000000000000000000001-0000000000000001-00",
         "00-00000000000000000000000000000001-0000000000000001-00"},
        /* Versions to come: as far as 00 goes, with the one flag that is known. */
        {"01" MIDDLE "01", "00" MIDDLE "01"},
        {"01" MIDDLE "02", "00" MIDDLE "00"},
        {"cc" MIDDLE "fb", "00" MIDDLE "01"},
        {"fe" MIDDLE "00-what-the-future-will-be-like", "00" MIDDLE "00"},
        {"01" MIDDLE "09-", "00" MIDDLE "01"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char kept[TASK_TRACEPARENT_BYTES + 1] = "";

        cr_expect(trace_read_parent(rows[i].value, strlen(rows[i].value), kept), "%s", rows[i].value);
        cr_expect_str_eq(kept, rows[i].kept);
    }
}

Test(trace, anything_else_is_ignored)
{
    static const char *const rows[] = {
        "",
        "00",
        "00" MIDDLE,
        "00" MIDDLE "0",
        "00" MIDDLE "011",
        "00" MIDDLE "01-",
        "00" MIDDLE "01-more",
        "00" MIDDLE "01 ",
        " 00" MIDDLE "01",
        "ff" MIDDLE "01",
        "FF" MIDDLE "01",
        "0g" MIDDLE "01",
        "0" MIDDLE "001",
        "00" MIDDLE "0A",
        "00" MIDDLE "0x",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
        "00-" TRACE "-B7AD6B7169203331-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "01" MIDDLE "01.more",
        "01" MIDDLE "011",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char kept[TASK_TRACEPARENT_BYTES + 1];

        cr_expect_not(trace_read_parent(rows[i], strlen(rows[i]), kept), "%s", rows[i]);
    }
}
