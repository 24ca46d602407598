#include "receive/receive.h"
#include "base/err.h"
#include "conf/config.h"
#include "receive/options_priv.h"
#include "receive/serve_priv.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

static const char *why_not(int error)
{
    switch (error) {
    case EADDRINUSE:
        return "the address is in use";
    case EADDRNOTAVAIL:
        return "this is no address of this machine";
    case EACCES:
        return "not permitted";
    default:
        return "the system refuses it";
    }
}

/* A listening socket; -1 with errno. */
static int listen_on(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    const int on = 1;

    if (fd == -1)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
        bind(fd, address->ai_addr, address->ai_addrlen) == -1 || listen(fd, BACKLOG) == -1) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int open_listener(const struct receive_options *o, bool *is_ipv6)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    const char *why = "the host is not known";
    int fd = -1;

    if (getaddrinfo(o->host, o->port, &hints, &addresses) == 0) {
        fd = listen_on(addresses);
        why = why_not(errno);
        *is_ipv6 = addresses->ai_family == AF_INET6;
        freeaddrinfo(addresses);
    }
    if (fd == -1)
        (void)fprintf(stderr, "duepost receive: cannot listen on %s: %s\n", o->listen, why);
    return fd;
}

/* The port really bound: --listen may ask for any. */
static int bound_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t size = sizeof(address);

    if (getsockname(fd, &address.any, &size) == -1)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

static void print_totals(const struct serve_totals *t)
{
    printf("duepost receive: %" PRId64 " webhook%s", t->webhooks, t->webhooks == 1 ? "" : "s");
    if (t->right + t->wrong > 0)
        printf(", signatures: %" PRId64 " right, %" PRId64 " wrong", t->right, t->wrong);
    if (t->max_late_ms >= 0)
        printf(", at most %" PRId64 " ms late", t->max_late_ms);
    if (t->others > 0)
        printf(", %" PRId64 " other requests", t->others);
    printf("\n");
    (void)fflush(stdout);
}

static int run(const struct receive_options *o, const sigset_t *signals)
{
    struct serve_opts opts = {.status = o->status, .is_quiet = o->is_quiet, .secrets = &o->secrets};
    struct serve_totals totals;
    struct serve *serve = NULL;
    bool needs_brackets = strchr(o->host, ':') != NULL;
    int signal_number = 0;
    int port = 0;

    opts.listen_fd = open_listener(o, &opts.is_ipv6);
    if (opts.listen_fd == -1)
        return 1;
    port = bound_port(opts.listen_fd);
    /* Before the first webhook can print. Connections wait in the backlog until the server has started. */
    printf("duepost receive: listening on http://%s%s%s:%d\n", needs_brackets ? "[" : "", o->host,
           needs_brackets ? "]" : "", port);
    (void)fflush(stdout);
    if (serve_start(&opts, &serve) != ERR_OK) {
        (void)fputs("duepost receive: the HTTP server cannot start\n", stderr);
        return 1;
    }
    (void)sigwait(signals, &signal_number);
    serve_stop(&serve, &totals);
    print_totals(&totals);
    return 0;
}

int receive_main(int argc, char **argv)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct receive_options options;
    sigset_t signals;
    int rc = 0;

    if (receive_options_read(argc, argv, &options) != ERR_OK)
        return CONFIG_EXIT_CODE;
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    rc = run(&options, &signals);
    receive_options_deinit(&options);
    return rc;
}
