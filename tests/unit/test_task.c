#include "task/task.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* `n` times the character `c`. Gives. */
static char *repeat(char c, size_t n)
{
    char *s = calloc(n + 1, 1);

    cr_assert_not_null(s);
    memset(s, c, n);
    return s;
}

Test(task, a_new_task_has_the_defaults_of_the_contract)
{
    struct task *t = task_create();

    cr_expect_str_eq(t->queue, "default");
    cr_expect_eq(t->method, TASK_METHOD_POST);
    cr_expect_eq(t->timeout_ms, 10 * 1000);
    cr_expect_eq(t->retry.max_attempts, 10);
    cr_expect_eq(t->retry.initial_ms, 1000);
    cr_expect_eq(t->retry.multiplier, 2.0);
    cr_expect_eq(t->retry.max_ms, 10 * 60 * 1000);
    cr_expect_eq(t->retry.jitter, 0.1);
    cr_expect_null(t->retry.schedule_ms);
    cr_expect_eq(t->retry.max_age_ms, 0);
    cr_expect_eq(t->state, TASK_SCHEDULED);
    cr_expect_eq(t->body_kind, TASK_BODY_NONE);
    cr_expect_null(t->id);
    cr_expect_null(t->url);
    cr_expect_null(t->body);
    cr_expect_not(t->is_due_absolute);
    cr_expect_eq(t->due_ms, 0);
    task_destroy(&t);
}

Test(task, a_task_owns_its_headers_history_and_schedule)
{
    struct task *t = task_create();

    t->headers = calloc(1, sizeof(*t->headers));
    t->history = calloc(2, sizeof(*t->history));
    t->retry.schedule_ms = calloc(1, sizeof(*t->retry.schedule_ms));
    cr_assert(t->headers && t->history && t->retry.schedule_ms);
    t->headers[0] = (struct task_header){.name = repeat('n', 3), .value = repeat('v', 3)};
    t->history[1].error = repeat('e', 3); /* the first one succeeded */
    t->header_count = 1;
    t->history_count = 2;
    t->body = repeat('b', 3);
    task_destroy(&t); /* a leak is seen by the sanitizer */
    cr_expect_null(t);
}

Test(task, destroying_twice_or_nothing_is_harmless)
{
    struct task *t = task_create();

    task_destroy(&t);
    cr_expect_null(t);
    task_destroy(&t);
    cr_expect_null(t);
}

Test(task, each_state_has_its_name_and_some_are_finished)
{
    static const struct {
        enum task_state state;
        const char *name;
        bool is_finished;
    } rows[] = {
        {TASK_SCHEDULED, "scheduled", false}, {TASK_READY, "ready", false}, {TASK_DELIVERING, "delivering", false},
        {TASK_DELIVERED, "delivered", true},  {TASK_DEAD, "dead", true},    {TASK_CANCELLED, "cancelled", true},
        {TASK_EXPIRED, "expired", true},
    };

    cr_assert_eq(COUNT(rows), TASK_STATE_COUNT);
    for (size_t i = 0; i < COUNT(rows); i++) {
        cr_expect_str_eq(task_state_name(rows[i].state), rows[i].name);
        cr_expect_eq(task_state_is_finished(rows[i].state), rows[i].is_finished, "%s", rows[i].name);
    }
    cr_expect_str_eq(task_state_name(TASK_STATE_COUNT), "unknown");
}

