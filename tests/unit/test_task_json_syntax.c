#include "../support/parsed.h"
#include "base/parse.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Bodies that are no JSON, or JSON of a kind that breaks parsers: numbers, surrogates, bytes that are not UTF-8,
 * nesting, sizes. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void expect_not_json(const char *json, size_t n)
{
    struct parsed p;

    parsed_from_bytes(&p, json, n);
    cr_expect_eq(p.err, ERR_INVALID_JSON, "%s: %s", json, err_code(p.err));
    cr_expect_str_eq(p.pointers, "-", "%s", json);
    cr_expect(p.faults.count == 1 && parse_is_utf8(p.faults.items[0].detail, strlen(p.faults.items[0].detail)), "%s",
              json);
    parsed_deinit(&p);
}

Test(task_json_syntax, what_is_no_json_is_one_fault_in_utf8)
{
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "{\"url\":\"http://127.0.0.1/\"",
        "{\"url\":\"http://127.0.0.1/\",}",
        "{\"url\":\"http://127.0.0.1/\"}}",
        "{\"url\":\"http://127.0.0.1/\"} {}",
        "{'url':'http://127.0.0.1/'}",
        "{url:\"http://127.0.0.1/\"}",
        "{\"url\" \"x\"}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":5.}",
        "{\"a\":1e}",
        "{\"a\":0x10}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":-Infinity}",
        "{\"a\":nul}",
        "{\"a\":True}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x41\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "[1}",
        "// comment\n{}",
        "\xef\xbb\xbf{}",
        "{\"payload\":1e400}",
        "{\"payload\":-1e400}",
        "{\"payload\":{\"x\":[1e999999999]}}",
        "{\"delay\":1e400}",
        "{\"payload\":\"\\ud800\"}",
        "{\"payload\":\"\\udc00\"}",
        "{\"payload\":\"\\ud800\\ud800\"}",
        "{\"payload\":\"\\ud800x\"}",
        "{\"payload\":{\"\\ud800\":1}}",
        "{\"url\":\"http://127.0.0.1/\\udfff\"}",
        "{\"headers\":{\"a\":\"\\ud800\"}}",
        "{\"\\ud800\":1}",
        "{\"payload\":\"\xc3(\"}",
        "{\"payload\":\"\xc0\xaf\"}",
        "{\"payload\":\"\xed\xa0\x80\"}",
        "{\"payload\":\"\xf4\x90\x80\x80\"}",
        "{\"payload\":\"\xff\"}",
        "{\"payload\":\"\xe2\x82\"}",
        "{\"url\":\"http://127.0.0.1/\xc3(\"}",
        "{\"headers\":{\"a\":\"\xc3(\"}}",
        "{\"\xc3(\":1}",
        "\xff\xfe{\0",
        "{\"a\":\xc3\xa9}",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_not_json(rows[i], strlen(rows[i]));
    expect_not_json("{\"a\":1}\0", 8);
    expect_not_json("{\"a\":\"\0\"}", 9);
    expect_not_json("{\"a\0\":1}", 8);
}

Test(task_json_syntax, a_number_that_no_double_holds_is_refused_without_exponent_too)
{
    char json[420] = "{\"payload\":";

    memset(json + strlen(json), '9', 400);
    json[411 - 1] = '}';
    json[411] = '\0';
    expect_not_json(json, strlen(json));
}

Test(task_json_syntax, json_that_is_no_object_is_refused)
{
    static const char *const rows[] = {"[]", "[{'url':'http://127.0.0.1/'}]", "null", "5", "'x'", " true "};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;

        parsed_from_quoted(&p, rows[i]);
        cr_expect_eq(p.err, ERR_INVALID, "%s", rows[i]);
        cr_expect_str_eq(p.pointers, "-", "%s", rows[i]);
        parsed_deinit(&p);
    }
}

/* A body whose member `member` nests so deep that the whole has `levels`. */
static void parse_nested(struct parsed *p, const char *member, size_t levels)
{
    struct buf json;

    buf_init(&json, SIZE_MAX);
    buf_printf(&json, "{\"url\":\"http://127.0.0.1/\",\"%s\":", member);
    for (size_t i = 1; i < levels; i++)
        buf_puts(&json, i % 2 == 1 ? "[" : "{\"}]\":");
    buf_puts(&json, levels % 2 == 0 ? "" : "0");
    for (size_t i = levels; i > 1; i--)
        buf_putc(&json, i % 2 == 0 ? ']' : '}');
    buf_putc(&json, '}');
    parsed_from_bytes(p, json.data, json.len);
    buf_deinit(&json);
}

