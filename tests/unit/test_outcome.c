#include "task/outcome.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define RUN_AT INT64_C(1900000000000)
#define HOUR INT64_C(3600000)
#define DAY_MS OUTCOME_RETRY_AFTER_MAX_MS
#define NONE (-1)

/* A task of 3 attempts with waits of 1 s and 2 s, no jitter. */
static struct task some_task(int attempts, int64_t max_age_ms)
{
    return (struct task){
        .attempts = attempts,
        .run_at_ms = RUN_AT,
        .retry = {
            .max_attempts = 3, .initial_ms = 1000, .multiplier = 2.0, .max_ms = 600000, .max_age_ms = max_age_ms}};
}

Test(outcome, the_status_decides)
{
    static const struct {
        int status;
        enum outcome_kind kind;
    } rows[] = {
        {200, OUTCOME_DELIVERED}, {201, OUTCOME_DELIVERED}, {202, OUTCOME_DELIVERED}, {204, OUTCOME_DELIVERED},
        {299, OUTCOME_DELIVERED}, {0, OUTCOME_RETRY},       {100, OUTCOME_RETRY},     {199, OUTCOME_RETRY},
        {300, OUTCOME_RETRY},     {301, OUTCOME_RETRY},     {302, OUTCOME_RETRY},     {303, OUTCOME_RETRY},
        {304, OUTCOME_RETRY},     {307, OUTCOME_RETRY},     {308, OUTCOME_RETRY},     {400, OUTCOME_RETRY},
        {401, OUTCOME_RETRY},     {404, OUTCOME_RETRY},     {409, OUTCOME_RETRY},     {410, OUTCOME_DEAD},
        {411, OUTCOME_RETRY},     {429, OUTCOME_RETRY},     {500, OUTCOME_RETRY},     {503, OUTCOME_RETRY},
        {599, OUTCOME_RETRY},     {999, OUTCOME_RETRY},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = some_task(0, 0);

        cr_expect_eq(outcome_decide(&t, rows[i].status, NONE, RUN_AT, 0.0).kind, rows[i].kind, "%d", rows[i].status);
    }
}

Test(outcome, a_last_attempt_that_succeeds_is_delivered)
{
    struct task t = some_task(2, 1);

    cr_expect_eq(outcome_decide(&t, 200, NONE, RUN_AT + 10 * HOUR, 0.0).kind, OUTCOME_DELIVERED);
}

Test(outcome, attempts_run_out)
{
    static const struct {
        int attempts;
        enum outcome_kind kind;
        int64_t delay_ms;
    } rows[] = {{0, OUTCOME_RETRY, 1000}, {1, OUTCOME_RETRY, 2000}, {2, OUTCOME_DEAD, 0}, {3, OUTCOME_DEAD, 0}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = some_task(rows[i].attempts, 0);
        struct outcome outcome = outcome_decide(&t, 500, NONE, RUN_AT, 0.0);

        cr_expect_eq(outcome.kind, rows[i].kind, "after %d", rows[i].attempts);
        cr_expect_eq(outcome.delay_ms, rows[i].delay_ms, "after %d", rows[i].attempts);
    }
}

Test(outcome, a_single_attempt_is_never_repeated)
{
    struct task t = some_task(0, 0);

    t.retry.max_attempts = 1;
    cr_expect_eq(outcome_decide(&t, 0, NONE, RUN_AT, 0.0).kind, OUTCOME_DEAD);
}

Test(outcome, retry_after_moves_the_next_attempt_later_but_never_earlier)
{
    static const struct {
        int64_t retry_after_ms;
        int64_t delay_ms;
    } rows[] = {{NONE, 1000},   {0, 1000},        {999, 1000},          {1000, 1000},       {1001, 1001},
                {60000, 60000}, {DAY_MS, DAY_MS}, {DAY_MS + 1, DAY_MS}, {INT64_MAX, DAY_MS}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = some_task(0, 0);
        struct outcome outcome = outcome_decide(&t, 503, rows[i].retry_after_ms, RUN_AT, 0.0);

        cr_expect_eq(outcome.kind, OUTCOME_RETRY);
        cr_expect_eq(outcome.delay_ms, rows[i].delay_ms, "row %zu", i);
    }
}

Test(outcome, a_wait_longer_than_a_day_is_not_cut_by_the_bound_of_retry_after)
{
    struct task t = some_task(0, 0);

    t.retry.initial_ms = 3 * DAY_MS;
    t.retry.max_ms = 3 * DAY_MS;
    cr_expect_eq(outcome_decide(&t, 503, 5 * DAY_MS, RUN_AT, 0.0).delay_ms, 3 * DAY_MS);
}

Test(outcome, an_old_task_is_given_up)
{
    static const struct {
        int64_t max_age_ms;
        int64_t now_ms;
        int64_t retry_after_ms;
        enum outcome_kind kind;
    } rows[] = {
        {HOUR, RUN_AT, NONE, OUTCOME_RETRY},
        {HOUR, RUN_AT + HOUR - 1000, NONE, OUTCOME_RETRY}, /* begins just in time */
        {HOUR, RUN_AT + HOUR - 999, NONE, OUTCOME_DEAD},
        {HOUR, RUN_AT + 2 * HOUR, NONE, OUTCOME_DEAD},
        {HOUR, RUN_AT, HOUR, OUTCOME_RETRY},
        {HOUR, RUN_AT, HOUR + 1, OUTCOME_DEAD}, /* the receiver asks for more time than there is */
        {1, RUN_AT, NONE, OUTCOME_DEAD},
        {0, RUN_AT + 100000 * HOUR, NONE, OUTCOME_RETRY}, /* no limit */
        {INT64_MAX, RUN_AT + HOUR, NONE, OUTCOME_RETRY},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct task t = some_task(0, rows[i].max_age_ms);

        cr_expect_eq(outcome_decide(&t, 500, rows[i].retry_after_ms, rows[i].now_ms, 0.0).kind, rows[i].kind, "row %zu",
                     i);
    }
}

