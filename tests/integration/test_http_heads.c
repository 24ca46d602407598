#include "../support/http_fixture.h"
#include "base/buf.h"
#include "http/admit_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Heads that are too large for the memory that libmicrohttpd gives a connection: each gets an answer, none just a
 * closed connection. */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define BEYOND_BYTES 20000 /* more than that memory */
/* With a head of 15.9 KB of cookies it is full before we are asked, and libmicrohttpd 0.9.75 hangs up. */
#define COOKIES_BYTES 15600

TestSuite(http_heads, .init = http_set_up, .fini = http_tear_down);

static void put_times(struct buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_puts(out, text);
}

static const struct wire_answer *ask(int port, struct buf *request, struct wire **w)
{
    cr_assert_eq(buf_status(request), ERR_OK);
    *w = wire_dial(port);
    (void)wire_try_send(*w, request->data, request->len);
    buf_deinit(request);
    return wire_read(*w, true);
}

/* ---- the limits ---- */

/* A target of so many bytes, as they are counted. */
static struct buf with_target(size_t bytes)
{
    struct buf request;

    buf_init(&request, SIZE_MAX);
    buf_puts(&request, "GET /tasks?cursor=");
    put_times(&request, "a", bytes - strlen("/tasks?cursor=") - FIELD_BYTES);
    buf_puts(&request, " HTTP/1.1\r\n" HOST "\r\n");
    return request;
}

/* A head of so many bytes, as they are counted, and a body. */
static struct buf with_head(size_t bytes)
{
    static const char before[] = "POST /tasks HTTP/1.1\r\n" HOST JSON "Content-Length: 49\r\nX-Long: ";
    static const char after[] = "\r\n\r\n";
    struct buf request;

    buf_init(&request, SIZE_MAX);
    buf_puts(&request, before);
    put_times(&request, "a", bytes - strlen(before) - strlen(after) - 4 * FIELD_BYTES);
    buf_puts(&request, after);
    buf_puts(&request, TASK);
    return request;
}

Test(http_heads, a_target_at_the_limit_is_taken_and_one_byte_more_is_not)
{
    int port = http_start_plain();
    struct buf within = with_target(TARGET_MAX_BYTES), beyond = with_target(TARGET_MAX_BYTES + 1);
    struct wire *w = NULL;
    const struct wire_answer *a = ask(port, &within, &w);

    http_expect_problem(w, a, 400, "invalid_query");
    wire_puts(w, GET_HEALTH);
    cr_expect_eq(wire_read(w, true)->status, 200, "the connection lives on");
    wire_hang_up(&w);
    a = ask(port, &beyond, &w);
    http_expect_problem(w, a, 414, "target_too_long");
    cr_expect_not_null(strstr(http_text(a, "detail"), "8192"));
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
}

Test(http_heads, a_head_at_the_limit_is_taken_and_one_byte_more_is_not)
{
    int port = http_start_plain();
    struct buf within = with_head(HEAD_MAX_BYTES), beyond = with_head(HEAD_MAX_BYTES + 1);
    struct wire *w = NULL;
    const struct wire_answer *a = ask(port, &within, &w);

    cr_expect_eq(a->status, 201);
    wire_hang_up(&w);
    a = ask(port, &beyond, &w);
    http_expect_problem(w, a, 431, "head_too_large");
    cr_expect_not_null(strstr(http_text(a, "detail"), "15360"));
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
    cr_expect_eq(store_fake_count(http_store(), STORE_CREATE), 1);
}

Test(http_heads, a_wrong_token_comes_before_a_large_head)
{
    static const char *const tokens[] = {"sesame", NULL};
    struct server_opts opts = http_opts();
    struct buf beyond = with_head(HEAD_MAX_BYTES + 1);
    struct wire *w = NULL;

    opts.tokens = tokens;
    const struct wire_answer *a = ask(http_start(&opts), &beyond, &w);
    http_expect_problem(w, a, 401, "unauthorized");
    cr_expect_not_null(wire_header(w, "WWW-Authenticate"));
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
}

/* These answers do not come by libmicrohttpd, which would see to it. */
Test(http_heads, head_is_refused_without_a_body)
{
    int port = http_start_plain();
    struct wire *w = wire_dial(port);
    char padding[HEAD_MAX_BYTES];

    memset(padding, 'a', sizeof(padding) - 1);
    padding[sizeof(padding) - 1] = '\0';
    wire_printf(w, "HEAD /healthz HTTP/1.1\r\n" HOST "X-Long: %s\r\n\r\n", padding);
    cr_expect_eq(wire_read(w, false)->status, 431);
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
    w = wire_dial(port);
    wire_puts(w, "HEAD /healthz HTTP/1.1\r\n" HOST "Content-Length: 999999999\r\n\r\n");
    cr_expect_eq(wire_read(w, false)->status, 413);
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
}

