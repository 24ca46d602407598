#include "wire.h"
#include "base/mem.h"
#include "wait.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MS 15000 /* a batch of 16 MiB takes a slow build some seconds */
#define HEADER_SIZE 200

struct wire {
    int fd;
    char *got; /* received and not yet read */
    size_t got_bytes;
    struct wire_answer answer;
    char header[HEADER_SIZE];
};

static int dial(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_neq(fd, -1);
    if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

struct wire *wire_dial(int port)
{
    struct wire *w = xcalloc(1, sizeof(*w));

    w->fd = dial(port);
    cr_assert_neq(w->fd, -1, "nobody listens on port %d", port);
    return w;
}

bool wire_is_refused(int port)
{
    int fd = dial(port);

    if (fd == -1)
        return true;
    (void)close(fd);
    return false;
}

static void forget_answer(struct wire *w)
{
    free(w->answer.head);
    free(w->answer.body);
    json_decref(w->answer.json);
    memset(&w->answer, 0, sizeof(w->answer));
}

void wire_hang_up(struct wire **w)
{
    struct wire *self = *w;

    *w = NULL;
    if (!self)
        return;
    (void)close(self->fd);
    forget_answer(self);
    free(self->got);
    free(self);
}

bool wire_try_send(struct wire *w, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(w->fd, data, n, MSG_NOSIGNAL);

        if (sent == -1 && errno == EINTR)
            continue;
        if (sent == -1)
            return false;
        data += sent;
        n -= (size_t)sent;
    }
    return true;
}

void wire_puts(struct wire *w, const char *text)
{
    cr_assert(wire_try_send(w, text, strlen(text)), "the other end has gone");
}

void wire_printf(struct wire *w, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int n = 0;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    cr_assert_geq(n, 0);
    wire_puts(w, text);
    free(text);
}

void wire_half_close(struct wire *w)
{
    cr_assert_eq(shutdown(w->fd, SHUT_WR), 0);
}

/* Receive something by the deadline. The number of bytes, 0 at the end of the stream, -1 when nothing came. */
static int receive(struct wire *w, int64_t deadline_mono_ms)
{
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};
    int64_t left_ms = deadline_mono_ms - wait_mono_ms();
    char piece[65536];
    ssize_t n = 0;

    if (poll(&fd, 1, left_ms > 0 ? (int)left_ms : 0) <= 0)
        return -1;
    n = recv(w->fd, piece, sizeof(piece), 0);
    if (n <= 0) /* a reset is an end, too */
        return 0;
    w->got = xrealloc(w->got, w->got_bytes + (size_t)n + 1);
    memcpy(w->got + w->got_bytes, piece, (size_t)n);
    w->got_bytes += (size_t)n;
    w->got[w->got_bytes] = '\0';
    return (int)n;
}

bool wire_has_answer(const struct wire *w)
{
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};

    return w->got_bytes > 0 || poll(&fd, 1, 0) > 0;
}

static void need_bytes(struct wire *w, size_t n, int64_t deadline_mono_ms)
{
    while (w->got_bytes < n)
        cr_assert_gt(receive(w, deadline_mono_ms), 0, "no whole answer, only: %s", w->got_bytes ? w->got : "");
}

static char *take(struct wire *w, size_t n)
{
    char *taken = xstrndup(w->got ? w->got : "", n);

    w->got_bytes -= n;
    if (w->got)
        memmove(w->got, w->got + n, w->got_bytes + 1);
    return taken;
}

const struct wire_answer *wire_read(struct wire *w, bool has_body)
{
    int64_t deadline_mono_ms = wait_mono_ms() + wait_scaled_ms(ANSWER_MS);
    const char *end = NULL;
    const char *length = NULL;

    forget_answer(w);
    while (!w->got || !(end = strstr(w->got, "\r\n\r\n")))
        need_bytes(w, w->got_bytes + 1, deadline_mono_ms);
    w->answer.head = take(w, (size_t)(end - w->got) + 4);
    cr_assert_eq(strncmp(w->answer.head, "HTTP/1.1 ", 9), 0, "no status line: %s", w->answer.head);
    w->answer.status = (int)strtol(w->answer.head + 9, NULL, 10);
    length = wire_header(w, "Content-Length");
    w->answer.body_bytes = has_body && length ? strtoul(length, NULL, 10) : 0;
    need_bytes(w, w->answer.body_bytes, deadline_mono_ms);
    w->answer.body = take(w, w->answer.body_bytes);
    w->answer.json = json_loadb(w->answer.body, w->answer.body_bytes, JSON_DECODE_ANY, NULL);
    return &w->answer;
}

const struct wire_answer *wire_ask(int port, const char *request, struct wire **w)
{
    *w = wire_dial(port);
    wire_puts(*w, request);
    return wire_read(*w, strncmp(request, "HEAD ", 5) != 0);
}

bool wire_is_closed(struct wire *w, int ms)
{
    return w->got_bytes == 0 && receive(w, wait_mono_ms() + wait_scaled_ms(ms)) == 0;
}

const char *wire_header(struct wire *w, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = w->answer.head; line; line = strstr(line, "\r\n")) {
        line += line == w->answer.head ? 0 : 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            line += n + 1;
            line += strspn(line, " ");
            (void)snprintf(w->header, sizeof(w->header), "%.*s", (int)strcspn(line, "\r"), line);
            return w->header;
        }
    }
    return NULL;
}
