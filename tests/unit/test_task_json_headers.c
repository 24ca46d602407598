#include "../support/parsed.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The `headers` member: which names and values may be set, and the limits. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void expect_pointers(const char *headers, const char *pointers)
{
    char members[512];
    struct parsed p;

    (void)snprintf(members, sizeof(members), ",'headers':%s", headers);
    parsed_with(&p, members);
    cr_expect_str_eq(p.pointers, pointers, "%s", headers);
    parsed_deinit(&p);
}

Test(task_json_headers, names_and_values_arrive_in_their_order)
{
    struct parsed p;

    parsed_with(&p, ",'headers':{'X-B':'1','a':'','Content-Type':'text/plain','X-\\u0041':' \\t'}");
    cr_expect_str_eq(p.pointers, "/headers/X-A"); /* blanks alone are no value, nothing at all is one */
    parsed_deinit(&p);

    parsed_with(&p, ",'headers':{'X-B':'1','a':'','Content-Type':'text/plain','X-\\u0041':'x \\t y'}");
    cr_assert_not_null(p.task, "%s", p.pointers);
    cr_assert_eq(p.task->header_count, 4);
    cr_expect_str_eq(p.task->headers[0].name, "X-B");
    cr_expect_str_eq(p.task->headers[0].value, "1");
    cr_expect_str_eq(p.task->headers[1].name, "a");
    cr_expect_str_eq(p.task->headers[1].value, "");
    cr_expect_str_eq(p.task->headers[2].name, "Content-Type");
    cr_expect_str_eq(p.task->headers[3].name, "X-A");
    cr_expect_str_eq(p.task->headers[3].value, "x \t y");
    parsed_deinit(&p);
}

Test(task_json_headers, names_that_a_client_may_set_pass)
{
    static const char *const rows[] = {
        "User-Agent",
        "Accept",
        "Content-Type",
        "Content-Encoding",
        "Authorization",
        "Cookie",
        "Date",
        "Via",
        "!#$%&*+-.^_`|~09azAZ",
        "Hosts",
        "TEx",
        "Upgrade-Insecure-Requests",
        "Proxy",
        "webhook",
        "Webhooks-Id",
        "duepost",
        "X-Duepost-A",
        "Idempotency-Key",
        "Content-Lengths",
        "x-host",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char headers[64];

        (void)snprintf(headers, sizeof(headers), "{'%s':'x'}", rows[i]);
        expect_pointers(headers, "");
    }
}

Test(task_json_headers, names_that_frame_or_sign_the_message_are_refused_in_any_case)
{
    static const char *const rows[] = {
        "Host",
        "HOST",
        "Content-Length",
        "content-length",
        "Transfer-Encoding",
        "TE",
        "te",
        "Trailer",
        "Connection",
        "Keep-Alive",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "Proxy-Connection",
        "proxy-x",
        "Proxy-",
        "webhook-id",
        "Webhook-Signature",
        "WEBHOOK-",
        "duepost-attempt",
        "Duepost-Due",
        "duepost-",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char headers[64];
        char pointer[64];

        (void)snprintf(headers, sizeof(headers), "{'%s':'x'}", rows[i]);
        (void)snprintf(pointer, sizeof(pointer), "/headers/%s", rows[i]);
        expect_pointers(headers, pointer);
    }
}