Test(http_heads, the_body_of_a_request_with_a_long_target_is_read_away)
{
    struct wire *w = NULL;
    const struct wire_answer *a = NULL;
    struct buf request;

    buf_init(&request, SIZE_MAX);
    buf_puts(&request, "POST /");
    put_times(&request, "a", TARGET_MAX_BYTES);
    buf_puts(&request, " HTTP/1.1\r\n" HOST "Content-Length: 400000\r\n\r\n");
    put_times(&request, "x", 400000);
    a = ask(http_start_plain(), &request, &w);
    http_expect_problem(w, a, 414, "target_too_long");
    cr_expect(wire_is_closed(w, 1000));
    wire_hang_up(&w);
}

/* libmicrohttpd has no room for it, and would look at it in vain, as fast as it can, for a minute. */
Test(http_heads, a_line_of_a_chunk_that_is_too_long_ends_the_connection_soon)
{
    static const char *const targets[] = {"/tasks", "/nowhere"};
    int port = http_start_plain();

    for (size_t i = 0; i < COUNT(targets); i++) {
        struct wire *w = wire_dial(port);

        wire_printf(w, "POST %s HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n2;", targets[i]);
        for (int k = 0; k < BEYOND_BYTES / 10; k++)
            wire_puts(w, "aaaaaaaaaa");
        cr_expect(wire_is_closed(w, 5000), "%s", targets[i]);
        wire_hang_up(&w);
    }
}

/* ---- no head goes without an answer ---- */

Test(http_heads, a_head_of_any_size_gets_an_answer)
{
    static const struct {
        const char *before, *piece, *after;
        size_t most_bytes;
        bool is_taken; /* as long as there is room */
    } rows[] = {
        {"GET /healthz?a=", "a", " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", BEYOND_BYTES, false},
        {"GET /healthz?a", "&a", " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", BEYOND_BYTES, false},
        {"GET /healthz?a", "&limit=null", " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", BEYOND_BYTES, false},
        {"GET /healthz?", "&", " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", BEYOND_BYTES, true},
        {"GET /", "a", " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", BEYOND_BYTES, false},
        {"POST /", "a", " HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: 2\r\n\r\n{}", BEYOND_BYTES, false},
        {"GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\n", "X: a\r\n", "\r\n", BEYOND_BYTES, true},
        {"GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\nX: ", "a", "\r\n\r\n", BEYOND_BYTES, true},
        {"GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\nCookie: a=b", "; a=b", "\r\n\r\n", COOKIES_BYTES, true},
        {"GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\nCookie: a=", "b", "\r\n\r\n", COOKIES_BYTES, true},
        {"POST /tasks HTTP/1.1\r\n" HOST JSON "Connection: close\r\nContent-Length: 49\r\nX: ", "a", "\r\n\r\n" TASK,
         BEYOND_BYTES, true},
        {"POST /tasks HTTP/1.1\r\n" HOST JSON "Connection: close\r\nContent-Length: 49\r\nCookie: a=b", "; a=b",
         "\r\n\r\n" TASK, COOKIES_BYTES, true},
    };
    int port = http_start_plain();

    for (size_t row = 0; row < COUNT(rows); row++) {
        size_t step = strlen(rows[row].piece) == 1 ? 97 : 7;
        size_t taken = 0, refused = 0;

        for (size_t n = 1; n * strlen(rows[row].piece) < rows[row].most_bytes; n += step) {
            struct buf request;
            struct wire *w = NULL;
            const struct wire_answer *a = NULL;

            buf_init(&request, SIZE_MAX);
            buf_puts(&request, rows[row].before);
            put_times(&request, rows[row].piece, n);
            buf_puts(&request, rows[row].after);
            a = ask(port, &request, &w);
            taken += a->status == 200 || a->status == 201;
            refused += a->status == 414 || a->status == 431;
            cr_assert(a->status >= 200, "row %zu, %zu times: no answer", row, n);
            wire_hang_up(&w);
        }
        cr_expect_eq(taken > 0, rows[row].is_taken, "row %zu", row);
        cr_expect_gt(refused, 10, "row %zu", row);
    }
}
