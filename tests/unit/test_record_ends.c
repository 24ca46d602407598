#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The members of a record that say when a task expires, whom it calls back and whose trace it belongs to; and reading
 * its beginning only. The rest is in test_record.c. */

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define EXPIRES_MS INT64_C(1900000000123)
#define KINDS_AT 21 /* behind a head without history and the length of the queue's name */

static struct buf record;

static void set_up(void)
{
    buf_init(&record, (size_t)16 << 20);
}

static void tear_down(void)
{
    buf_deinit(&record);
}

TestSuite(record_ends, .init = set_up, .fini = tear_down);

/* A task with those of the four that have their bit in `set`. */
static struct task *task_with(unsigned set)
{
    struct task *t = task_create();

    t->url = xstrdup("https://example.com/hook");
    t->has_expiry = set & 1;
    t->expires_ms = set & 1 ? EXPIRES_MS : 0;
    t->on_success = set & 2 ? xstrdup("https://example.com/success") : NULL;
    t->on_failure = set & 4 ? xstrdup("https://example.com/failure") : NULL;
    t->traceparent = set & 8 ? xstrdup(TRACE) : NULL;
    t->body_kind = TASK_BODY_TEXT;
    t->body = xstrdup("hello");
    t->body_bytes = 5;
    return t;
}

/* Behind the head of a scheduled task without history. */
static void compose(const struct task *t)
{
    static const char head[20] = {16};

    buf_clear(&record);
    buf_append(&record, head, sizeof(head));
    record_write_spec(&record, t);
    cr_assert_eq(buf_status(&record), ERR_OK);
}

static void expect_same_text(const char *a, const char *b)
{
    cr_assert_eq(!a, !b);
    if (a)
        cr_expect_str_eq(a, b);
}

static void expect_same(const struct task *a, const struct task *b)
{
    cr_expect_eq(a->has_expiry, b->has_expiry);
    cr_expect_eq(a->expires_ms, b->expires_ms);
    cr_expect_not(b->is_expiry_relative);
    expect_same_text(a->on_success, b->on_success);
    expect_same_text(a->on_failure, b->on_failure);
    expect_same_text(a->traceparent, b->traceparent);
}

Test(record_ends, any_of_them_come_back_as_they_were)
{
    for (unsigned set = 0; set < 16; set++) {
        struct task *in = task_with(set), *out;
        compose(in);
        cr_assert_eq(record_read("id", record.data, record.len, &out), ERR_OK, "set %u", set);
        expect_same(in, out);
        cr_expect_str_eq(out->body, "hello");
        task_destroy(&in);
        task_destroy(&out);
    }
}

/* They look at nothing else to know whether a task expires or calls back. */
Test(record_ends, the_kinds_tell_scripts_what_is_there)
{
    for (unsigned set = 0; set < 16; set++) {
        struct task *t = task_with(set);
        compose(t);
        unsigned kinds = (unsigned char)record.data[KINDS_AT];
        cr_expect_eq(kinds & 32, set & 1 ? 32 : 0);
        cr_expect_eq(kinds & 64, set & 2 ? 64 : 0);
        cr_expect_eq(kinds & 128, set & 4 ? 128 : 0);
        task_destroy(&t);
    }
}

Test(record_ends, an_expiry_from_now_is_marked_for_the_script)
{
    struct task *t = task_with(1);

    compose(t);
    cr_expect_eq(record.data[KINDS_AT + 1] & 128, 0);
    t->is_expiry_relative = true;
    compose(t);
    cr_expect_eq(record.data[KINDS_AT + 1] & 128, 128);
    task_destroy(&t);
}

Test(record_ends, a_delivered_task_keeps_them)
{
    struct task *in = task_with(15), *out;

    compose(in);
    cr_assert_eq(record_read("id", record.data, 20 + record_kept_bytes(in), &out), ERR_OK);
    expect_same(in, out);
    cr_expect_null(out->body);
    task_destroy(&in);
    task_destroy(&out);
}

Test(record_ends, a_beginning_may_end_anywhere_in_the_body_and_nowhere_else)
{
    struct task *in = task_with(15), *out;
    size_t kept = 20 + record_kept_bytes(in);

    compose(in);
    for (size_t n = 0; n <= record.len; n++) {
        char *exact = malloc(n ? n : 1); /* so that a sanitizer sees a read past the end */
        cr_assert_not_null(exact);
        memcpy(exact, record.data, n);
        cr_assert_eq(record_read_beginning("id", exact, n, &out), n < kept ? ERR_INVALID : ERR_OK, "%zu bytes", n);
        cr_assert_eq(out != NULL, n >= kept);
        if (out) {
            expect_same(in, out);
            cr_expect_null(out->body);
        }
        task_destroy(&out);
        free(exact);
    }
    task_destroy(&in);
}

static char *text_of(char c, size_t n)
{
    char *s = xcalloc(n + 1, 1);

    memset(s, c, n);
    return s;
}

static char *long_url(void)
{
    char *url = text_of('x', TASK_URL_MAX);

    memcpy(url, "http://", 7);
    return url;
}

/* Of every member the most that the contract allows, and the longest history. */
static struct task *largest_task(struct buf *history)
{
    struct task *t = task_with(9);
    char *error = text_of('e', 1000);
    struct task_attempt a = {.at_ms = EXPIRES_MS, .duration_us = 1800000000, .status = 599, .error = error};

    free(t->url);
    t->url = long_url();
    t->on_success = long_url();
    t->on_failure = long_url();
    free(t->queue);
    t->queue = text_of('q', TASK_QUEUE_MAX);
    t->header_count = 100;
    t->headers = xcalloc(t->header_count, sizeof(*t->headers));
    for (size_t i = 0; i < t->header_count; i++)
        t->headers[i] = (struct task_header){text_of('n', 8), text_of('v', 32768 / 100 - 8)};
    t->retry.schedule_count = 100;
    t->retry.schedule_ms = xcalloc(100, sizeof(*t->retry.schedule_ms));
    for (size_t i = 0; i < 100; i++)
        t->retry.schedule_ms[i] = INT64_C(315619200000);
    t->retry.max_age_ms = INT64_C(315619200000);
    t->has_digest = true;
    t->history_count = RECORD_ATTEMPTS_MAX;
    t->history = xcalloc(t->history_count, sizeof(*t->history));
    for (size_t i = 0; i < t->history_count; i++) {
        t->history[i] = a;
        t->history[i].error = xstrdup(error);
    }
    record_write_attempts(history, t, &a);
    free(error);
    return t;
}

Test(record_ends, all_but_the_body_is_in_the_beginning)
{
    struct buf history;

    buf_init(&history, 65535);
    struct task *in = largest_task(&history);
    char head[20] = {16};
    head[18] = (char)((history.len + 6) >> 8);
    head[19] = (char)(history.len + 6);
    buf_append(&record, head, sizeof(head));
    buf_append(&record, "\0\0\0\0\0\0", 6);
    buf_append(&record, history.data, history.len);
    free(in->body);
    in->body_bytes = 1000000;
    in->body = text_of('b', in->body_bytes);
    record_write_spec(&record, in);
    struct task *out;
    cr_assert_eq(record_read_beginning("id", record.data, RECORD_BEGINNING_BYTES, &out), ERR_OK);
    cr_expect_str_eq(out->on_failure, in->on_failure);
    cr_expect_str_eq(out->traceparent, TRACE);
    cr_expect_eq(out->history_count, RECORD_ATTEMPTS_MAX);
    task_destroy(&in);
    task_destroy(&out);
    buf_deinit(&history);
}
