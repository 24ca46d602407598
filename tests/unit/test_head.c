#include "http/head_priv.h"
#include <criterion/criterion.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define HEADERS_MAX 4

struct given {
    const char *name;
    const char *value;
};

static struct head head_of(const struct given given[HEADERS_MAX])
{
    struct head h = {0};

    for (size_t i = 0; i < HEADERS_MAX && given[i].name; i++)
        head_note(&h, given[i].name, given[i].value);
    return h;
}

Test(head, framing_in_doubt_is_refused)
{
    static const struct {
        bool is_http_1_0;
        struct given given[HEADERS_MAX];
    } rows[] = {
        {false, {{NULL, NULL}}}, /* no Host */
        {false, {{"Host", "a"}, {"host", "a"}}},
        {true, {{"Host", "a"}, {"Host", "b"}}},
        {false, {{"Host", "a"}, {"Content-Length", "5"}, {"Content-Length", "5"}}},
        {false, {{"Host", "a"}, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}}},
        {false, {{"Host", "a"}, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}}},
        {false, {{"Host", "a"}, {"Transfer-Encoding", "gzip, chunked"}}},
        {false, {{"Host", "a"}, {"Transfer-Encoding", "gzip"}}},
        {false, {{"Host", "a"}, {"Transfer-Encoding", ""}}},
        {true, {{"Transfer-Encoding", "chunked"}}},
        {false, {{"Host", "a"}, {"Content-Length", "-1"}}},
        {false, {{"Host", "a"}, {"Content-Length", "-0"}}},
        {false, {{"Host", "a"}, {"Content-Length", "+5"}}},
        {false, {{"Host", "a"}, {"Content-Length", ""}}},
        {false, {{"Host", "a"}, {"Content-Length", "5, 5"}}},
        {false, {{"Host", "a"}, {"Content-Length", "0x5"}}},
        {false, {{"Host", "a"}, {"Content-Length", "9223372036854775808"}}},
        {false, {{"Host", "a"}, {"Content-Length ", "5"}}},
        {false, {{"Host", "a"}, {"X\tY", "5"}}},
        {false, {{"Host", "a"}, {"", "5"}}},
        {false, {{"Host", "a"}, {"X(", "5"}}},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = head_of(rows[i].given);
        const char *detail = NULL;

        h.is_http_1_0 = rows[i].is_http_1_0;
        cr_expect_eq(head_check_framing(&h, &detail), ERR_BAD_FRAMING, "row %zu", i);
        cr_expect_not_null(detail, "row %zu", i);
    }
}

Test(head, good_framing_tells_the_size_of_the_body)
{
    static const struct {
        bool is_http_1_0;
        struct given given[HEADERS_MAX];
        int64_t body_bytes;
    } rows[] = {
        {false, {{"Host", "a"}}, 0},
        {false, {{"Host", ""}}, 0},
        {true, {{NULL, NULL}}, 0},
        {false, {{"HOST", "a"}, {"content-length", "0"}}, 0},
        {false, {{"Host", "a"}, {"Content-Length", "1048576"}}, 1048576},
        {false, {{"Host", "a"}, {"Transfer-Encoding", "chunked"}}, HEAD_BODY_CHUNKED},
        {false, {{"Host", "a"}, {"TRANSFER-ENCODING", "Chunked"}, {"X", ""}}, HEAD_BODY_CHUNKED},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = head_of(rows[i].given);
        const char *detail = NULL;

        h.is_http_1_0 = rows[i].is_http_1_0;
        cr_expect_eq(head_check_framing(&h, &detail), ERR_OK, "row %zu", i);
        cr_expect_eq(h.body_bytes, rows[i].body_bytes, "row %zu", i);
    }
}

Test(head, only_a_known_token_opens)
{
    static const char *const tokens[] = {"sesame", "a-longer-token", NULL};
    static const char *const read_tokens[] = {"reader", "second", NULL};
    static const struct {
        struct given given[HEADERS_MAX];
        enum head_access access;
    } rows[] = {
        {{{"Authorization", "Bearer sesame"}}, HEAD_ACCESS_FULL},
        {{{"authorization", "bearer sesame"}}, HEAD_ACCESS_FULL},
        {{{"Authorization", "Bearer  sesame"}}, HEAD_ACCESS_FULL},
        {{{"Authorization", "Bearer a-longer-token"}}, HEAD_ACCESS_FULL},
        {{{"Authorization", "Bearer sesame \t"}}, HEAD_ACCESS_FULL},
        {{{"Authorization", "Bearer reader"}}, HEAD_ACCESS_READ},
        {{{"Authorization", "Bearer second"}}, HEAD_ACCESS_READ},
        {{{"Authorization", "Bearer readers"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Bearer Sesame"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Bearer sesam"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Bearer sesames"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Bearer "}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Bearer"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Basic sesame"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "sesame"}}, HEAD_ACCESS_NONE},
        {{{"Authorization", ""}}, HEAD_ACCESS_NONE},
        {{{"Authorization", "Bearer sesame"}, {"Authorization", "Bearer sesame"}}, HEAD_ACCESS_NONE},
        {{{NULL, NULL}}, HEAD_ACCESS_NONE},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = head_of(rows[i].given);

        cr_expect_eq(head_access(&h, tokens, read_tokens), rows[i].access, "row %zu", i);
        cr_expect_eq(head_access(&h, NULL, NULL), HEAD_ACCESS_FULL, "row %zu", i);
        if (rows[i].access == HEAD_ACCESS_READ)
            cr_expect_eq(head_access(&h, tokens, NULL), HEAD_ACCESS_NONE, "row %zu", i);
    }
}

