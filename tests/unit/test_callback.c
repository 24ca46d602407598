#include "base/mem.h"
#include "store/callback_priv.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The task that tells how another one ended. */

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define FINISHED_MS INT64_C(1900000000123)

static struct task *ended;

static void set_up(void)
{
    ended = task_create();
    ended->id = xstrdup("order-17");
    free(ended->queue);
    ended->queue = xstrdup("mail");
    ended->url = xstrdup("https://example.com/hook");
    ended->method = TASK_METHOD_PUT;
    ended->on_success = xstrdup("https://example.com/success");
    ended->on_failure = xstrdup("https://example.com/failure");
    ended->traceparent = xstrdup(TRACE);
    ended->timeout_ms = 1234;
    ended->retry.max_attempts = 3;
    ended->has_expiry = true;
    ended->expires_ms = FINISHED_MS;
    ended->when_ms = FINISHED_MS;
    ended->attempts = 3;
}

static void tear_down(void)
{
    task_destroy(&ended);
}

TestSuite(callback, .init = set_up, .fini = tear_down);

Test(callback, each_end_is_told_to_whom_it_concerns)
{
    static const struct {
        enum task_state state;
        const char *url, *type;
    } rows[] = {
        {TASK_SCHEDULED, NULL, NULL},
        {TASK_READY, NULL, NULL},
        {TASK_DELIVERING, NULL, NULL},
        {TASK_DELIVERED, "https://example.com/success", "task.delivered"},
        {TASK_DEAD, "https://example.com/failure", "task.dead"},
        {TASK_CANCELLED, NULL, NULL},
        {TASK_EXPIRED, "https://example.com/failure", "task.expired"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ended->state = rows[i].state;
        struct task *t = callback_create(ended);
        cr_assert_eq(t != NULL, rows[i].url != NULL, "%s", task_state_name(rows[i].state));
        if (!t)
            continue;
        json_t *body = json_loadb(t->body, t->body_bytes, JSON_REJECT_DUPLICATES, NULL);
        cr_expect_str_eq(t->url, rows[i].url);
        cr_assert_not_null(body, "%s", t->body);
        cr_expect_eq(json_object_size(body), 3);
        cr_expect_str_eq(json_string_value(json_object_get(body, "type")), rows[i].type);
        cr_expect_str_eq(json_string_value(json_object_get(body, "timestamp")), "2030-03-17T17:46:40.123Z");
        json_t *data = json_object_get(body, "data");
        cr_expect_str_eq(json_string_value(json_object_get(data, "id")), "order-17");
        cr_expect_str_eq(json_string_value(json_object_get(data, "state")), task_state_name(rows[i].state));
        cr_expect_null(json_object_get(data, "headers"), "what may be secret is not told");
        cr_expect_null(strchr(t->body, '\n'), "compact");
        json_decref(body);
        task_destroy(&t);
    }
}

Test(callback, without_a_url_there_is_nobody_to_tell)
{
    free(ended->on_success);
    ended->on_success = NULL;
    ended->state = TASK_DELIVERED;
    cr_expect_null(callback_create(ended));
    free(ended->on_failure);
    ended->on_failure = NULL;
    ended->state = TASK_DEAD;
    cr_expect_null(callback_create(ended));
}

Test(callback, it_has_the_queue_and_trace_of_the_task_and_every_default)
{
    struct task *defaults = task_create();

    ended->state = TASK_DEAD;
    struct task *t = callback_create(ended);
    cr_assert_not_null(t);
    cr_expect_null(t->id);
    cr_expect_str_eq(t->queue, "mail");
    cr_expect_str_eq(t->traceparent, TRACE);
    cr_expect_eq(t->method, TASK_METHOD_POST);
    cr_expect_eq(t->body_kind, TASK_BODY_PAYLOAD);
    cr_expect_eq(t->header_count, 0);
    cr_expect_null(t->on_success);
    cr_expect_null(t->on_failure);
    cr_expect_not(t->has_expiry);
    cr_expect_not(t->has_digest);
    cr_expect_eq(t->timeout_ms, defaults->timeout_ms);
    cr_expect_eq(t->retry.max_attempts, defaults->retry.max_attempts);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_eq(t->attempts, 0);
    task_destroy(&t);
    task_destroy(&defaults);
}
