#include "http_fixture.h"
#include "base/clock.h"
#include <criterion/criterion.h>
#include <string.h>

static struct store *store;
static struct server *server;
static struct cidr_list allow_net;
static const char *unready = "";

static void write_stats(void *ctx, struct buf *out)
{
    (void)ctx;
    buf_puts(out, "\"lateness_ms\":{\"count\":0},\"mover\":{\"moved\":0},\"workers\":{\"threads\":1},");
}

static void write_unready(void *ctx, struct buf *out)
{
    (void)ctx;
    buf_puts(out, unready);
}

void http_set_up(void)
{
    const char *bad = NULL;
    size_t bad_bytes = 0;

    store = store_fake_create();
    cr_assert_eq(cidr_list_parse("127.0.0.0/8", &allow_net, &bad, &bad_bytes), ERR_OK);
}

void http_tear_down(void)
{
    server_stop(&server, clock_mono_ms());
    store_destroy(&store);
    cidr_list_deinit(&allow_net);
}

struct store *http_store(void)
{
    return store;
}

struct server_opts http_opts(void)
{
    return (struct server_opts){
        .host = "127.0.0.1",
        .max_body_bytes = HTTP_MAX_BODY,
        .connection_max = 600,
        .allow_net = &allow_net,
        .openapi = "openapi: 3.1.0\n",
        .openapi_bytes = 15,
        .version = "0.0.1",
        .write_stats = write_stats,
        .write_unready = write_unready,
    };
}

int http_start(const struct server_opts *opts)
{
    char detail[SERVER_DETAIL_SIZE];

    cr_assert_eq(server_create(opts, &server, detail), ERR_OK, "%s", detail);
    cr_assert_eq(server_begin(server, store), ERR_OK);
    return server_port(server);
}

int http_start_plain(void)
{
    struct server_opts opts = http_opts();

    return http_start(&opts);
}

void http_stop(int64_t deadline_mono_ms)
{
    server_stop(&server, deadline_mono_ms);
}

void http_set_unready(const char *reasons)
{
    unready = reasons;
}

int http_ask(int port, const char *request)
{
    struct wire *w = NULL;
    int status = wire_ask(port, request, &w)->status;

    wire_hang_up(&w);
    return status;
}

const char *http_text(const struct wire_answer *a, const char *name)
{
    const char *s = json_string_value(json_object_get(a->json, name));

    return s ? s : "(none)";
}

void http_expect_problem(struct wire *w, const struct wire_answer *a, int status, const char *code)
{
    bool has_errors = status == 400 && strcmp(code, "bad_framing") != 0;

    cr_expect_eq(a->status, status, "%s: status %d", code, a->status);
    cr_expect_str_eq(wire_header(w, "Content-Type"), "application/problem+json", "%s", code);
    cr_expect_str_eq(http_text(a, "code"), code, "%s", a->body);
    cr_expect_str_eq(http_text(a, "type"), "about:blank");
    cr_expect_eq(json_integer_value(json_object_get(a->json, "status")), status);
    cr_expect_str_neq(http_text(a, "title"), "(none)");
    cr_expect_str_neq(http_text(a, "detail"), "(none)");
    cr_expect_eq(wire_header(w, "Retry-After") != NULL, status == 503, "%s", code);
    cr_expect_eq(json_is_array(json_object_get(a->json, "errors")), has_errors, "%s", a->body);
}