Test(task, the_numbers_stored_in_redis_never_change)
{
    cr_expect_eq(TASK_SCHEDULED, 0);
    cr_expect_eq(TASK_READY, 1);
    cr_expect_eq(TASK_DELIVERING, 2);
    cr_expect_eq(TASK_DELIVERED, 3);
    cr_expect_eq(TASK_DEAD, 4);
    cr_expect_eq(TASK_CANCELLED, 5);
    cr_expect_eq(TASK_EXPIRED, 6);
    cr_expect_eq(TASK_METHOD_POST, 0);
    cr_expect_eq(TASK_METHOD_GET, 1);
    cr_expect_eq(TASK_METHOD_PUT, 2);
    cr_expect_eq(TASK_METHOD_PATCH, 3);
    cr_expect_eq(TASK_METHOD_DELETE, 4);
    cr_expect_eq(TASK_BODY_NONE, 0);
    cr_expect_eq(TASK_BODY_PAYLOAD, 1);
    cr_expect_eq(TASK_BODY_TEXT, 2);
    cr_expect_eq(TASK_BODY_BYTES, 3);
}

Test(task, methods_and_their_names_go_both_ways)
{
    for (int m = 0; m < TASK_METHOD_COUNT; m++) {
        const char *name = task_method_name((enum task_method)m);
        enum task_method found = TASK_METHOD_COUNT;

        cr_expect(task_method_from_name(name, strlen(name), &found), "%s", name);
        cr_expect_eq(found, (enum task_method)m, "%s", name);
    }
    cr_expect_str_eq(task_method_name(TASK_METHOD_COUNT), "unknown");
}

Test(task, other_methods_are_refused_and_touch_nothing)
{
    static const char *const rows[] = {"", "get", "Post", "HEAD", "OPTIONS", "POS", "POSTS", " POST", "TRACE"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        enum task_method found = TASK_METHOD_COUNT;

        cr_expect_not(task_method_from_name(rows[i], strlen(rows[i]), &found), "%s", rows[i]);
        cr_expect_eq(found, TASK_METHOD_COUNT, "%s", rows[i]);
    }
    enum task_method found = TASK_METHOD_COUNT;

    cr_expect_not(task_method_from_name("POST\0", 5, &found), "a NUL is no end");
}

Test(task, ids_follow_their_pattern)
{
    static const struct {
        const char *id;
        bool is_valid;
    } rows[] = {
        {"a", true},         {"Z", true},      {"0", true},     {"order-17:reminder_2.x", true},
        {"a.", true},        {"a::::-", true}, {"", false},     {".a", false},
        {"-a", false},       {"_a", false},    {":a", false},   {"a b", false},
        {"a/b", false},      {"a\n", false},   {"a{b}", false}, {"a%41", false},
        {"\xc3\xa9", false}, {"a\xff", false}, {"a*", false},   {"a,b", false},
        {"a@b", false},      {"a[b", false},   {"a`b", false},  {"a;b", false},
        {"a\x7f", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(task_id_is_valid(rows[i].id, strlen(rows[i].id)), rows[i].is_valid, "%s", rows[i].id);
    cr_expect_not(task_id_is_valid("a\0b", 3), "a NUL is no id character");
}

Test(task, queues_follow_their_pattern)
{
    static const struct {
        const char *queue;
        bool is_valid;
    } rows[] = {
        {"a", true},    {"0", true},    {"mail.eu-1_x", true}, {"a.", true},  {"", false},         {"A", false},
        {"aB", false},  {".a", false},  {"-a", false},         {"_a", false}, {"a:b", false},      {"a b", false},
        {"a/b", false}, {"a\t", false}, {"{a}", false},        {"a*", false}, {"\xc3\xa9", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(task_queue_is_valid(rows[i].queue, strlen(rows[i].queue)), rows[i].is_valid, "%s", rows[i].queue);
    cr_expect_not(task_queue_is_valid("a\0b", 3), "a NUL is no queue character");
}

Test(task, ids_and_queues_have_a_longest_length)
{
    char *s = repeat('a', TASK_ID_MAX + 1);

    cr_expect(task_id_is_valid(s, TASK_ID_MAX));
    cr_expect_not(task_id_is_valid(s, TASK_ID_MAX + 1));
    cr_expect(task_queue_is_valid(s, TASK_QUEUE_MAX));
    cr_expect_not(task_queue_is_valid(s, TASK_QUEUE_MAX + 1));
    free(s);
}
