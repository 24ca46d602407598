#include "base/process.h"
#include "base/clock.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <unistd.h>

Test(process, usage_is_what_the_kernel_says)
{
    struct process_usage before, after;
    int fd = -1;

    process_read_usage(&before);
    fd = open("/dev/null", O_RDONLY);
    cr_assert_geq(fd, 0);
    process_read_usage(&after);
    (void)close(fd);
    cr_expect_eq(after.open_fds, before.open_fds + 1);
    cr_expect_gt(before.open_fds, 2);
    cr_expect_geq(after.max_fds, after.open_fds);
    cr_expect_gt(after.resident_bytes, 100000);
    cr_expect_geq(after.virtual_bytes, after.resident_bytes);
    cr_expect_geq(after.cpu_s, before.cpu_s);
}

Test(process, it_started_a_moment_ago)
{
    struct process_usage u;
    double now_s = (double)clock_wall_ms() / 1e3;

    process_read_usage(&u);
    cr_expect_leq(u.started_at_s, now_s + 1);
    cr_expect_geq(u.started_at_s, now_s - 60, "%f is not near %f", u.started_at_s, now_s);
}
