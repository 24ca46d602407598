#include "nodes.h"
#include "../support/procfs.h"
#include "base/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 48
#define START_MS 15000
#define REDIS_ANSWER_S 10
#define SHOWN_MAX 5

static const char *const CLAIM_IDLE[GATEWAYS] = {"1s", "2s"};

struct nodes {
    char dir[64], binary[512], socket[128], url[160];
    const char *appendfsync;
    pid_t redis, gateways[GATEWAYS];
    atomic_int ports[GATEWAYS];
    atomic_uint trouble[GATEWAYS];
    redisContext *connection;
};

/* ------------------------------------------------------------- processes */

int64_t nodes_scaled_ms(int64_t ms)
{
    const char *slow = getenv("DUEPOST_TEST_SLOW");

    return slow && strcmp(slow, "1") == 0 ? ms * 10 : ms;
}

void nodes_sleep_ms(int64_t ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* Between fork and exec: only calls that are allowed there. */
static void become(char *const argv[], char *const env[], int out_fd)
{
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(out_fd, STDOUT_FILENO) == -1 || dup2(out_fd, STDERR_FILENO) == -1)
        _exit(126);
    execvpe(argv[0], argv, env);
    _exit(127);
}

/* Start a program that writes to the end of DIR/NAME.log. Returns when it is no longer a copy of this one, with this
 * one's sockets. */
static pid_t start(const struct nodes *n, const char *name, const char *const argv[], char *const env[])
{
    char path[128], none;
    int started[2];

    (void)snprintf(path, sizeof(path), "%s/%s.log", n->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t pid = fd < 0 || pipe2(started, O_CLOEXEC) != 0 ? -1 : fork();
    if (pid == 0)
        become((char *const *)(uintptr_t)argv, env, fd);
    if (pid < 0)
        abort();
    close(fd);
    close(started[1]);
    (void)!read(started[0], &none, 1); /* ends when exec has closed the other end */
    close(started[0]);
    return pid;
}

/* Wait for the end of a child; its exit code or 128 + signal, -1 when it takes longer. */
static int await_end(pid_t pid, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms;
    int status;

    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (ended < 0 || clock_mono_ms() > until)
            return -1;
        nodes_sleep_ms(2);
    }
}

