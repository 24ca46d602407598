#include "http/listen_priv.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

static void set_detail(char detail[SERVER_DETAIL_SIZE], const char *host, int port, const char *why)
{
    (void)snprintf(detail, SERVER_DETAIL_SIZE, "cannot listen on %s port %d: %s", host, port, why);
}

/* A listening socket; -1 with errno. */
static int try_address(const struct addrinfo *a)
{
    int on = 1;
    int off = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_listening = false;
    int saved = 0;

    if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1)
        goto out;
    /* "::" takes IPv4 as well, whatever the system's default is. */
    if (a->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == -1)
        goto out;
    is_listening = bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
out:
    if (!is_listening && fd != -1) {
        saved = errno;
        (void)close(fd);
        errno = saved;
        fd = -1;
    }
    return fd;
}

static bool read_bound(int fd, struct endpoint *bound)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {.v6 = {0}};
    socklen_t size = sizeof(a);

    return getsockname(fd, &a.any, &size) == 0 && endpoint_from_sockaddr(&a.any, "this gateway itself", bound);
}

enum err listen_open(const char *host, int port, int *fd, struct endpoint *bound, char detail[SERVER_DETAIL_SIZE])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char service[16];
    char why[128];
    int rc = 0;

    *fd = -1;
    (void)snprintf(service, sizeof(service), "%d", port);
    rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) {
        set_detail(detail, host, port, gai_strerror(rc));
        return ERR_IO;
    }
    for (const struct addrinfo *a = found; a && *fd == -1; a = a->ai_next)
        *fd = try_address(a);
    if (*fd != -1 && !read_bound(*fd, bound)) {
        (void)close(*fd);
        *fd = -1;
    }
    if (*fd == -1)
        set_detail(detail, host, port, strerror_r(errno, why, sizeof(why)));
    freeaddrinfo(found);
    return *fd == -1 ? ERR_IO : ERR_OK;
}
