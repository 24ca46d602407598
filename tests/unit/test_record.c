#include "../support/random.h"
#include "../support/record_bytes.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Records as lua/common.lua composes them: the scripts write the head and `when`, the gateway the rest. */

#define HEAD_BYTES 20
#define ROUNDS 300
#define FLIPS_A_RECORD 40

static struct random dice;
static struct buf record;
static struct task *task;

static void set_up(void)
{
    uint64_t seed = random_seed_from("RECORD_SEED", 20);

    printf("RECORD_SEED=%llu\n", (unsigned long long)seed);
    dice = random_seeded(seed);
    buf_init(&record, (size_t)16 << 20);
    task = task_create();
    task->url = xstrdup("https://example.com/hook/1");
}

static void tear_down(void)
{
    task_destroy(&task);
    buf_deinit(&record);
}

TestSuite(record, .init = set_up, .fini = tear_down);

static void compose(struct buf *out, const struct task *t)
{
    static const struct task no_history;
    struct buf history;

    buf_init(&history, 65535);
    if (t->history_count > 0)
        record_put_number(&history, (uint64_t)t->when_ms, 6);
    for (size_t i = 0; i < t->history_count; i++)
        record_write_attempts(&history, &no_history, &t->history[i]);
    buf_clear(out);
    record_put_head(out, t, history.len);
    buf_append(out, history.data, history.len);
    record_write_spec(out, t);
    cr_assert_eq(buf_status(out), ERR_OK);
    buf_deinit(&history);
}

static char *random_text(size_t max)
{
    size_t n = random_below(&dice, max + 1);
    char *s = xcalloc(n + 1, 1);

    for (size_t i = 0; i < n; i++)
        s[i] = (char)(1 + random_below(&dice, 127));
    return s;
}

static bool coin(void)
{
    return random_below(&dice, 2) == 1;
}

static int64_t random_ms(void)
{
    return (int64_t)(random_next(&dice) >> (16 + random_below(&dice, 44)));
}

static int64_t random_time_us(void)
{
    return coin() ? random_ms() : TASK_TIME_NONE;
}

static void randomise_retry(struct task_retry *r)
{
    if (coin())
        r->max_attempts = (int)random_below(&dice, 1000) + 1;
    if (coin())
        r->initial_ms = random_ms();
    if (coin())
        r->multiplier = 1 + (double)random_below(&dice, 9000) / 1000;
    if (coin())
        r->max_ms = random_ms();
    if (coin())
        r->jitter = (double)random_below(&dice, 1000) / 1000;
    if (coin())
        r->max_age_ms = random_ms();
    if (coin()) {
        r->schedule_count = random_below(&dice, 100) + 1;
        r->schedule_ms = xcalloc(r->schedule_count, sizeof(*r->schedule_ms));
        for (size_t i = 0; i < r->schedule_count; i++)
            r->schedule_ms[i] = random_ms();
    }
}

static void randomise_body(struct task *t)
{
    t->body_kind = (enum task_body_kind)random_below(&dice, 4);
    if (t->body_kind == TASK_BODY_NONE)
        return;
    t->body_bytes = random_below(&dice, 3000);
    t->body = xcalloc(t->body_bytes + 1, 1);
    for (size_t i = 0; i < t->body_bytes; i++)
        t->body[i] = (char)random_next(&dice);
}

static void randomise_history(struct task *t)
{
    t->history_count = random_below(&dice, RECORD_ATTEMPTS_MAX + 1);
    t->history = xcalloc(t->history_count + 1, sizeof(*t->history));
    for (size_t i = 0; i < t->history_count; i++) {
        t->history[i].at_ms = random_ms();
        t->history[i].duration_us = random_ms();
        t->history[i].status = (int)random_below(&dice, 1000);
        t->history[i].error_kind = (enum task_error_kind)random_below(&dice, TASK_ERROR_KIND_COUNT);
        t->history[i].lateness_us = random_time_us();
        t->history[i].phases = (struct task_phases){.dns_us = random_time_us(),
                                                    .connect_us = random_time_us(),
                                                    .tls_us = random_time_us(),
                                                    .first_byte_us = random_time_us()};
        if (coin()) {
            t->history[i].error = random_text(500);
            if (t->history[i].error[0] == '\0') {
                free(t->history[i].error);
                t->history[i].error = NULL;
            }
        }
    }
    if (t->history_count > 0)
        t->when_ms = random_ms();
}