static void end_process(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* ------------------------------------------------------------------ redis */

static bool has_debug_setting(void)
{
    char line[128] = "";
    FILE *p = popen("redis-server --version", "r");
    bool is_read = p && fgets(line, sizeof(line), p);

    if (p)
        (void)pclose(p);
    const char *version = is_read ? strstr(line, "v=") : NULL;
    return version && strtol(version + 2, NULL, 10) >= 7;
}

void nodes_redis_policy(struct nodes *n, const char *appendfsync)
{
    n->appendfsync = appendfsync;
}

static void disconnect(struct nodes *n)
{
    if (n->connection)
        redisFree(n->connection);
    n->connection = NULL;
}

static bool connect_redis(struct nodes *n)
{
    const struct timeval limit = {.tv_sec = REDIS_ANSWER_S};

    if (n->connection && n->connection->err != 0)
        disconnect(n);
    if (n->connection)
        return true;
    n->connection = redisConnectUnixWithTimeout(n->socket, limit);
    if (n->connection && n->connection->err == 0 && redisSetTimeout(n->connection, limit) == REDIS_OK)
        return true;
    disconnect(n);
    return false;
}

static redisReply *run(struct nodes *n, const char *format, va_list args)
{
    if (!connect_redis(n))
        return NULL;
    redisReply *r = redisvCommand(n->connection, format, args);
    if (!r)
        disconnect(n);
    return r;
}

redisReply *nodes_redis(struct nodes *n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *r = run(n, format, args);
    va_end(args);
    return r;
}

bool nodes_redis_do(struct nodes *n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *r = run(n, format, args);
    va_end(args);
    bool is_good = r && r->type != REDIS_REPLY_ERROR;
    if (r)
        freeReplyObject(r);
    return is_good;
}

int64_t nodes_redis_integer(struct nodes *n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *r = run(n, format, args);
    va_end(args);
    int64_t value = r && r->type == REDIS_REPLY_INTEGER ? r->integer : -1;
    if (r)
        freeReplyObject(r);
    return value;
}

int64_t nodes_redis_info(struct nodes *n, const char *field)
{
    char key[64];
    redisReply *r = nodes_redis(n, "INFO");

    (void)snprintf(key, sizeof(key), "\n%s:", field);
    const char *at = r && r->type == REDIS_REPLY_STRING ? strstr(r->str, key) : NULL;
    int64_t value = at ? strtoll(at + strlen(key), NULL, 10) : -1;
    if (r)
        freeReplyObject(r);
    return value;
}

/* Whether it answers, and not with LOADING. */
static bool await_redis(struct nodes *n)
{
    int64_t until = clock_mono_ms() + nodes_scaled_ms(START_MS);

    while (!nodes_redis_do(n, "PING")) {
        if (clock_mono_ms() > until)
            return false;
        nodes_sleep_ms(2);
    }
    return true;
}

bool nodes_redis_start(struct nodes *n)
{
    const char *argv[ARGS_MAX] = {"redis-server",
                                  "--port",
                                  "0",
                                  "--unixsocket",
                                  n->socket,
                                  "--dir",
                                  n->dir,
                                  "--save",
                                  "",
                                  "--appendonly",
                                  "yes",
                                  "--appendfsync",
                                  n->appendfsync,
                                  "--maxmemory-policy",
                                  "noeviction",
                                  "--auto-aof-rewrite-percentage",
                                  "100"};
    size_t i = 17;

    if (has_debug_setting()) {
        argv[i++] = "--enable-debug-command";
        argv[i++] = "local";
    }
    n->redis = start(n, "redis", argv, environ);
    return await_redis(n);
}

void nodes_redis_kill(struct nodes *n)
{
    disconnect(n);
    end_process(&n->redis);
    (void)unlink(n->socket);
}

void nodes_redis_signal(struct nodes *n, int sig)
{
    kill(n->redis, sig);
}

void nodes_redis_limit_files(struct nodes *n, int64_t bytes)
{
    const struct rlimit limit = {.rlim_cur = bytes < 0 ? RLIM_INFINITY : (rlim_t)bytes, .rlim_max = RLIM_INFINITY};

    (void)prlimit(n->redis, RLIMIT_FSIZE, &limit, NULL); /* it may have ended itself */
}

/* --------------------------------------------------------------- gateways */

/* Our environment without DUEPOST_*, sanitizers writing to files. Gives the array; `options` holds what it added. */
static char **gateway_env(const struct nodes *n, char options[3][192])
{
    static const char *const NAMES[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"};
    size_t count = 0, used = 0;

    while (environ[count])
        count++;
    char **env = calloc(count + 4, sizeof(*env));
    if (!env)
        abort();
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "DUEPOST_", 8) != 0 && !strstr(environ[i], "SAN_OPTIONS="))
            env[used++] = environ[i];
    }
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(options[i], 192, "%s=log_path=%s/sanitizer:print_stacktrace=1", NAMES[i], n->dir);
        env[used++] = options[i];
    }
    return env;
}

void nodes_add_trouble(struct nodes *n, int i)
{
    atomic_fetch_add(&n->trouble[i], 1);
}

unsigned nodes_trouble(const struct nodes *n, int i)
{
    return atomic_load(&n->trouble[i]);
}

