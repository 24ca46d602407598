#include "base/ident.h"
#include "base/thread.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MANY 100000

typedef char ident[IDENT_TASK_CHARS + 1];

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

Test(ident, has_the_length_asked_for_and_only_letters_and_digits)
{
    char text[301];

    for (size_t n = 0; n <= 300; n += 50) {
        memset(text, '#', sizeof(text));
        ident_random(text, n);
        cr_expect_eq(strlen(text), n);
        for (size_t i = 0; i < n; i++)
            cr_expect(isalnum((unsigned char)text[i]));
    }
}

Test(ident, a_hundred_thousand_task_ids_are_all_different)
{
    ident *ids = calloc(MANY, sizeof(ident));

    for (int i = 0; i < MANY; i++)
        ident_random(ids[i], IDENT_TASK_CHARS);
    qsort(ids, MANY, sizeof(ident), compare);
    for (int i = 1; i < MANY; i++)
        cr_expect_str_neq(ids[i], ids[i - 1]);
    free(ids);
}

/* 620,000 characters, 10,000 of each expected with a deviation of 100: seven deviations are allowed. A remainder
 * instead of rejection would give the first characters a quarter more. */
Test(ident, all_characters_are_equally_likely)
{
    static char text[620001];
    int counts[256] = {0};

    ident_random(text, sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        counts[(unsigned char)text[i]]++;
    for (int c = 0; c < 256; c++)
        if (isalnum(c))
            cr_expect(counts[c] > 9300 && counts[c] < 10700, "%c: %d", c, counts[c]);
}

static void make(void *ctx)
{
    ident_random(ctx, IDENT_TASK_CHARS);
}

Test(ident, threads_do_not_share_random_bytes)
{
    ident ids[2];
    struct thread *threads[2] = {NULL};

    for (int i = 0; i < 2; i++)
        cr_assert_eq(thread_start("ident", make, ids[i], &threads[i]), ERR_OK);
    for (int i = 0; i < 2; i++)
        thread_join(&threads[i]);
    cr_expect_str_neq(ids[0], ids[1]);
}
