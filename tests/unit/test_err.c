#include "base/err.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

Test(err, every_error_has_a_snake_case_code_a_status_and_a_title)
{
    for (int i = 0; i < ERR_COUNT; i++) {
        const char *code = err_code((enum err)i);

        cr_expect_gt(strlen(code), 0);
        for (const char *c = code; *c; c++)
            cr_expect(islower((unsigned char)*c) || *c == '_', "%s", code);
        cr_expect(err_status((enum err)i) == 200 || (err_status((enum err)i) >= 400 && err_status((enum err)i) < 600),
                  "%s", code);
        cr_expect_gt(strlen(err_title((enum err)i)), 0, "%s", code);
    }
}

Test(err, codes_are_unique)
{
    for (int i = 0; i < ERR_COUNT; i++)
        for (int j = 0; j < i; j++)
            cr_expect_str_neq(err_code((enum err)i), err_code((enum err)j));
}

Test(err, known_codes_and_statuses_are_stable)
{
    cr_expect_str_eq(err_code(ERR_STATE_CONFLICT), "state_conflict");
    cr_expect_eq(err_status(ERR_STATE_CONFLICT), 409);
    cr_expect_str_eq(err_code(ERR_OK), "ok");
    cr_expect_eq(err_status(ERR_OK), 200);
}

Test(err, a_value_out_of_range_is_an_unknown_500)
{
    enum err beyond = ERR_COUNT;

    cr_expect_str_eq(err_code(beyond), "unknown");
    cr_expect_eq(err_status(beyond), 500);
    cr_expect_str_eq(err_title(beyond), err_title(ERR_INTERNAL));
    cr_expect_str_eq(err_code((enum err) - 1), "unknown");
}
