#include "proc.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct proc {
    pid_t pid;
    bool has_ended;
    int status;         /* of waitpid, once it has ended */
    int out_fd, err_fd; /* unlinked files */
    char *text;         /* what proc_stdout or proc_stderr gave last */
};

static int temp_file(void)
{
    char path[] = "/tmp/duepost-out-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);

    cr_assert_neq(fd, -1, "no temporary file");
    unlink(path);
    return fd;
}

/* The child's environment: ours without DUEPOST_*, then `extra`. Gives the array only. */
static char **build_env(const char *const extra[])
{
    size_t count = 0, extra_count = 0, n = 0;

    while (environ[count])
        count++;
    while (extra && extra[extra_count])
        extra_count++;
    char **env = calloc(count + extra_count + 1, sizeof(*env));
    cr_assert_not_null(env);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "DUEPOST_", strlen("DUEPOST_")) != 0)
            env[n++] = environ[i];
    }
    for (size_t i = 0; i < extra_count; i++)
        env[n++] = (char *)(uintptr_t)extra[i];
    return env;
}

/* Only calls that are allowed between fork and exec. `started_fd` closes by itself when exec succeeds. */
static void child(const struct proc *p, char *const argv[], char **env, const char *cwd, int started_fd)
{
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(p->out_fd, STDOUT_FILENO) == -1 || dup2(p->err_fd, STDERR_FILENO) == -1 || (cwd && chdir(cwd) != 0))
        _exit(126);
    execvpe(argv[0], argv, env);
    (void)!write(started_fd, "x", 1);
    _exit(127);
}

/* Returns only when the program runs, no longer a copy of the test with the test's sockets. */
struct proc *proc_start(const char *const argv[], const char *const env[], const char *cwd)
{
    struct proc *p = calloc(1, sizeof(*p));
    char **full_env = build_env(env);
    int started[2];
    char failed;

    cr_assert(p && pipe2(started, O_CLOEXEC) == 0);
    p->out_fd = temp_file();
    p->err_fd = temp_file();
    p->pid = fork();
    if (p->pid == 0)
        child(p, (char *const *)(uintptr_t)argv, full_env, cwd, started[1]);
    free(full_env);
    close(started[1]);
    cr_assert_neq(p->pid, -1, "fork: %s", strerrorname_np(errno));
    cr_assert_eq(read(started[0], &failed, 1), 0, "%s cannot be started", argv[0]);
    close(started[0]);
    return p;
}

void proc_destroy(struct proc **p)
{
    if (!*p)
        return;
    if (proc_is_running(*p)) {
        kill((*p)->pid, SIGKILL);
        waitpid((*p)->pid, &(*p)->status, 0);
    }
    close((*p)->out_fd);
    close((*p)->err_fd);
    free((*p)->text);
    free(*p);
    *p = NULL;
}

pid_t proc_pid(const struct proc *p)
{
    return p->pid;
}

void proc_signal(struct proc *p, int sig)
{
    cr_assert(proc_is_running(p), "process %d has ended already: %s", (int)p->pid, proc_stderr(p));
    kill(p->pid, sig);
}

bool proc_is_running(struct proc *p)
{
    if (!p->has_ended && waitpid(p->pid, &p->status, WNOHANG) == p->pid)
        p->has_ended = true;
    return !p->has_ended;
}

int proc_wait(struct proc *p, int ms)
{
    int64_t deadline = wait_mono_ms() + wait_scaled_ms(ms);

    while (proc_is_running(p)) {
        if (wait_mono_ms() > deadline)
            cr_assert_fail("process %d did not end within %d ms: %s", (int)p->pid, ms, proc_stderr(p));
        wait_tick(deadline, "proc_wait", "the process ends");
    }
    return WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
}

static const char *slurp(struct proc *p, int fd)
{
    struct stat st;

    free(p->text);
    p->text = NULL;
    cr_assert_eq(fstat(fd, &st), 0);
    p->text = calloc(1, (size_t)st.st_size + 1);
    cr_assert_not_null(p->text);
    if (pread(fd, p->text, (size_t)st.st_size, 0) < 0)
        p->text[0] = '\0';
    return p->text;
}

const char *proc_stdout(struct proc *p)
{
    return slurp(p, p->out_fd);
}

const char *proc_stderr(struct proc *p)
{
    return slurp(p, p->err_fd);
}

char *proc_wait_ready(struct proc *p, int ms)
{
    static const char mark[] = "duepost: ready on ";
    int64_t deadline = wait_mono_ms() + wait_scaled_ms(ms);

    for (;;) {
        bool is_running = proc_is_running(p); /* before reading, so that a last line is seen */
        const char *line = strstr(proc_stdout(p), mark);
        const char *end = line ? strchr(line, '\n') : NULL;
        if (end)
            return strndup(line + strlen(mark), (size_t)(end - line) - strlen(mark));
        if (!is_running)
            cr_assert_fail("process %d ended before it was ready: %s", (int)p->pid, proc_stderr(p));
        if (wait_mono_ms() > deadline)
            cr_assert_fail("process %d was not ready within %d ms: %s", (int)p->pid, ms, proc_stderr(p));
        wait_tick(deadline, "proc_wait_ready", "the ready line");
    }
}