static struct task *random_task(void)
{
    struct task *t = task_create();

    if (coin()) {
        free(t->queue);
        t->queue = xstrdup("emails.of-the_day.0123456789.0123456789.0123456789.0123456789.01");
    }
    t->url = random_text(TASK_URL_MAX);
    if (t->url[0] < ' ')
        t->url[0] = 'h'; /* no URL begins with a control character */
    t->method = (enum task_method)random_below(&dice, TASK_METHOD_COUNT);
    t->has_digest = coin();
    for (size_t i = 0; t->has_digest && i < TASK_DIGEST_BYTES; i++)
        t->digest[i] = (unsigned char)random_next(&dice);
    t->header_count = coin() ? random_below(&dice, 101) : 0;
    t->headers = xcalloc(t->header_count + 1, sizeof(*t->headers));
    for (size_t i = 0; i < t->header_count; i++)
        t->headers[i] = (struct task_header){random_text(40), random_text(300)};
    if (coin())
        t->timeout_ms = random_ms();
    randomise_retry(&t->retry);
    randomise_body(t);
    randomise_history(t);
    t->state = (enum task_state)random_below(&dice, TASK_STATE_COUNT);
    t->cancel_requested = coin();
    t->takeovers = (int)random_below(&dice, 128);
    t->attempts = (int)random_below(&dice, 65536);
    t->generation = (unsigned)random_below(&dice, 65536);
    t->run_at_ms = random_ms();
    t->created_at_ms = random_ms();
    return t;
}

/* Numbers that travel as they are: neither computed with nor rounded. */
static void expect_same_double(double a, double b, const char *what)
{
    cr_expect_eq(memcmp(&a, &b, sizeof(a)), 0, "%s: %g is not %g", what, a, b);
}

static void expect_same_retry(const struct task_retry *a, const struct task_retry *b)
{
    cr_expect_eq(a->max_attempts, b->max_attempts);
    cr_expect_eq(a->initial_ms, b->initial_ms);
    expect_same_double(a->multiplier, b->multiplier, "multiplier");
    cr_expect_eq(a->max_ms, b->max_ms);
    expect_same_double(a->jitter, b->jitter, "jitter");
    cr_expect_eq(a->max_age_ms, b->max_age_ms);
    cr_assert_eq(a->schedule_count, b->schedule_count);
    for (size_t i = 0; i < a->schedule_count; i++)
        cr_expect_eq(a->schedule_ms[i], b->schedule_ms[i]);
}

static void expect_same_request(const struct task *a, const struct task *b)
{
    cr_expect_str_eq(a->queue, b->queue);
    cr_expect_eq(a->method, b->method);
    cr_expect_str_eq(a->url, b->url);
    cr_assert_eq(a->header_count, b->header_count);
    for (size_t i = 0; i < a->header_count; i++) {
        cr_expect_str_eq(a->headers[i].name, b->headers[i].name);
        cr_expect_str_eq(a->headers[i].value, b->headers[i].value);
    }
    cr_expect_eq(a->timeout_ms, b->timeout_ms);
    cr_assert_eq(a->has_digest, b->has_digest);
    cr_expect(!a->has_digest || memcmp(a->digest, b->digest, TASK_DIGEST_BYTES) == 0);
    expect_same_retry(&a->retry, &b->retry);
    cr_expect_eq(a->body_kind, b->body_kind);
    cr_assert_eq(a->body_bytes, b->body_bytes);
    cr_expect(a->body_bytes == 0 || memcmp(a->body, b->body, a->body_bytes) == 0);
}

