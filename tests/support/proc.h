#ifndef SUPPORT_PROC_H
#define SUPPORT_PROC_H

#include <stdbool.h>
#include <sys/types.h>

/* A program under test as a black box: started, signalled, waited for, its output kept.
 *
 * It inherits the environment without DUEPOST_* (the tests' own switches would be unknown settings to it), gets `env`
 * on top, and is killed by the kernel if the test process dies. */

struct proc;

/* Start argv[0] (looked up in PATH) in folder `cwd` (NULL: this one) with `env` ("NAME=value", NULL ends, may be
 * NULL). Borrows everything. Fails the test when it cannot be started. */
struct proc *proc_start(const char *const argv[], const char *const env[], const char *cwd);

/* Kills it if it still runs, waits for it, frees. NULL-safe. */
void proc_destroy(struct proc **p);

pid_t proc_pid(const struct proc *p);
void proc_signal(struct proc *p, int sig);

/* Whether it runs at this moment. */
bool proc_is_running(struct proc *p);

/* Wait for its end; fails the test when that takes over `ms` (scaled). The exit code, or 128 + the signal. */
int proc_wait(struct proc *p, int ms);

/* Wait for the line `duepost: ready on URL` on its stdout; gives the URL; free(). */
char *proc_wait_ready(struct proc *p, int ms);

/* What it wrote so far. Valid until the next call of either for this process. */
const char *proc_stdout(struct proc *p);
const char *proc_stderr(struct proc *p);

#endif
