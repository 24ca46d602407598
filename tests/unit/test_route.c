#include "http/route_priv.h"
#include "http/batch_priv.h"
#include "http/edit_priv.h"
#include "http/list_priv.h"
#include "http/ops_priv.h"
#include "http/queues_priv.h"
#include "http/tasks_priv.h"
#include <criterion/criterion.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* 128 and 129 characters. */
#define ID_64 "a23456789b123456789c123456789d123456789e123456789f123456789g1234"
#define ID_128 ID_64 ID_64

Test(route, each_call_is_found_by_method_and_path)
{
    static const struct {
        const char *method;
        const char *target;
        void (*handle)(struct request *r);
        const char *id;
        unsigned flags;
    } rows[] = {
        {"POST", "/tasks", tasks_create, "", ROUTE_BODY},
        {"GET", "/tasks", list_tasks, "", ROUTE_QUERY},
        {"GET", "/tasks/abc", tasks_get, "abc", ROUTE_PLAIN},
        {"HEAD", "/tasks/abc", tasks_get, "abc", ROUTE_PLAIN},
        {"DELETE", "/tasks/abc", tasks_cancel, "abc", ROUTE_PLAIN},
        {"PATCH", "/tasks/abc", edit_patch, "abc", ROUTE_BODY},
        {"POST", "/tasks/abc/run", edit_run, "abc", ROUTE_PLAIN},
        {"POST", "/tasks/abc/redrive", edit_redrive, "abc", ROUTE_PLAIN},
        {"POST", "/tasks/batch", tasks_batch, "", ROUTE_BODY | ROUTE_BATCH},
        {"GET", "/tasks/batch", tasks_get, "batch", ROUTE_PLAIN},
        {"POST", "/tasks/run/run", edit_run, "run", ROUTE_PLAIN},
        {"GET", "/queues", queues_list, "", ROUTE_PLAIN},
        {"GET", "/queues/mail", queues_get, "mail", ROUTE_PLAIN},
        {"PUT", "/queues/mail", queues_put, "mail", ROUTE_BODY},
        {"DELETE", "/queues/mail", queues_delete, "mail", ROUTE_PLAIN},
        {"POST", "/queues/mail/pause", queues_pause, "mail", ROUTE_PLAIN},
        {"POST", "/queues/mail/resume", queues_resume, "mail", ROUTE_PLAIN},
        {"POST", "/queues/mail/purge", queues_purge, "mail", ROUTE_PLAIN},
        {"POST", "/queues/mail/redrive", queues_redrive, "mail", ROUTE_MAYBE_BODY},
        {"GET", "/stats", ops_stats, "", ROUTE_PLAIN},
        {"GET", "/destinations", ops_destinations, "", ROUTE_PLAIN},
        {"GET", "/healthz", ops_healthz, "", ROUTE_PUBLIC},
        {"HEAD", "/healthz", ops_healthz, "", ROUTE_PUBLIC},
        {"GET", "/readyz", ops_readyz, "", ROUTE_PUBLIC},
        {"GET", "/openapi.yaml", ops_openapi, "", ROUTE_PUBLIC},
        {"OPTIONS", "/tasks", ops_options, "", ROUTE_PLAIN},
        {"OPTIONS", "/healthz", ops_options, "", ROUTE_PUBLIC},
        {"OPTIONS", "*", ops_options, "", ROUTE_PLAIN},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct route_match m;

        cr_assert_eq(route_find(rows[i].method, rows[i].target, &m), ERR_OK, "row %zu", i);
        cr_expect_eq(m.route->handle, rows[i].handle, "row %zu", i);
        cr_expect_str_eq(m.id, rows[i].id, "row %zu", i);
        cr_expect_eq(m.is_public, (rows[i].flags & ROUTE_PUBLIC) != 0, "row %zu", i);
        if (strcmp(rows[i].method, "OPTIONS") != 0)
            cr_expect_eq(m.route->flags, rows[i].flags, "row %zu", i);
    }
}