static void expect_same_state(const struct task *a, const struct task *b)
{
    cr_expect_eq(a->state, b->state);
    cr_expect_eq(a->run_at_ms, b->run_at_ms);
    cr_expect_eq(a->created_at_ms, b->created_at_ms);
    cr_expect_eq(a->when_ms, b->when_ms);
    cr_expect_eq(a->attempts, b->attempts);
    cr_expect_eq(a->takeovers, b->takeovers);
    cr_expect_eq(a->generation, b->generation);
    cr_expect_eq(a->cancel_requested, b->cancel_requested);
    cr_assert_eq(a->history_count, b->history_count);
    for (size_t i = 0; i < a->history_count; i++) {
        cr_expect_eq(a->history[i].at_ms, b->history[i].at_ms);
        cr_expect_eq(a->history[i].duration_us, b->history[i].duration_us);
        cr_expect_eq(a->history[i].status, b->history[i].status);
        cr_expect_eq(a->history[i].error_kind, b->history[i].error_kind);
        cr_expect_eq(a->history[i].lateness_us, b->history[i].lateness_us);
        cr_expect_eq(a->history[i].phases.dns_us, b->history[i].phases.dns_us);
        cr_expect_eq(a->history[i].phases.connect_us, b->history[i].phases.connect_us);
        cr_expect_eq(a->history[i].phases.tls_us, b->history[i].phases.tls_us);
        cr_expect_eq(a->history[i].phases.first_byte_us, b->history[i].phases.first_byte_us);
        cr_assert_eq(!a->history[i].error, !b->history[i].error);
        if (a->history[i].error)
            cr_expect_str_eq(a->history[i].error, b->history[i].error);
    }
}

/* -------------------------------------------------------- what is written is read */

Test(record, any_task_comes_back_as_it_was)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct task *in = random_task(), *out;
        compose(&record, in);
        cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK, "round %d", i);
        cr_expect_str_eq(out->id, "some-id");
        expect_same_request(in, out);
        expect_same_state(in, out);
        task_destroy(&in);
        task_destroy(&out);
    }
}

Test(record, a_task_without_anything_set_comes_back_with_the_defaults)
{
    struct task *out;

    compose(&record, task);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    expect_same_request(task, out);
    expect_same_state(task, out);
    cr_expect_null(out->body);
    task_destroy(&out);
}

Test(record, an_empty_body_is_not_no_body)
{
    struct task *out;

    task->body_kind = TASK_BODY_TEXT;
    task->body = xstrdup("");
    compose(&record, task);
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_expect_eq(out->body_kind, TASK_BODY_TEXT);
    cr_assert_not_null(out->body);
    cr_expect_eq(out->body_bytes, 0);
    task_destroy(&out);
}

Test(record, what_a_delivered_task_keeps_is_all_but_its_body)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct task *in = random_task(), *out;
        struct buf spec;
        buf_init(&spec, (size_t)16 << 20);
        record_write_spec(&spec, in);
        size_t kept = record_kept_bytes(in);
        cr_assert_leq(kept, spec.len);
        compose(&record, in);
        cr_assert_eq(record_read_copy(record.data, record.len - (spec.len - kept), &out), ERR_OK, "round %d", i);
        cr_expect_null(out->body);
        free(in->body);
        in->body = NULL;
        in->body_bytes = 0;
        expect_same_request(in, out);
        expect_same_state(in, out);
        task_destroy(&in);
        task_destroy(&out);
        buf_deinit(&spec);
    }
}

/* ------------------------------------------------------------- what is no record */

Test(record, a_record_that_was_cut_is_refused)
{
    for (int round = 0; round < 20; round++) {
        struct task *in = random_task(), *out;
        struct buf spec;
        buf_init(&spec, (size_t)16 << 20);
        record_write_spec(&spec, in);
        compose(&record, in);
        /* Without its body alone it is the record of a delivered task. */
        size_t without_body = record.len - (spec.len - record_kept_bytes(in));
        for (size_t n = 0; n < record.len; n++) {
            enum err want = n == without_body ? ERR_OK : ERR_INVALID;
            cr_assert_eq(record_read_copy(record.data, n, &out), want, "round %d, %zu of %zu bytes", round, n,
                         record.len);
            cr_assert(want == ERR_OK || !out);
            task_destroy(&out);
        }
        task_destroy(&in);
        buf_deinit(&spec);
    }
}

Test(record, flipped_bits_never_crash_the_reader)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct task *in = random_task();
        compose(&record, in);
        task_destroy(&in);
        for (int i = 0; i < FLIPS_A_RECORD; i++) {
            struct task *out;
            size_t reach = coin() && record.len > 64 ? 64 : record.len;
            record.data[random_below(&dice, reach)] ^= (char)(1u << random_below(&dice, 8));
            enum err err = record_read_copy(record.data, record.len, &out);
            cr_assert(err == ERR_OK ? out != NULL : err == ERR_INVALID && !out);
            task_destroy(&out);
        }
    }
}

