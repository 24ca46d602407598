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

static int fail(const char *what)
{
    (void)fprintf(stderr, "duepost: healthcheck: %s\n", what);
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

int healthcheck_run(const char *host, int port, bool is_tls)
{
    static const char REQUEST[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char answer[1024] = {0};
    int fd = connect_to(reachable(host), port);

    if (fd == -1)
        return fail("nothing listens there");
    if (is_tls)
        tls_ask(fd, REQUEST, answer, sizeof answer, clock_mono_ms() + TIMEOUT_MS);
    else
        ask(fd, REQUEST, answer, sizeof answer);
    close(fd);
    if (strncmp(answer, "HTTP/1.1 200 ", 13) == 0)
        return 0;
    answer[strcspn(answer, "\r\n")] = '\0';
    return fail(answer[0] ? answer : "no answer in time");
}
