#include "app/healthcheck.h"

#include "base/clock.h"
#include "http/tls.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TIMEOUT_MS 3000

static int fail(const char *host, int port, const char *what)
{
    bool needs_brackets = strchr(host, ':') != NULL;

    (void)fprintf(stderr, "duepost: healthcheck: %s%s%s:%d: %s\n", needs_brackets ? "[" : "", host,
                  needs_brackets ? "]" : "", port, what);
    return 1;
}

static const char *reachable(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

static int connect_to(const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    const struct timeval timeout = {.tv_sec = TIMEOUT_MS / 1000};
    char service[8];
    int fd = -1;

    (void)snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return -1;
    for (struct addrinfo *a = list; a && fd == -1; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd == -1)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        if (connect(fd, a->ai_addr, a->ai_addrlen) == -1) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static void ask(int fd, const char *request, char *answer, size_t size)
{
    size_t bytes = strlen(request), len = 0;
    ssize_t n = 1;

    if (send(fd, request, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        return;
    while (n > 0 && len < size - 1) {
        n = recv(fd, answer + len, size - 1 - len, 0);
        len += n > 0 ? (size_t)n : 0;
    }
}

/* The status and, behind it, the body, which has the reasons. Cuts `answer`. */
static int fail_by(const char *host, int port, char *answer)
{
    static const char VERSION[] = "HTTP/1.1 ";
    const char *body = strstr(answer, "\r\n\r\n");
    char text[1200];

    body = body ? body + 4 : "";
    answer[strcspn(answer, "\r\n")] = '\0';
    if (strncmp(answer, VERSION, strlen(VERSION)) == 0)
        answer += strlen(VERSION);
    (void)snprintf(text, sizeof text, "%s %.*s", answer, (int)strcspn(body, "\r\n"), body);
    return fail(host, port, text);
}

int healthcheck_run(const char *host, int port, bool is_tls)
{
    static const char REQUEST[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char answer[1024] = {0};
    int fd = connect_to(reachable(host), port);

    if (fd == -1)
        return fail(reachable(host), port, "nothing listens there");
    if (is_tls)
        tls_ask(fd, REQUEST, answer, sizeof answer, clock_mono_ms() + TIMEOUT_MS);
    else
        ask(fd, REQUEST, answer, sizeof answer);
    close(fd);
    if (strncmp(answer, "HTTP/1.1 200 ", 13) == 0)
        return 0;
    return answer[0] ? fail_by(reachable(host), port, answer) : fail(reachable(host), port, "no answer in time");
}