bool nodes_gateway_start(struct nodes *n, int i, const char *const *more)
{
    const char *argv[ARGS_MAX] = {n->binary,       "serve",       "--listen",        "127.0.0.1:0",
                                  "--allow-net",   "127.0.0.0/8", "--redis",         n->url,
                                  "--claim-idle",  CLAIM_IDLE[i], "--threads",       "2",
                                  "--concurrency", "64",          "--drain-timeout", "5s"};
    char name[16], options[3][192];
    size_t used = 16;
    int64_t until = clock_mono_ms() + nodes_scaled_ms(START_MS);
    int port = 0;

    for (size_t k = 0; more && more[k]; k++)
        argv[used++] = more[k];
    (void)snprintf(name, sizeof(name), "gateway-%d", i);
    char **env = gateway_env(n, options);
    n->gateways[i] = start(n, name, argv, env);
    free(env);
    while ((port = procfs_listening_port(n->gateways[i])) == 0 && clock_mono_ms() < until)
        nodes_sleep_ms(3);
    atomic_store(&n->ports[i], port);
    nodes_add_trouble(n, i);
    return port != 0;
}

void nodes_gateway_signal(struct nodes *n, int i, int sig)
{
    nodes_add_trouble(n, i);
    kill(n->gateways[i], sig);
}

int nodes_gateway_wait(struct nodes *n, int i, int64_t ms)
{
    int code = await_end(n->gateways[i], ms);

    if (code < 0)
        end_process(&n->gateways[i]);
    n->gateways[i] = 0;
    return code;
}

int nodes_port(const struct nodes *n, int i)
{
    return atomic_load(&n->ports[i]);
}

/* -------------------------------------------------------------- watching */

static int64_t status_number(pid_t pid, const char *field)
{
    char path[64], line[256];
    int64_t value = -1;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && value < 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtoll(line + strlen(field), NULL, 10);
    }
    if (f)
        (void)fclose(f);
    return value;
}

struct usage nodes_usage(const struct nodes *n, int i)
{
    struct usage u = {.rss_kb = status_number(n->gateways[i], "VmRSS:"),
                      .threads = status_number(n->gateways[i], "Threads:")};
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)n->gateways[i]);
    DIR *d = opendir(path);
    while (d && readdir(d))
        u.descriptors++;
    if (d)
        closedir(d);
    return u;
}

int nodes_reports(const struct nodes *n)
{
    int count = 0;
    DIR *d = opendir(n->dir);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "sanitizer", 9) != 0)
            continue;
        count++;
        printf("sanitizer report: %s/%s\n", n->dir, e->d_name);
    }
    if (d)
        closedir(d);
    return count;
}

int nodes_log_lines(const struct nodes *n, const char *text)
{
    char path[128], line[4096];
    int count = 0;

    for (int i = 0; i < GATEWAYS; i++) {
        (void)snprintf(path, sizeof(path), "%s/gateway-%d.log", n->dir, i);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            if (strstr(line, text) && count++ < SHOWN_MAX)
                printf("gateway-%d: %s", i, line);
        }
        if (f)
            (void)fclose(f);
    }
    return count;
}

/* ------------------------------------------------------------------- life */

struct nodes *nodes_create(const char *binary)
{
    struct nodes *n = calloc(1, sizeof(*n));

    if (!n)
        abort();
    (void)snprintf(n->dir, sizeof(n->dir), "/tmp/duepost-chaos-XXXXXX");
    if (!mkdtemp(n->dir))
        abort();
    (void)snprintf(n->binary, sizeof(n->binary), "%s", binary);
    (void)snprintf(n->socket, sizeof(n->socket), "%s/redis.sock", n->dir);
    (void)snprintf(n->url, sizeof(n->url), "unix://%s", n->socket);
    n->appendfsync = "always";
    printf("logs, kept when something fails: %s\n", n->dir);
    return n;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0;
}

void nodes_destroy(struct nodes **nodes, bool is_good)
{
    struct nodes *n = *nodes;

    if (!n)
        return;
    for (int i = 0; i < GATEWAYS; i++)
        end_process(&n->gateways[i]);
    disconnect(n);
    end_process(&n->redis);
    if (is_good)
        (void)nftw(n->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(n);
    *nodes = NULL;
}
