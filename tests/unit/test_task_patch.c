#include "base/mem.h"
#include "task/task_patch.h"
#include <criterion/criterion.h>
#include <string.h>

static struct task *task;
static struct task_patch patch;

static struct task_header *one_header(const char *name, const char *value)
{
    struct task_header *h = xcalloc(1, sizeof(*h));

    h->name = xstrdup(name);
    h->value = xstrdup(value);
    return h;
}

static void set_body(struct task *t, enum task_body_kind kind, const char *body)
{
    t->body_kind = kind;
    t->body = xstrdup(body);
    t->body_bytes = strlen(body);
}

/* A task that has everything, read from a record. */
static void set_up(void)
{
    task = task_create();
    task->id = xstrdup("order-17");
    task->url = xstrdup("http://127.0.0.1/old");
    task->on_success = xstrdup("http://127.0.0.1/good");
    task->on_failure = xstrdup("http://127.0.0.1/bad");
    task->traceparent = xstrdup("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    task->method = TASK_METHOD_PUT;
    task->headers = one_header("X-Old", "1");
    task->header_count = 1;
    set_body(task, TASK_BODY_TEXT, "old");
    task->timeout_ms = 5000;
    task->retry.max_attempts = 3;
    task->retry.schedule_ms = xcalloc(2, sizeof(int64_t));
    task->retry.schedule_count = 2;
    task->has_expiry = true;
    task->expires_ms = 4000000000000;
    task->has_digest = true;
    task->run_at_ms = 1234567890123;
    task->attempts = 2;
    task_patch_init(&patch);
}

static void tear_down(void)
{
    task_destroy(&task);
    task_patch_deinit(&patch);
}

TestSuite(task_patch, .init = set_up, .fini = tear_down);

static void expect_all_but_given(void)
{
    cr_expect_str_eq(task->id, "order-17");
    cr_expect_str_eq(task->url, "http://127.0.0.1/old");
    cr_expect_str_eq(task->on_success, "http://127.0.0.1/good");
    cr_expect_str_eq(task->on_failure, "http://127.0.0.1/bad");
    cr_expect_not_null(task->traceparent);
    cr_expect_eq(task->method, TASK_METHOD_PUT);
    cr_expect_eq(task->timeout_ms, 5000);
    cr_expect_eq(task->retry.max_attempts, 3);
    cr_expect_eq(task->retry.schedule_count, 2);
    cr_expect_eq(task->expires_ms, 4000000000000);
    cr_expect(task->has_digest);
    cr_expect_eq(task->run_at_ms, 1234567890123);
    cr_expect_eq(task->attempts, 2);
}

Test(task_patch, an_empty_one_changes_nothing)
{
    task_apply_patch(task, &patch);
    expect_all_but_given();
    cr_expect_str_eq(task->body, "old");
    cr_expect_eq(task->body_kind, TASK_BODY_TEXT);
    cr_assert_eq(task->header_count, 1);
    cr_expect_str_eq(task->headers[0].name, "X-Old");
    cr_expect(task->is_timeout_given, "what the task has does not come from its queue again");
    cr_expect_eq(task->retry.given, ~0u);
}

Test(task_patch, a_body_replaces_the_old_under_whichever_member_it_came)
{
    patch.has_body = true;
    set_body(patch.values, TASK_BODY_PAYLOAD, "{}");
    task_apply_patch(task, &patch);
    cr_expect_str_eq(task->body, "{}");
    cr_expect_eq(task->body_bytes, 2);
    cr_expect_eq(task->body_kind, TASK_BODY_PAYLOAD);
    expect_all_but_given();
}

Test(task_patch, headers_are_replaced_whole)
{
    patch.has_headers = true;
    patch.values->headers = one_header("X-New", "2");
    patch.values->header_count = 1;
    task_apply_patch(task, &patch);
    cr_assert_eq(task->header_count, 1);
    cr_expect_str_eq(task->headers[0].name, "X-New");
    cr_expect_str_eq(task->headers[0].value, "2");
    expect_all_but_given();
}

Test(task_patch, no_headers_are_headers_too)
{
    patch.has_headers = true;
    task_apply_patch(task, &patch);
    cr_expect_eq(task->header_count, 0);
}

Test(task_patch, retry_is_replaced_whole_and_may_come_from_the_queue_where_it_says_nothing)
{
    patch.has_retry = true;
    patch.values->retry.given = 2;
    patch.values->retry.initial_ms = 7;
    task_apply_patch(task, &patch);
    cr_expect_eq(task->retry.initial_ms, 7);
    cr_expect_eq(task->retry.max_attempts, 10, "the default, not what it was");
    cr_expect_eq(task->retry.schedule_count, 0);
    cr_expect_null(task->retry.schedule_ms);
    cr_expect_eq(task->retry.given, 2);
}

Test(task_patch, a_schedule_is_copied)
{
    patch.has_retry = true;
    patch.values->retry.schedule_ms = xcalloc(3, sizeof(int64_t));
    patch.values->retry.schedule_count = 3;
    patch.values->retry.schedule_ms[2] = 9000;
    task_apply_patch(task, &patch);
    task_apply_patch(task, &patch);
    cr_assert_eq(task->retry.schedule_count, 3);
    cr_expect_neq(task->retry.schedule_ms, patch.values->retry.schedule_ms);
    cr_expect_eq(task->retry.schedule_ms[2], 9000);
}

Test(task_patch, everything_else_changes_alone)
{
    patch.has_method = patch.has_timeout = patch.has_due = true;
    patch.values->url = xstrdup("http://127.0.0.1/new");
    patch.values->on_success = xstrdup("http://127.0.0.1/well");
    patch.values->on_failure = xstrdup("http://127.0.0.1/ill");
    patch.values->method = TASK_METHOD_GET;
    patch.values->timeout_ms = 100;
    patch.values->due_ms = 60000;
    patch.values->has_expiry = patch.values->is_expiry_relative = true;
    patch.values->expires_ms = 90000;
    for (int i = 0; i < 2; i++) { /* it can be applied again, to the task as it is by then */
        task_apply_patch(task, &patch);
        cr_expect_str_eq(task->url, "http://127.0.0.1/new");
        cr_expect_str_eq(task->on_success, "http://127.0.0.1/well");
        cr_expect_str_eq(task->on_failure, "http://127.0.0.1/ill");
        cr_expect_eq(task->method, TASK_METHOD_GET);
        cr_expect_eq(task->timeout_ms, 100);
        cr_expect_eq(task->due_ms, 60000);
        cr_expect_not(task->is_due_absolute);
        cr_expect(task->has_expiry && task->is_expiry_relative);
        cr_expect_eq(task->expires_ms, 90000);
        cr_expect_str_eq(task->body, "old");
    }
}
