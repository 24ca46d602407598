#include "task/queue_settings.h"
#include "task/retry_priv.h"
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as the settings of a queue. The first byte, a digit in the seeds, chooses whether they are the body of PUT,
 * the text in Redis, or the body of a redrive. What is accepted is within the bounds of the contract, gives an answer
 * that is JSON, and is the same after a way through Redis. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_bounds(const struct queue_settings *s)
{
    assert(s->max_concurrency >= 0 && s->max_concurrency <= 1000000);
    assert(s->max_per_second >= 0 && s->max_per_second <= 1e6);
    assert(s->timeout_ms == 0 || (s->timeout_ms >= TASK_TIMEOUT_MIN_MS && s->timeout_ms <= TASK_TIMEOUT_MAX_MS));
    assert(s->retry.schedule_count == 0 || s->retry.schedule_ms);
}

/* A new task with these settings can be delivered. */
static void check_applied(const struct queue_settings *s)
{
    struct task *t = task_create();

    for (int i = 0; i < 2; i++) { /* with other settings, too: applying is repeated when they have changed */
        queue_settings_apply(i == 0 ? s : NULL, t);
        assert(t->retry.max_attempts >= 1 && t->retry.max_attempts <= 1000);
        assert(t->retry.initial_ms >= 1 && t->retry.max_ms >= t->retry.initial_ms);
        assert(t->retry.multiplier >= 1 && t->retry.multiplier <= 10);
        assert(t->retry.jitter >= 0 && t->retry.jitter <= 1 && t->retry.max_age_ms >= 0);
        assert(t->timeout_ms >= TASK_TIMEOUT_MIN_MS && t->timeout_ms <= TASK_TIMEOUT_MAX_MS);
    }
    task_destroy(&t);
}

static void check_answer(const struct queue_settings *s)
{
    struct buf out;

    buf_init(&out, 65536);
    buf_putc(&out, '{');
    queue_settings_write(&out, s);
    buf_putc(&out, '}');
    assert(buf_status(&out) == ERR_OK);
    json_t *answer = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);

    assert(json_is_object(answer));
    json_decref(answer);
    buf_deinit(&out);
}

static void check_kept(const struct queue_settings *s)
{
    struct queue_settings again;
    struct buf first, second;

    buf_init(&first, 65536);
    buf_init(&second, 65536);
    queue_settings_encode(&first, s);
    assert(buf_status(&first) == ERR_OK && queue_settings_decode(first.data, first.len, &again));
    queue_settings_encode(&second, &again);
    assert(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    assert(queue_settings_are_default(s) == queue_settings_are_default(&again));
    queue_settings_deinit(&again);
    buf_deinit(&first);
    buf_deinit(&second);
}

static void check(const struct queue_settings *s)
{
    check_bounds(s);
    check_applied(s);
    check_answer(s);
    check_kept(s);
}

static void read_put(const char *json, size_t n)
{
    struct queue_settings s;
    struct faults faults;

    faults_init(&faults);
    enum err err = queue_settings_parse(json, n, &faults, &s);

    assert((err == ERR_OK) == (faults.count == 0));
    if (err == ERR_OK)
        check(&s);
    queue_settings_deinit(&s);
    faults_deinit(&faults);
}

static void read_kept(const char *text, size_t n)
{
    struct queue_settings s;

    if (queue_settings_decode(text, n, &s))
        check(&s);
    queue_settings_deinit(&s);
}

static void read_redrive(const char *json, size_t n)
{
    struct faults faults;
    int limit = QUEUE_REDRIVE_DEFAULT;

    faults_init(&faults);
    enum err err = queue_redrive_parse(json, n, &faults, &limit);

    assert((err == ERR_OK) == (faults.count == 0));
    assert(limit >= 1 && limit <= QUEUE_REDRIVE_MAX);
    faults_deinit(&faults);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static void (*const readers[])(const char *s, size_t n) = {read_put, read_kept, read_redrive};

    if (size > 0)
        readers[(unsigned char)(data[0] - '0') % 3]((const char *)data + 1, size - 1);
    return 0;
}
