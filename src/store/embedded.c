#include "store/embedded.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two locks guard the directory. `gateway.lock` is ours: a second gateway is refused at once. `redis.lock` is inherited
 * by the server alone: after a gateway was killed its server needs a moment to end (the kernel sends it SIGTERM), and
 * the next gateway waits for that lock rather than start a second server on the same files.
 *
 * The server runs in the directory with a relative socket path, and we reach the socket through our descriptor of the
 * directory, so the limit of 107 bytes on socket paths never matters. */

#define SOCKET_NAME "redis.sock"
#define LOCK_WAIT_MS 15000
#define STOP_WAIT_MS 10000
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000
#define UP_WAIT_MS 5000 /* for a new server to listen */
#define STABLE_MS 10000 /* after this long alive the backoff begins anew */

struct embedded {
    int dir_fd;
    int gateway_lock_fd;
    char *program; /* full path of redis-server */
    char **argv;   /* its arguments, NULL-terminated */
    char socket[64];
    pid_t pid; /* 0: not running */
    int64_t started_mono_ms;
    int64_t next_start_mono_ms;
    int64_t backoff_ms;
};

static char *join(const char *dir, size_t dir_bytes, const char *name)
{
    size_t size = dir_bytes + strlen(name) + 2;
    char *path = xcalloc(size, 1);

    (void)snprintf(path, size, "%.*s/%s", (int)dir_bytes, dir, name);
    return path;
}

/* Look a program up in PATH, before the fork: afterwards only async-signal-safe calls are allowed. Gives the path or
 * NULL. */
static char *find_program(const char *name)
{
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): nobody changes the environment */

    for (const char *at = path ? path : "/usr/bin:/bin:/usr/local/bin"; *at;) {
        size_t n = strcspn(at, ":");
        char *full = join(n ? at : ".", n ? n : 1, name);
        if (access(full, X_OK) == 0)
            return full;
        free(full);
        at += n + (at[n] == ':');
    }
    return NULL;
}

/* Nodes of a Stream are small, since XDEL seeks each entry from the start of its node. */
static char **make_argv(void)
{
    static const char *const ARGS[] = {"redis-server",
                                       "--port",
                                       "0",
                                       "--unixsocket",
                                       SOCKET_NAME,
                                       "--unixsocketperm",
                                       "700",
                                       "--dir",
                                       ".",
                                       "--appendonly",
                                       "yes",
                                       "--appendfsync",
                                       "everysec",
                                       "--save",
                                       "",
                                       "--maxmemory-policy",
                                       "noeviction",
                                       "--daemonize",
                                       "no",
                                       "--logfile",
                                       "redis.log",
                                       "--stream-node-max-entries",
                                       "16"};
    size_t count = sizeof ARGS / sizeof *ARGS;
    char **argv = xcalloc(count + 1, sizeof *argv);

    for (size_t i = 0; i < count; i++)
        argv[i] = xstrdup(ARGS[i]);
    return argv;
}

static void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

/* Open and lock a file of the directory. -1 when it is not to be had within wait_ms. */
static int lock_file(int dir_fd, const char *name, int64_t wait_ms)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t deadline = clock_mono_ms() + wait_ms;

    if (fd == -1)
        return -1;
    while (flock(fd, LOCK_EX | LOCK_NB) == -1) {
        if (clock_mono_ms() >= deadline) {
            close(fd);
            return -1;
        }
        pause_ms(20);
    }
    return fd;
}

/* The child between fork and exec. */
static void run_server(const struct embedded *e, int lock_fd, pid_t parent)
{
    char *const environment[] = {NULL};
    const struct sigaction default_action = {.sa_handler = SIG_DFL};
    sigset_t none;
    int null_fd;

    /* Ended with the gateway, however that ends; its group is its own, so that Ctrl-C reaches the gateway alone. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == -1 || getppid() != parent)
        _exit(127);
    setpgid(0, 0);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    sigaction(SIGPIPE, &default_action, NULL);
    fcntl(lock_fd, F_SETFD, 0);
    null_fd = open("/dev/null", O_RDWR);
    if (null_fd == -1 || fchdir(e->dir_fd) == -1)
        _exit(127);
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDOUT_FILENO);
    execve(e->program, e->argv, environment);
    _exit(127);
}

static enum err start_server(struct embedded *e, int64_t lock_wait_ms)
{
    pid_t parent = getpid();
    int lock_fd = lock_file(e->dir_fd, "redis.lock", lock_wait_ms);

    if (lock_fd == -1)
        return ERR_IO;
    /* One that is there afterwards is this server's own; see has_listened(). */
    (void)unlinkat(e->dir_fd, SOCKET_NAME, 0);
    e->pid = fork();
    if (e->pid == 0)
        run_server(e, lock_fd, parent);
    close(lock_fd);
    if (e->pid == -1) {
        e->pid = 0;
        return ERR_IO;
    }
    e->started_mono_ms = clock_mono_ms();
    LOG_INFO("redis.started", "pid=%d", (int)e->pid);
    return ERR_OK;
}

