#ifndef SUPPORT_GATEWAY_H
#define SUPPORT_GATEWAY_H

#include "client.h"
#include "proc.h"
#include "redis_fixture.h"
#include "sink.h"

/* The real binary as a process: DUEPOST_BIN, or build/release/duepost seen from the folder the tests run in. */

/* Its absolute path; free(). Fails the test when there is none. */
char *gateway_binary(void);

struct gateway {
    struct proc *proc;
    char *url; /* "http://127.0.0.1:PORT" */
    struct client *api;
};

struct gateway_opts {
    const char *redis;       /* URL; NULL: embedded, with `data_dir` */
    const char *data_dir;    /* NULL: not given */
    const char *allow_net;   /* NULL: 127.0.0.0/8 */
    const char *const *args; /* more arguments, NULL ends; may be NULL */
    const char *const *env;  /* more environment, NULL ends; may be NULL */
};

/* Start one on a port of the kernel's choice and wait until it is ready. */
struct gateway *gateway_start(const struct gateway_opts *opts);

/* The same, but only until it listens: its Redis may be away. */
struct gateway *gateway_start_unready(const struct gateway_opts *opts);

/* The same against a Redis, with more arguments given as they stand: gateway_run(url, "--threads", "1", NULL). */
struct gateway *gateway_run(const char *redis, ...) __attribute__((sentinel));

/* SIGTERM; the test fails unless it exits with 0. */
void gateway_stop(struct gateway *g);

/* SIGKILL, and wait until it is gone. */
void gateway_kill(struct gateway *g);

/* Stops it if it runs. Aborts the test when it does not exit with 0 or has ended by itself (a crash or a sanitizer
 * report). NULL-safe. */
void gateway_destroy(struct gateway **g);

/* Run the binary to its end with these arguments (NULL ends) and environment (may be NULL); the exit code. Gives the
 * process for its output: proc_destroy(). Deadline 10 s. */
int gateway_exit_code(const char *const *args, const char *const *env, struct proc **proc);

/* What most tests need: a Redis, a receiver, a gateway. */
struct world {
    struct redis_fixture *redis;
    struct sink *sink;
    struct gateway *gateway;
    struct client *api; /* the gateway's */
};

struct world *world_create(void);
void world_destroy(struct world **w);

/* Wait until GET of the task shows the state; the answer's JSON, borrowed from the client. */
json_t *task_reaches(struct client *api, const char *id, const char *state, int ms);

#endif