Test(head, an_idempotency_key_is_given_once_and_printable)
{
    static char longest[256], too_long[257];
    const struct {
        struct given given[HEADERS_MAX];
        bool is_fine;
    } rows[] = {
        {{{NULL, NULL}}, true},
        {{{"Idempotency-Key", "a"}}, true},
        {{{"idempotency-key", "a b~!"}}, true},
        {{{"idempotency-key", "a b \t "}}, true},
        {{{"idempotency-key", " \t "}}, false},
        {{{"Idempotency-Key", longest}}, true},
        {{{"Idempotency-Key", too_long}}, false},
        {{{"Idempotency-Key", ""}}, false},
        {{{"Idempotency-Key", "a\tb"}}, false},
        {{{"Idempotency-Key", "a\x7f"}}, false},
        {{{"Idempotency-Key", "caf\xc3\xa9"}}, false},
        {{{"Idempotency-Key", "a"}, {"Idempotency-Key", "a"}}, false},
    };

    memset(longest, 'k', 255);
    memset(too_long, 'k', 256);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = head_of(rows[i].given);
        const char *detail = NULL;

        cr_expect_eq(head_check_idempotency_key(&h, &detail), rows[i].is_fine ? ERR_OK : ERR_INVALID_HEADER, "row %zu",
                     i);
        cr_expect_eq(detail == NULL, rows[i].is_fine, "row %zu", i);
    }
}

Test(head, a_body_must_be_json_in_utf8)
{
    static const struct {
        struct given given[HEADERS_MAX];
        bool is_json;
    } rows[] = {
        {{{"Content-Type", "application/json"}}, true},
        {{{"Content-Type", "Application/JSON"}}, true},
        {{{"Content-Type", "application/json; charset=utf-8"}}, true},
        {{{"Content-Type", "application/json;charset=UTF-8"}}, true},
        {{{"Content-Type", "application/json ; charset=\"utf-8\" "}}, true},
        {{{"Content-Type", "application/json;"}}, true},
        {{{"Content-Type", "application/json"}, {"Content-Encoding", "identity"}}, true},
        {{{"Content-Type", "application/json"}, {"Content-Encoding", "Identity "}}, true},
        {{{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}, {"Content-Encoding", "identity"}}, false},
        {{{"Content-Type", "application/json; charset=latin1"}}, false},
        {{{"Content-Type", "application/json; charset=utf-8x"}}, false},
        {{{"Content-Type", "application/json; charset="}}, false},
        {{{"Content-Type", "application/json; x=y"}}, false},
        {{{"Content-Type", "application/json, text/plain"}}, false},
        {{{"Content-Type", "application/jsonl"}}, false},
        {{{"Content-Type", "application/problem+json"}}, false},
        {{{"Content-Type", "text/plain"}}, false},
        {{{"Content-Type", ""}}, false},
        {{{"Content-Type", "application/json"}, {"Content-Type", "application/json"}}, false},
        {{{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}}, false},
        {{{"Content-Type", "application/json"}, {"Content-Encoding", ""}}, false},
        {{{NULL, NULL}}, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = head_of(rows[i].given);
        const char *detail = NULL;
        enum err err = head_check_json(&h, &detail);

        cr_expect_eq(err, rows[i].is_json ? ERR_OK : ERR_UNSUPPORTED_MEDIA_TYPE, "row %zu", i);
        cr_expect_eq(detail == NULL, rows[i].is_json, "row %zu", i);
    }
}

Test(head, only_100_continue_can_be_expected)
{
    static const struct {
        bool is_http_1_0;
        const char *expect;
        bool is_continue;
        bool is_other;
    } rows[] = {
        {false, NULL, false, false},           {false, "100-continue", true, false},
        {false, "100-Continue", true, false},  {true, "100-continue", false, false},
        {false, "200-ok", false, true},        {false, "", false, true},
        {true, "200-ok", false, true},         {false, "100-continue \t", true, false},
        {false, "100-continued", false, true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = {.is_http_1_0 = rows[i].is_http_1_0};

        if (rows[i].expect)
            head_note(&h, "Expect", rows[i].expect);
        cr_expect_eq(head_expects_continue(&h), rows[i].is_continue, "row %zu", i);
        cr_expect_eq(head_expects_something_else(&h), rows[i].is_other, "row %zu", i);
    }
}

Test(head, what_is_expected_is_said_once)
{
    struct head h = head_of((const struct given[HEADERS_MAX]){{"Expect", "200-ok"}, {"Expect", "100-continue"}});

    cr_expect(head_expects_something_else(&h));
    cr_expect_not(head_expects_continue(&h));
}

#define TRACEPARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

Test(head, a_traceparent_is_kept_when_it_is_right_and_given_once)
{
    static const struct {
        struct given given[HEADERS_MAX];
        bool is_kept;
    } rows[] = {
        {{{"traceparent", TRACEPARENT}}, true},
        {{{"TraceParent", " \t" TRACEPARENT " "}}, true},
        {{{NULL, NULL}}, false},
        {{{"traceparent", ""}}, false},
        {{{"traceparent", "  "}}, false},
        {{{"traceparent", NULL}}, false},
        {{{"traceparent", "00-1-1-01"}}, false},
        {{{"traceparent", TRACEPARENT}, {"traceparent", TRACEPARENT}}, false},
        {{{"tracestate", TRACEPARENT}}, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head h = head_of(rows[i].given);
        char kept[TASK_TRACEPARENT_BYTES + 1] = "";

        cr_expect_eq(head_traceparent(&h, kept), rows[i].is_kept, "row %zu", i);
        cr_expect_str_eq(kept, rows[i].is_kept ? TRACEPARENT : "", "row %zu", i);
    }
}