Test(route, segments_are_decoded_strictly)
{
    static const struct {
        const char *target;
        enum err err;
        const char *id;
    } rows[] = {
        {"/tasks/a%62c", ERR_OK, "abc"},      {"/%74asks/abc", ERR_OK, "abc"},
        {"/tasks/a%2Fb", ERR_OK, "a/b"}, /* stays in its segment; no id has a slash */
        {"/tasks/a%2fb", ERR_OK, "a/b"},      {"/tasks/a+b", ERR_OK, "a+b"},
        {"/tasks/%25", ERR_OK, "%"},          {"/tasks/" ID_128, ERR_OK, ID_128},
        {"/tasks/" ID_128 "x", ERR_OK, ""},   {"/tasks/%00", ERR_NOT_FOUND, ""},
        {"/tasks/abc%00", ERR_NOT_FOUND, ""}, {"/tasks/abc%00def", ERR_NOT_FOUND, ""},
        {"/stats%00", ERR_NOT_FOUND, ""},     {"/tasks/%", ERR_NOT_FOUND, ""},
        {"/tasks/%4", ERR_NOT_FOUND, ""},     {"/tasks/%4g", ERR_NOT_FOUND, ""},
        {"/tasks/%g4", ERR_NOT_FOUND, ""},    {"/tasks/%+4", ERR_NOT_FOUND, ""},
        {"/tasks/%4/1", ERR_NOT_FOUND, ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct route_match m;

        cr_expect_eq(route_find("GET", rows[i].target, &m), rows[i].err, "%s", rows[i].target);
        if (rows[i].err == ERR_OK)
            cr_expect_str_eq(m.id, rows[i].id, "%s", rows[i].target);
    }
}

Test(route, what_is_no_path_of_ours_is_not_found)
{
    static const char *const targets[] = {
        "",
        "/",
        "//",
        "/task",
        "/tasks/",
        "//tasks",
        "/tasks//",
        "/Tasks/a",
        "/tasks/a/",
        "/tasks/a/b",
        "/tasks/a/b/c/d/e",
        "tasks/a",
        "/healthz/",
        "/healthz/x",
        "/stats#x",
        "http://h",
        "http://",
        "ftp://h/stats",
        "/queues/",
        "/queues/a/stop",
        "/queues//pause",
    };

    for (size_t i = 0; i < COUNT(targets); i++) {
        struct route_match m;

        cr_expect_eq(route_find("GET", targets[i], &m), ERR_NOT_FOUND, "%s", targets[i]);
        cr_expect_eq(route_find("OPTIONS", targets[i], &m), ERR_NOT_FOUND, "%s", targets[i]);
        cr_expect_null(m.route);
    }
}

Test(route, a_wrong_method_is_told_the_right_ones)
{
    static const struct {
        const char *method;
        const char *target;
        const char *allow;
    } rows[] = {
        {"PUT", "/tasks", "GET, HEAD, POST, OPTIONS"},
        {"post", "/tasks", "GET, HEAD, POST, OPTIONS"},
        {"", "/tasks", "GET, HEAD, POST, OPTIONS"},
        {"TRACE", "/tasks/a", "GET, HEAD, PATCH, DELETE, OPTIONS"},
        {"PATCH", "/queues/a", "GET, HEAD, PUT, DELETE, OPTIONS"},
        {"GET", "/queues/a/pause", "POST, OPTIONS"},
        {"GeT", "/stats", "GET, HEAD, OPTIONS"},
        {"CONNECT", "/healthz", "GET, HEAD, OPTIONS"},
        {"GET", "*", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct route_match m;

        cr_expect_eq(route_find(rows[i].method, rows[i].target, &m), ERR_METHOD_NOT_ALLOWED, "row %zu", i);
        cr_expect_str_eq(m.allow, rows[i].allow, "row %zu", i);
        cr_expect_null(m.route, "row %zu", i);
    }
}

Test(route, options_tells_the_methods_of_a_path)
{
    static const struct {
        const char *target;
        const char *allow;
    } rows[] = {
        {"/tasks", "GET, HEAD, POST, OPTIONS"},
        {"/tasks/a", "GET, HEAD, PATCH, DELETE, OPTIONS"},
        {"/readyz", "GET, HEAD, OPTIONS"},
        {"*", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct route_match m;

        cr_assert_eq(route_find("OPTIONS", rows[i].target, &m), ERR_OK, "row %zu", i);
        cr_expect_str_eq(m.allow, rows[i].allow, "row %zu", i);
    }
}

Test(route, the_query_is_split_off)
{
    static const struct {
        const char *target;
        const char *query;
    } rows[] = {
        {"/stats", NULL},      {"/stats?", ""},     {"/stats?a=1", "a=1"},
        {"/stats?a?b", "a?b"}, {"/stats?/x", "/x"}, {"http://h:1/stats?a", "a"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct route_match m;

        cr_assert_eq(route_find("GET", rows[i].target, &m), ERR_OK, "row %zu", i);
        if (rows[i].query)
            cr_expect_str_eq(m.query, rows[i].query, "row %zu", i);
        else
            cr_expect_null(m.query, "row %zu", i);
    }
}

Test(route, a_target_in_absolute_form_is_its_path)
{
    static const char *const targets[] = {"http://h/stats", "HTTP://h:8080/stats", "https://[::1]:1/stats"};

    for (size_t i = 0; i < COUNT(targets); i++) {
        struct route_match m;

        cr_assert_eq(route_find("GET", targets[i], &m), ERR_OK, "%s", targets[i]);
        cr_expect_eq(m.route->handle, ops_stats, "%s", targets[i]);
    }
}