Test(task_json_headers, names_must_be_tokens)
{
    static const struct {
        const char *headers;
        const char *pointers;
    } rows[] = {
        {"{'':'x'}", "/headers/"},
        {"{'a b':'x'}", "/headers/a b"},
        {"{'a:':'x'}", "/headers/a:"},
        {"{' a':'x'}", "/headers/ a"},
        {"{'a/b':'x'}", "/headers/a~1b"},
        {"{'a~':'x'}", ""},
        {"{'a\\r\\nHost':'x'}", "/headers/a\r\nHost"},
        {"{'a\\u007f':'x'}", "/headers/a\x7f"},
        {"{'\\u00e9':'x'}", "/headers/\xc3\xa9"},
        {"{'(a)':'x'}", "/headers/(a)"},
        {"{'a\\'':'x'}", "/headers/a\""},
        {"{'{a}':'x','b]':1}", "/headers/{a} /headers/b]"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_pointers(rows[i].headers, rows[i].pointers);
}

Test(task_json_headers, values_must_be_strings_without_control_characters)
{
    static const struct {
        const char *headers;
        const char *pointers;
    } rows[] = {
        {"{'a':1}", "/headers/a"},
        {"{'a':null}", "/headers/a"},
        {"{'a':true}", "/headers/a"},
        {"{'a':['x']}", "/headers/a"},
        {"{'a':{'b':'c'}}", "/headers/a"},
        {"{'a':'x\\r\\nHost: y'}", "/headers/a"},
        {"{'a':'x\\n'}", "/headers/a"},
        {"{'a':'\\u0000'}", "/headers/a"},
        {"{'a':'x\\u0000y'}", "/headers/a"},
        {"{'a':'\\u001b'}", "/headers/a"},
        {"{'a':'\\u007f'}", "/headers/a"},
        {"{'a':' x'}", "/headers/a"},
        {"{'a':'x '}", "/headers/a"},
        {"{'a':'x\\t'}", "/headers/a"},
        {"{'a':'\\u00e9 \xe2\x82\xac'}", ""},
        {"{'a':'\\' \\\\ :;,()'}", ""},
        {"{'a':1,'b':'\\n','c':'x'}", "/headers/a /headers/b"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_pointers(rows[i].headers, rows[i].pointers);
}

Test(task_json_headers, a_name_is_given_once_in_one_spelling)
{
    static const struct {
        const char *headers;
        const char *pointers;
    } rows[] = {
        {"{'a':'1','a':'1'}", "/headers/a"},
        {"{'a':'1','\\u0061':'2'}", "/headers/a"},
        {"{'Content-Type':'a','content-type':'b'}", "/headers/content-type"},
        {"{'a':'1','A':'2','a':'3'}", "/headers/A /headers/a"},
        {"{'a':1,'A':'2'}", "/headers/a /headers/A"}, /* also beside another fault */
        {"{'Host':'1','host':'2'}", "/headers/Host /headers/host /headers/host"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_pointers(rows[i].headers, rows[i].pointers);
}

/* Parse a body with `count` headers "h<i>" whose values have `bytes` bytes. */
static void parse_many(struct parsed *p, size_t count, size_t bytes)
{
    struct buf members;

    buf_init(&members, SIZE_MAX);
    buf_puts(&members, ",'headers':{");
    for (size_t i = 0; i < count; i++) {
        buf_printf(&members, "%s'h%03zu':'", i > 0 ? "," : "", i);
        for (size_t b = 0; b < bytes; b++)
            buf_putc(&members, 'v');
        buf_putc(&members, '\'');
    }
    buf_putc(&members, '}');
    parsed_with(p, members.data);
    buf_deinit(&members);
}

Test(task_json_headers, their_number_and_sizes_are_limited)
{
    static const struct {
        size_t count;
        size_t value_bytes; /* beside names of four bytes */
        const char *pointers;
    } rows[] = {
        {100, 10, ""},
        {101, 10, "/headers"},
        {50000, 0, "/headers"},
        {1, 8192 - 4, ""},
        {1, 8192 - 3, "/headers/h000"},
        {2, 8192, "/headers/h000 /headers/h001"},
        {4, 8192 - 4, ""}, /* 32 KiB in all */
        {5, 8192 - 4, "/headers"},
        {64, 512 - 4, ""},
        {65, 512 - 4, "/headers"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;

        parse_many(&p, rows[i].count, rows[i].value_bytes);
        cr_expect_str_eq(p.pointers, rows[i].pointers, "row %zu", i);
        parsed_deinit(&p);
    }
}

Test(task_json_headers, a_name_of_any_length_is_refused)
{
    struct buf members;
    struct parsed p;

    buf_init(&members, SIZE_MAX);
    buf_puts(&members, ",'headers':{'");
    for (size_t i = 0; i < 100000; i++)
        buf_putc(&members, 'n');
    buf_puts(&members, "':''}");
    parsed_with(&p, members.data);
    cr_expect_eq(p.faults.count, 1);
    cr_expect_eq(strncmp(p.pointers, "/headers/nnn", 12), 0);
    parsed_deinit(&p);
    buf_deinit(&members);
}
