#include "redis_fixture.h"
#include "proc.h"
#include "tmpdir.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define START_MS 10000

struct redis_fixture {
    bool has_aof;
    const char *appendfsync;
    const char *const *env;
    int load_delay_us;
    char *dir, *socket, *url;
    struct proc *server;
    redisContext *connection;
};

/* Takes dir. */
static struct redis_fixture *create(char *dir, bool aof, const char *appendfsync)
{
    struct redis_fixture *f = calloc(1, sizeof(*f));

    cr_assert_not_null(f);
    f->has_aof = aof;
    f->appendfsync = appendfsync;
    f->dir = dir;
    f->socket = tmpdir_path(f->dir, "redis.sock");
    cr_assert(asprintf(&f->url, "unix://%s", f->socket) > 0);
    return f;
}

struct redis_fixture *redis_fixture_create_stopped(bool aof)
{
    return create(tmpdir_create(), aof, "always");
}

struct redis_fixture *redis_fixture_create_in(const char *dir, const char *appendfsync)
{
    return create(strdup(dir), true, appendfsync);
}

struct redis_fixture *redis_fixture_create(bool aof)
{
    struct redis_fixture *f = redis_fixture_create_stopped(aof);

    redis_fixture_start(f);
    return f;
}

void redis_fixture_destroy(struct redis_fixture **f)
{
    if (!*f)
        return;
    if ((*f)->connection)
        redisFree((*f)->connection);
    proc_destroy(&(*f)->server);
    tmpdir_destroy(&(*f)->dir);
    free((*f)->socket);
    free((*f)->url);
    free(*f);
    *f = NULL;
}

static void disconnect(struct redis_fixture *f)
{
    if (f->connection)
        redisFree(f->connection);
    f->connection = NULL;
}

/* A connection that has answered a PING with PONG (not LOADING), or NULL. */
static redisContext *try_connect(const struct redis_fixture *f)
{
    redisContext *c = redisConnectUnixWithTimeout(f->socket, (struct timeval){.tv_sec = 5});
    redisReply *r = NULL;
    bool is_good = false;

    if (c && c->err == 0) {
        r = redisCommand(c, "PING");
        is_good = r && r->type == REDIS_REPLY_STATUS;
    }
    if (r)
        freeReplyObject(r);
    if (c && !is_good) {
        redisFree(c);
        c = NULL;
    }
    return c;
}

redisContext *redis_fixture_connection(struct redis_fixture *f)
{
    if (f->connection && f->connection->err != 0)
        disconnect(f);
    if (!f->connection)
        WAIT_UNTIL((f->connection = try_connect(f)) != NULL, START_MS);
    return f->connection;
}

void redis_fixture_set_env(struct redis_fixture *f, const char *const *env)
{
    f->env = env;
}

void redis_fixture_load_slowly(struct redis_fixture *f, int delay_us)
{
    f->load_delay_us = delay_us;
}

void redis_fixture_launch(struct redis_fixture *f)
{
    char load_delay[16];
    const char *const argv[] = {"redis-server",
                                "--port",
                                "0",
                                "--unixsocket",
                                f->socket,
                                "--dir",
                                f->dir,
                                "--save",
                                "",
                                "--appendonly",
                                f->has_aof ? "yes" : "no",
                                "--appendfsync",
                                f->appendfsync,
                                "--maxmemory-policy",
                                "noeviction",
                                "--key-load-delay",
                                load_delay,
                                NULL};

    cr_assert_null(f->server, "this Redis runs already");
    (void)snprintf(load_delay, sizeof(load_delay), "%d", f->load_delay_us);
    f->server = proc_start(argv, f->env, NULL);
}

void redis_fixture_start(struct redis_fixture *f)
{
    redis_fixture_launch(f);
    redis_fixture_connection(f);
}

void redis_fixture_kill(struct redis_fixture *f)
{
    disconnect(f);
    proc_destroy(&f->server);
    (void)remove(f->socket);
}

void redis_fixture_pause(struct redis_fixture *f)
{
    proc_signal(f->server, SIGSTOP);
}

void redis_fixture_resume(struct redis_fixture *f)
{
    proc_signal(f->server, SIGCONT);
}

pid_t redis_fixture_pid(const struct redis_fixture *f)
{
    return proc_pid(f->server);
}

const char *redis_fixture_socket(const struct redis_fixture *f)
{
    return f->socket;
}

const char *redis_fixture_url(const struct redis_fixture *f)
{
    return f->url;
}

static redisReply *command(struct redis_fixture *f, const char *format, va_list args)
{
    redisReply *r = redisvCommand(redis_fixture_connection(f), format, args);

    cr_assert_not_null(r, "no reply to %s", format);
    cr_assert_neq(r->type, REDIS_REPLY_ERROR, "%s: %s", format, r->str);
    return r;
}

redisReply *redis_fixture_command(struct redis_fixture *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *r = command(f, format, args);
    va_end(args);
    return r;
}

long long redis_fixture_integer(struct redis_fixture *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *r = command(f, format, args);
    va_end(args);
    cr_assert_eq(r->type, REDIS_REPLY_INTEGER, "%s does not answer with an integer", format);
    long long value = r->integer;
    freeReplyObject(r);
    return value;
}

void redis_fixture_run(struct redis_fixture *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *r = command(f, format, args);
    va_end(args);
    freeReplyObject(r);
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    (void)close(fd);
    return ntohs(a.sin_port);
}

int redis_fixture_open_port(struct redis_fixture *f)
{
    int port = free_port();

    redis_fixture_run(f, "CONFIG SET bind 127.0.0.1");
    redis_fixture_run(f, "CONFIG SET port %d", port);
    return port;
}

long long redis_fixture_info(struct redis_fixture *f, const char *field)
{
    redisReply *r = redis_fixture_command(f, "INFO");
    char *key = NULL;

    cr_assert(asprintf(&key, "\n%s:", field) > 0);
    const char *at = strstr(r->str, key);
    cr_assert_not_null(at, "INFO has no %s", field);
    long long value = strtoll(at + strlen(key), NULL, 10);
    free(key);
    freeReplyObject(r);
    return value;
}
