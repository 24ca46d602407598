#include "base/mem.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

Test(mem, calloc_gives_zeroes)
{
    unsigned char *p = xcalloc(16, 4);

    for (int i = 0; i < 64; i++)
        cr_expect_eq(p[i], 0);
    free(p);
}

Test(mem, nothing_asked_for_is_still_a_pointer)
{
    void *p = xcalloc(0, 8);

    cr_expect_not_null(p);
    p = xrealloc(p, 0);
    cr_expect_not_null(p);
    free(p);
}

Test(mem, strings_are_copied_to_their_length)
{
    char *whole = xstrdup("duepost");
    char *part = xstrndup("duepost", 3);

    cr_expect_str_eq(whole, "duepost");
    cr_expect_str_eq(part, "due");
    free(whole);
    free(part);
}

Test(mem, more_than_there_can_be_aborts, .signal = SIGABRT)
{
    free(xcalloc(SIZE_MAX / 2, 4));
}
