#include "plain.h"
#include <stdio.h>

static int passed, failed;

void plain_result(bool is_good, const char *what)
{
    if (is_good)
        passed++;
    else
        failed++;
    if (!is_good)
        printf("failed: %s\n", what);
}

int plain_end(void)
{
    printf("%d passed, %d failed\n", passed, failed);
    return passed > 0 && failed == 0 ? 0 : 1;
}