Test(outcome, jitter_is_applied)
{
    struct task t = some_task(0, 0);

    t.retry.jitter = 1.0;
    cr_expect_eq(outcome_decide(&t, 500, NONE, RUN_AT, 0.5).delay_ms, 1500);
}

#define NOW_MS INT64_C(784111717000) /* Sun, 06 Nov 1994 08:48:37 GMT */

Test(outcome, retry_after_is_read_in_all_its_forms)
{
    static const struct {
        const char *value;
        int64_t ms;
    } rows[] = {
        {"0", 0},
        {"1", 1000},
        {"120", 120000},
        {"007", 7000},
        {" 4 ", 4000},
        {"\t4\t", 4000},
        {"86399", 86399000},
        {"86400", DAY_MS},
        {"86401", DAY_MS},
        {"9999999999", DAY_MS},
        {"99999999999999999999999999999999", DAY_MS},
        {"00000000000000000000000000000012", 12000},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 60000},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 60000},
        {"Sun Nov  6 08:49:37 1994", 60000},
        {" Sun, 06 Nov 1994 08:49:37 GMT ", 60000},
        {"Sun, 06 Nov 1994 08:48:37 GMT", 0},
        {"Sun, 06 Nov 1994 08:00:00 GMT", 0},
        {"Tue, 08 Nov 1994 08:49:37 GMT", DAY_MS},
        {"", NONE},
        {" ", NONE},
        {"-5", NONE},
        {"+5", NONE},
        {"4.5", NONE},
        {"1e3", NONE},
        {"5s", NONE},
        {"5, 6", NONE},
        {"5 6", NONE},
        {"0x10", NONE},
        {"soon", NONE},
        {"Sun, 06 Nov 1994 08:49:37", NONE},
        {"Sun, 06 Nov 1994 08:49:37 UTC", NONE},
        {"Sun, 31 Feb 2094 08:49:37 GMT", NONE},
        {"1994-11-06T08:49:37Z", NONE},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(outcome_retry_after_ms(rows[i].value, strlen(rows[i].value), NOW_MS), rows[i].ms, "%s",
                     rows[i].value);
}

Test(outcome, ten_kilobytes_of_digits_are_a_day)
{
    enum { BYTES = 10240 };
    char *digits = malloc(BYTES);

    cr_assert_not_null(digits);
    memset(digits, '9', BYTES);
    cr_expect_eq(outcome_retry_after_ms(digits, BYTES, NOW_MS), DAY_MS);
    memset(digits, '0', BYTES);
    cr_expect_eq(outcome_retry_after_ms(digits, BYTES, NOW_MS), 0);
    free(digits);
}

Test(outcome, retry_after_ends_where_its_length_says)
{
    cr_expect_eq(outcome_retry_after_ms("123456", 2, NOW_MS), 12000);
    cr_expect_eq(outcome_retry_after_ms("12\0", 3, NOW_MS), NONE);
}

Test(outcome, an_answer_tells_how_its_destination_is)
{
    static const struct {
        int status;
        int64_t retry_after_ms;
        enum task_error_kind kind;
        enum outcome_health health;
    } rows[] = {
        {200, NONE, TASK_ERROR_NONE, OUTCOME_ALIVE},     {200, 5000, TASK_ERROR_NONE, OUTCOME_ALIVE},
        {301, NONE, TASK_ERROR_STATUS, OUTCOME_ALIVE},   {404, NONE, TASK_ERROR_STATUS, OUTCOME_ALIVE},
        {410, NONE, TASK_ERROR_STATUS, OUTCOME_ALIVE},   {429, NONE, TASK_ERROR_STATUS, OUTCOME_BUSY},
        {429, 1000, TASK_ERROR_STATUS, OUTCOME_BUSY},    {500, 1000, TASK_ERROR_STATUS, OUTCOME_FAILING},
        {503, NONE, TASK_ERROR_STATUS, OUTCOME_FAILING}, {503, 0, TASK_ERROR_STATUS, OUTCOME_BUSY},
        {503, 1000, TASK_ERROR_STATUS, OUTCOME_BUSY},    {0, NONE, TASK_ERROR_DNS, OUTCOME_FAILING},
        {0, NONE, TASK_ERROR_CONNECT, OUTCOME_FAILING},  {0, NONE, TASK_ERROR_TIMEOUT, OUTCOME_FAILING},
        {0, NONE, TASK_ERROR_PROTOCOL, OUTCOME_FAILING}, {0, NONE, TASK_ERROR_BLOCKED, OUTCOME_UNKNOWN},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(outcome_health(rows[i].status, rows[i].retry_after_ms, rows[i].kind), rows[i].health, "row %zu",
                     i);
}
