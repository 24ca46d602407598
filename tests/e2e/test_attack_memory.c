/* As many batches of 16 MiB as are taken at once, growing together: what they took is given back. */
#include "../support/gateway.h"
#include "../support/wait.h"
#include "../support/wire.h"
#include "base/buf.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 12
#define TASKS 990
#define PAYLOAD_BYTES 16000
#define PIECE_BYTES ((size_t)1024 * 1024)
#define GIVEN_BACK_MS 15000
#define LEVEL_KB 131072L
#define MOST_KB (1024L * 1024)

static struct world *w;

static void setup(void)
{
    w = world_create();
}

static void teardown(void)
{
    world_destroy(&w);
}

TestSuite(attack_memory, .init = setup, .fini = teardown, .timeout = 600);

static int port(void)
{
    return (int)strtol(strrchr(w->gateway->url, ':') + 1, NULL, 10);
}

static long status_kb(const char *name)
{
    char path[64], line[256];
    long kb = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)proc_pid(w->gateway->proc));
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, name, strlen(name)) == 0)
            kb = strtol(line + strlen(name), NULL, 10);
    }
    if (f)
        (void)fclose(f);
    cr_assert_gt(kb, 0, "%s", name);
    return kb;
}

static void put_batch(struct buf *out)
{
    char *payload = malloc(PAYLOAD_BYTES + 1);

    cr_assert_not_null(payload);
    memset(payload, 'x', PAYLOAD_BYTES);
    payload[PAYLOAD_BYTES] = '\0';
    buf_init(out, (size_t)32 << 20);
    buf_puts(out, "{\"tasks\":[");
    for (int i = 0; i < TASKS; i++)
        buf_printf(out, "%s{\"url\":\"%s\",\"delay\":\"1h\",\"payload\":\"%s\"}", i > 0 ? "," : "",
                   sink_url(w->sink, "/x"), payload);
    buf_puts(out, "]}");
    cr_assert_eq(buf_status(out), ERR_OK);
    free(payload);
}

/* All grow together, a piece each in turn. */
static void send_all(struct wire **wires, const struct buf *body)
{
    for (int i = 0; i < CLIENTS; i++) {
        wires[i] = wire_dial(port());
        wire_printf(
            wires[i],
            "POST /tasks/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
            body->len);
    }
    for (size_t at = 0; at < body->len; at += PIECE_BYTES) {
        size_t n = body->len - at < PIECE_BYTES ? body->len - at : PIECE_BYTES;
        for (int i = 0; i < CLIENTS; i++)
            cr_assert(wire_try_send(wires[i], body->data + at, n));
    }
}

Test(attack_memory, what_large_batches_took_is_given_back)
{
    long before_kb = status_kb("VmRSS:");
    struct wire *wires[CLIENTS], *others[CLIENTS] = {NULL};
    struct buf body;

    put_batch(&body);
    send_all(wires, &body);
    for (int i = 0; i < CLIENTS; i++) {
        cr_expect_eq(wire_read(wires[i], true)->status, 200);
        wire_hang_up(&wires[i]);
        /* What others have meanwhile lies in between. */
        cr_expect_eq(wire_ask(port(), "GET /tasks?limit=1 HTTP/1.1\r\nHost: x\r\n\r\n", &others[i])->status, 200);
    }
    if (wait_scaled_ms(1) == 1) { /* sanitizers keep what was freed */
        cr_expect_leq(status_kb("VmHWM:"), before_kb + MOST_KB);
        int64_t until = wait_mono_ms() + GIVEN_BACK_MS;
        while (status_kb("VmRSS:") > before_kb + LEVEL_KB && wait_mono_ms() < until)
            (void)poll(NULL, 0, 10);
        cr_expect_leq(status_kb("VmRSS:"), before_kb + LEVEL_KB, "%ld kB, %ld before", status_kb("VmRSS:"), before_kb);
    }
    cr_expect_eq(client_get(w->api, "/stats")->status, 200);
    for (int i = 0; i < CLIENTS; i++)
        wire_hang_up(&others[i]);
    buf_deinit(&body);
}