static enum err open_directory(struct embedded *e, const char *data_dir, char *detail)
{
    if (mkdir(data_dir, 0700) == -1 && errno != EEXIST) {
        (void)snprintf(detail, EMBEDDED_DETAIL_SIZE, "data-dir %.150s cannot be made: %s", data_dir,
                       strerrordesc_np(errno));
        return ERR_IO;
    }
    e->dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (e->dir_fd == -1) {
        (void)snprintf(detail, EMBEDDED_DETAIL_SIZE, "data-dir %.150s cannot be opened: %s", data_dir,
                       strerrordesc_np(errno));
        return ERR_IO;
    }
    e->gateway_lock_fd = lock_file(e->dir_fd, "gateway.lock", 0);
    if (e->gateway_lock_fd == -1) {
        (void)snprintf(detail, EMBEDDED_DETAIL_SIZE,
                       "data-dir %.150s is in use by another gateway, or cannot be written", data_dir);
        return ERR_IO;
    }
    (void)snprintf(e->socket, sizeof e->socket, "/proc/self/fd/%d/%s", e->dir_fd, SOCKET_NAME);
    return ERR_OK;
}

static bool is_listening(const struct embedded *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_up;

    memcpy(address.sun_path, e->socket, strlen(e->socket) + 1);
    is_up = fd != -1 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd != -1)
        close(fd);
    return is_up;
}

static void note_end(struct embedded *e, int status)
{
    int64_t now = clock_mono_ms();

    LOG_ERROR("redis.died", "pid=%d %s=%d", (int)e->pid, WIFSIGNALED(status) ? "signal" : "exit",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    e->pid = 0;
    if (now - e->started_mono_ms > STABLE_MS)
        e->backoff_ms = BACKOFF_MIN_MS;
    e->next_start_mono_ms = now + e->backoff_ms;
    e->backoff_ms = e->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : e->backoff_ms * 2;
}

/* Whether a server that has ended came as far as its socket. */
static bool has_listened(const struct embedded *e)
{
    struct stat s;

    return fstatat(e->dir_fd, SOCKET_NAME, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(s.st_mode);
}

/* It may still be loading its data then; that is the connections' business. One that ends before it can listen never
 * will. One that ends a moment later, perhaps before we have looked, may have met a disk that is full for now: that is
 * a death like any later one. */
static enum err await_listening(struct embedded *e)
{
    int64_t deadline = clock_mono_ms() + UP_WAIT_MS;
    int status;

    while (!is_listening(e)) {
        if (waitpid(e->pid, &status, WNOHANG) == e->pid) {
            note_end(e, status);
            return has_listened(e) ? ERR_OK : ERR_IO;
        }
        if (clock_mono_ms() >= deadline)
            return ERR_IO;
        pause_ms(2);
    }
    return ERR_OK;
}

enum err embedded_start(const char *data_dir, struct embedded **out, char detail[EMBEDDED_DETAIL_SIZE])
{
    struct embedded *e = xcalloc(1, sizeof *e);
    enum err err;

    *out = NULL;
    e->dir_fd = e->gateway_lock_fd = -1;
    e->backoff_ms = BACKOFF_MIN_MS;
    e->argv = make_argv();
    err = open_directory(e, data_dir, detail);
    if (err != ERR_OK)
        goto out;
    e->program = find_program("redis-server");
    if (!e->program)
        e->program = find_program("valkey-server");
    if (!e->program) {
        err = ERR_IO;
        (void)snprintf(detail, EMBEDDED_DETAIL_SIZE, "redis-server is not in PATH (needed by redis = embedded)");
        goto out;
    }
    err = start_server(e, LOCK_WAIT_MS);
    if (err != ERR_OK) {
        (void)snprintf(detail, EMBEDDED_DETAIL_SIZE, "the redis-server of an earlier gateway still runs in %.150s",
                       data_dir);
        goto out;
    }
    err = await_listening(e);
    if (err != ERR_OK)
        (void)snprintf(detail, EMBEDDED_DETAIL_SIZE, "redis-server does not start; see redis.log in %.150s", data_dir);
out:
    if (err == ERR_OK)
        *out = e;
    else
        embedded_stop(&e);
    return err;
}

const char *embedded_socket(const struct embedded *e)
{
    return e->socket;
}

/* Process 1 of a container also gets the children of others that ended, and nobody else takes those away. */
static void reap(struct embedded *e)
{
    pid_t wanted = getpid() == 1 ? -1 : e ? e->pid : 0;
    pid_t ended;
    int status;

    while (wanted != 0 && (ended = waitpid(wanted, &status, WNOHANG)) > 0)
        if (e && ended == e->pid)
            note_end(e, status);
}

int64_t embedded_poll(struct embedded *e)
{
    int64_t now;

    reap(e);
    if (!e || e->pid > 0)
        return -1;
    now = clock_mono_ms();
    if (now < e->next_start_mono_ms)
        return e->next_start_mono_ms - now;
    if (start_server(e, 0) == ERR_OK)
        return -1;
    e->next_start_mono_ms = now + e->backoff_ms;
    return e->backoff_ms;
}

static void end_server(struct embedded *e)
{
    int64_t deadline = clock_mono_ms() + STOP_WAIT_MS;

    kill(e->pid, SIGTERM);
    while (waitpid(e->pid, NULL, WNOHANG) == 0) {
        if (clock_mono_ms() >= deadline) {
            LOG_WARN("redis.killed", "pid=%d", (int)e->pid);
            kill(e->pid, SIGKILL);
            waitpid(e->pid, NULL, 0);
            break;
        }
        pause_ms(5);
    }
    e->pid = 0;
}

void embedded_stop(struct embedded **embedded)
{
    struct embedded *e = *embedded;

    if (!e)
        return;
    *embedded = NULL;
    if (e->pid > 0)
        end_server(e);
    if (e->gateway_lock_fd != -1)
        close(e->gateway_lock_fd);
    if (e->dir_fd != -1)
        close(e->dir_fd);
    for (char **arg = e->argv; arg && *arg; arg++)
        free(*arg);
    free(e->argv);
    free(e->program);
    free(e);
}