Test(task_json_syntax, nesting_has_a_limit)
{
    static const struct {
        const char *member;
        size_t levels;
        enum err err;
        const char *pointers;
    } rows[] = {
        {"payload", 100, ERR_OK, ""},
        {"payload", 999, ERR_OK, ""},
        {"payload", 1000, ERR_OK, ""},
        {"payload", 1001, ERR_INVALID, "/payload"},
        {"payload", 1500, ERR_INVALID, "/payload"},
        {"payload", 2049, ERR_INVALID, "-"},
        {"payload", 100000, ERR_INVALID, "-"},
        {"headers", 1001, ERR_INVALID, "/headers"},
        {"headers", 100000, ERR_INVALID, "-"},
        {"retry", 1001, ERR_INVALID, "/retry"},
        {"url", 1001, ERR_INVALID, "/url"},
        {"unknown", 1001, ERR_INVALID, "/unknown"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;

        parse_nested(&p, rows[i].member, rows[i].levels);
        cr_expect_eq(p.err, rows[i].err, "row %zu: %s", i, err_code(p.err));
        cr_expect_str_eq(p.pointers, strcmp(rows[i].member, "url") == 0 ? "/url" : rows[i].pointers, "row %zu", i);
        parsed_deinit(&p);
    }
}

Test(task_json_syntax, a_name_of_any_length_gives_a_short_pointer)
{
    enum { BYTES = 500000 };
    struct buf members;
    struct parsed p;

    buf_init(&members, SIZE_MAX);
    buf_puts(&members, ",'");
    for (int i = 0; i < BYTES; i++)
        buf_putc(&members, 'x');
    buf_puts(&members, "':1");
    parsed_with(&p, members.data);
    cr_expect_eq(p.err, ERR_INVALID);
    cr_expect_lt(strlen(p.pointers), 400);
    cr_expect_str_eq(p.pointers + strlen(p.pointers) - 3, "...");
    parsed_deinit(&p);
    buf_deinit(&members);
}

Test(task_json_syntax, a_megabyte_of_digits_is_read_in_time, .timeout = 10)
{
    enum { BYTES = 1000000 };
    struct buf members;
    struct parsed p;

    buf_init(&members, SIZE_MAX);
    buf_puts(&members, ",'retry':{'jitter':0.");
    for (int i = 0; i < BYTES; i++)
        buf_putc(&members, '1');
    buf_puts(&members, "},'payload':0.");
    for (int i = 0; i < BYTES; i++)
        buf_putc(&members, '9');
    parsed_with(&p, members.data);
    cr_expect_eq(p.err, ERR_OK, "%s", p.pointers);
    parsed_deinit(&p);
    buf_deinit(&members);
}

/* A sanitizer's memory is not that of the tested program: it cannot be limited. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_SANITIZER
#endif
#endif
#if !defined(HAVE_SANITIZER) && !defined(__SANITIZE_ADDRESS__)

/* Let this process have only so much more memory than now. */
static void limit_memory(size_t more_bytes)
{
    FILE *f = fopen("/proc/self/statm", "r");
    char text[64] = "";
    int64_t pages = 0;

    cr_assert_not_null(f);
    cr_assert_not_null(fgets(text, sizeof(text), f));
    (void)fclose(f);
    cr_assert(parse_int64(text, strcspn(text, " "), &pages));
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};

    limit.rlim_cur = more_bytes > 0 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) + more_bytes : RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

Test(task_json_syntax, memory_that_is_out_is_no_fault_of_the_client)
{
    enum { ITEMS = 2000000 };
    static char json[2 * ITEMS + 64] = "{\"url\":\"http://example.com/\",\"payload\":[1";
    static const struct task_json_opts opts = {0};
    size_t n = strlen(json);
    struct faults faults;
    struct task *t = NULL;

    for (size_t i = 0; i < ITEMS; i++)
        memcpy(json + n + 2 * i, ",1", 2);
    memcpy(json + n + 2 * ITEMS, "]}", 2);
    n += 2 * ITEMS + 2;
    task_json_global_init();
    faults_init(&faults);
    limit_memory(32 * 1024 * 1024);
    enum err limited = task_json_parse(json, n, &opts, &faults, &t);

    limit_memory(0);
    cr_expect_eq(limited, ERR_NOMEM, "%s", err_code(limited));
    cr_expect_eq(faults.count, 0);
    cr_expect_null(t);
    cr_expect_eq(task_json_parse(json, n, &opts, &faults, &t), ERR_OK);
    task_destroy(&t);
    faults_deinit(&faults);
}
#endif