/* One change to a good record without history, and no reader may believe it. */
static const struct {
    const char *what;
    size_t at;
    unsigned char byte;
} not_records[] = {
    {"format 0", 0, 0x00},
    {"format 2", 0, 0x20},
    {"a state beyond the last", 0, 0x17},
    {"a history longer than the record", 18, 0xff},
    {"a history too short for its time", 19, 0x05},
    {"a queue longer than the record", HEAD_BYTES, 0xff},
    {"a method beyond the last", HEAD_BYTES + 1, 0x05},
    {"bits beyond the body kind", HEAD_BYTES + 1, 0x20},
    {"a member of a newer version", HEAD_BYTES + 3, 0x7f},
    {"a URL longer than the record", HEAD_BYTES + 4, 0x7f},
    {"a URL that is no text", HEAD_BYTES + 6, 0xff},
};

Test(record, what_no_gateway_wrote_is_refused)
{
    for (size_t i = 0; i < sizeof(not_records) / sizeof(*not_records); i++) {
        struct task *out;
        task->retry.max_age_ms = 5; /* a set of members of two bytes */
        compose(&record, task);
        record.data[not_records[i].at] = (char)not_records[i].byte;
        cr_expect_eq(record_read_copy(record.data, record.len, &out), ERR_INVALID, "%s", not_records[i].what);
        task_destroy(&out);
    }
}

Test(record, numbers_that_no_task_can_have_are_refused)
{
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    struct task *out;

    task->retry.max_attempts = -1; /* written as the largest number there is */
    compose(&record, task);
    cr_expect_eq(record_read_copy(record.data, record.len, &out), ERR_INVALID);
    task->retry.max_attempts = 10;
    for (size_t i = 0; i < 3; i++) {
        task->retry.jitter = 0.5;
        compose(&record, task);
        unsigned char half[8] = {0x3f, 0xe0}, odd[8];
        char *at = memmem(record.data, record.len, half, sizeof(half));
        cr_assert_not_null(at);
        for (int b = 0; b < 8; b++)
            odd[b] = ((const unsigned char *)&numbers[i])[7 - b];
        memcpy(at, odd, sizeof(odd));
        cr_expect_eq(record_read_copy(record.data, record.len, &out), ERR_INVALID, "%g", numbers[i]);
        task_destroy(&out);
    }
}

Test(record, a_queue_that_has_no_name_of_a_queue_is_refused)
{
    static const char *const names[] = {"a\"b", "A", "-", "\xff", "a b"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct task *out;
        free(task->queue);
        task->queue = xstrdup(names[i]);
        compose(&record, task);
        cr_expect_eq(record_read_copy(record.data, record.len, &out), ERR_INVALID, "%s", names[i]);
        task_destroy(&out);
    }
}

Test(record, bytes_behind_the_body_are_refused)
{
    struct task *out;

    task->body_kind = TASK_BODY_TEXT;
    task->body = xstrdup("x");
    task->body_bytes = 1;
    compose(&record, task);
    buf_putc(&record, 'y');
    cr_expect_eq(record_read_copy(record.data, record.len, &out), ERR_INVALID);
}

Test(record, bytes_behind_a_task_without_a_body_are_refused)
{
    struct task *out;

    compose(&record, task);
    buf_putc(&record, 'y');
    cr_expect_eq(record_read_copy(record.data, record.len, &out), ERR_INVALID);
    task_destroy(&out);
}

Test(record, nothing_is_no_record)
{
    struct task *out;

    cr_assert_eq(record_read("id", "", 0, &out), ERR_INVALID);
    cr_assert_null(out);
}

Test(record, the_specification_is_found_behind_any_history)
{
    for (int attempts = 0; attempts < 3; attempts++) {
        struct buf spec;

        buf_init(&spec, 65536);
        record_write_spec(&spec, task);
        compose(&record, task);
        size_t at = record_spec_at(record.data);
        cr_assert_eq(record.len - at, spec.len, "%d attempts", attempts);
        cr_expect(memcmp(record.data + at, spec.data, spec.len) == 0, "%d attempts", attempts);
        buf_deinit(&spec);
        task->history = xrealloc(task->history, (size_t)(attempts + 1) * sizeof(*task->history));
        memset(&task->history[attempts], 0, sizeof(*task->history));
        task->history[attempts].error = random_text(300);
        task->history_count++;
    }
}
