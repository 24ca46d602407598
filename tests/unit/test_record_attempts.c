/* The attempts in a record: how many are kept, what of them, and in how many bytes. */
#include "../support/record_bytes.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct buf record;
static struct task *task;

static void set_up(void)
{
    buf_init(&record, (size_t)16 << 20);
    task = task_create();
    task->url = xstrdup("https://example.com/hook/1");
}

static void tear_down(void)
{
    task_destroy(&task);
    buf_deinit(&record);
}

TestSuite(record_attempts, .init = set_up, .fini = tear_down);

/* A record of `task` with these attempts in its history. */
static void compose_history(const struct buf *attempts)
{
    buf_clear(&record);
    record_put_head(&record, task, 6 + attempts->len);
    record_put_number(&record, 0, 6);
    buf_append(&record, attempts->data, attempts->len);
    record_write_spec(&record, task);
}

Test(record_attempts, the_last_ten_attempts_are_kept)
{
    struct task *t = task_create();

    t->url = xstrdup("http://a/");
    for (int i = 1; i <= 25; i++) {
        const struct task_attempt last = {.at_ms = i, .status = 500};
        struct buf attempts;
        buf_init(&attempts, 4096);
        record_write_attempts(&attempts, t, &last);
        compose_history(&attempts);
        buf_deinit(&attempts);
        task_destroy(&t);
        cr_assert_eq(record_read_copy(record.data, record.len, &t), ERR_OK);
        cr_assert_eq(t->history_count, (size_t)(i < 10 ? i : 10));
        for (size_t j = 0; j < t->history_count; j++)
            cr_expect_eq(t->history[j].at_ms, i - (int64_t)t->history_count + 1 + (int64_t)j);
    }
    task_destroy(&t);
}

/* It may hold what a receiver answered. */
Test(record_attempts, an_error_need_not_be_text)
{
    char error[] = "HTTP 500: \xff\xc3(";
    const struct task_attempt last = {.at_ms = 1, .status = 500, .error = error};
    struct buf attempts;
    struct task *out;

    buf_init(&attempts, 4096);
    record_write_attempts(&attempts, task, &last);
    compose_history(&attempts);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_expect_str_eq(out->history[0].error, error);
    task_destroy(&out);
    buf_deinit(&attempts);
}

/* In ms, of an earlier version: more of them than there are us. */
Test(record_attempts, no_duration_is_negative)
{
    struct buf attempts;
    struct task *out;

    buf_init(&attempts, 4096);
    buf_append(&attempts, "\x11\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xf4\x03", 18);
    compose_history(&attempts);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_expect_eq(out->history[0].status, 500);
    cr_expect_eq(out->history[0].duration_us, INT64_MAX);
    task_destroy(&out);
    buf_deinit(&attempts);
}

/* recover.lua adds the attempt of a lost worker to what is there. */
Test(record_attempts, of_eleven_attempts_the_newest_ten_are_read)
{
    static const struct task none;
    struct buf attempts;
    struct task *out;

    buf_init(&attempts, 4096);
    for (int i = 0; i <= RECORD_ATTEMPTS_MAX; i++) {
        char error[] = "broken";
        const struct task_attempt a = {.at_ms = i, .error = error};
        record_write_attempts(&attempts, &none, &a);
    }
    compose_history(&attempts);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_assert_eq(out->history_count, RECORD_ATTEMPTS_MAX);
    cr_expect_eq(out->history[0].at_ms, 1);
    cr_expect_eq(out->history[RECORD_ATTEMPTS_MAX - 1].at_ms, RECORD_ATTEMPTS_MAX);
    task_destroy(&out);
    buf_deinit(&attempts);
}

Test(record_attempts, attempts_of_earlier_versions_are_read)
{
    static const char error[] = "500 Internal Server Error";
    struct buf attempts;
    struct task *out;

    buf_init(&attempts, 4096);
    buf_putc(&attempts, (char)(6 + 2 + 2 + strlen(error)));
    record_put_number(&attempts, 1234567890123, 6);
    buf_append(&attempts, "\xac\x02", 2); /* 300 ms */
    buf_append(&attempts, "\xf4\x03", 2); /* 500 */
    buf_puts(&attempts, error);
    compose_history(&attempts);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_assert_eq(out->history_count, 1);
    cr_expect_eq(out->history[0].at_ms, 1234567890123);
    cr_expect_eq(out->history[0].duration_us, 300000);
    cr_expect_eq(out->history[0].status, 500);
    cr_expect_eq(out->history[0].error_kind, TASK_ERROR_NONE);
    cr_expect_str_eq(out->history[0].error, error);
    cr_expect_eq(out->history[0].lateness_us, TASK_TIME_NONE);
    cr_expect_eq(out->history[0].phases.first_byte_us, TASK_TIME_NONE);
    task_destroy(&out);
    buf_deinit(&attempts);
}

/* There are far more delivered tasks than others. A receiver that is near costs 11 bytes more than a version without
 * times, a far one by TLS 16 more. */
Test(record_attempts, a_successful_attempt_takes_few_bytes)
{
    static const struct {
        struct task_attempt a;
        size_t bytes;
    } rows[] = {
        {{.at_ms = INT64_C(1900000000000),
          .duration_us = 2000,
          .status = 200,
          .lateness_us = 400,
          .phases = {.dns_us = 20, .connect_us = 90, .tls_us = TASK_TIME_NONE, .first_byte_us = 1500}},
         20},
        {{.at_ms = INT64_C(1900000000000),
          .duration_us = 250000,
          .status = 200,
          .lateness_us = 800,
          .phases = {.dns_us = 20000, .connect_us = 30000, .tls_us = 80000, .first_byte_us = 100000}},
         27},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf attempts;
        buf_init(&attempts, 4096);
        record_write_attempts(&attempts, task, &rows[i].a);
        cr_expect_leq(attempts.len, rows[i].bytes, "row %zu: %zu bytes", i, attempts.len);
        buf_deinit(&attempts);
    }
}

Test(record_attempts, errors_of_old_attempts_are_cut_and_never_within_a_character)
{
    char text[200];
    struct task_attempt history[] = {{.at_ms = 1, .error = text}};
    const struct task_attempt last = {.at_ms = 2, .error = text};
    struct task with = {.history = history, .history_count = 1}, *out;
    struct buf attempts;

    for (size_t i = 0; i + 3 <= sizeof text; i += 2)
        memcpy(text + i + 1, "\xc3\xbc", 3);
    text[0] = 'x'; /* so that byte 120 is the second of a character */
    buf_init(&attempts, 4096);
    record_write_attempts(&attempts, &with, &last);
    compose_history(&attempts);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_assert_eq(out->history_count, 2);
    cr_expect_eq(strlen(out->history[0].error), 119);
    cr_expect_eq(strncmp(out->history[0].error, text, 119), 0);
    cr_expect_str_eq(out->history[1].error, text);
    task_destroy(&out);
    buf_deinit(&attempts);
}

Test(record_attempts, a_long_error_text_is_cut)
{
    char *error = xcalloc(100001, 1);
    struct task_attempt last = {.error = error};
    struct buf attempts;

    memset(error, 'e', 100000);
    buf_init(&attempts, 1 << 20);
    record_write_attempts(&attempts, task, &last);
    cr_expect_leq(attempts.len, 600);
    compose_history(&attempts);
    struct task *out;
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_assert_eq(out->history_count, 1);
    cr_expect_eq(strlen(out->history[0].error), 512);
    task_destroy(&out);
    buf_deinit(&attempts);
    free(error);
}
