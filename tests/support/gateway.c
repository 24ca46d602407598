#include "gateway.h"
#include "procfs.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 32
#define READY_MS 15000
#define STOP_MS 40000

char *gateway_binary(void)
{
    const char *given = getenv("DUEPOST_BIN");
    char *path = realpath(given ? given : "build/release/duepost", NULL);

    cr_assert_not_null(path, "no gateway binary: build it, or set DUEPOST_BIN");
    return path;
}

static struct proc *launch(const struct gateway_opts *opts)
{
    char *binary = gateway_binary();
    const char *allow_net = opts->allow_net ? opts->allow_net : "127.0.0.0/8";
    const char *argv[ARGS_MAX] = {binary, "serve", "--listen", "127.0.0.1:0", "--allow-net", allow_net};
    size_t n = 6;

    if (opts->redis) {
        argv[n++] = "--redis";
        argv[n++] = opts->redis;
    }
    if (opts->data_dir) {
        argv[n++] = "--data-dir";
        argv[n++] = opts->data_dir;
    }
    for (size_t i = 0; opts->args && opts->args[i]; i++) {
        cr_assert_lt(n, ARGS_MAX - 1);
        argv[n++] = opts->args[i];
    }
    struct proc *p = proc_start(argv, opts->env, NULL);
    free(binary);
    return p;
}

struct gateway *gateway_start(const struct gateway_opts *opts)
{
    struct gateway *g = calloc(1, sizeof(*g));

    cr_assert_not_null(g);
    g->proc = launch(opts);
    g->url = proc_wait_ready(g->proc, READY_MS);
    g->api = client_create(g->url);
    return g;
}

struct gateway *gateway_start_unready(const struct gateway_opts *opts)
{
    struct gateway *g = calloc(1, sizeof(*g));
    int port = 0;

    cr_assert_not_null(g);
    g->proc = launch(opts);
    WAIT_UNTIL((port = procfs_listening_port(proc_pid(g->proc))) != 0, READY_MS);
    cr_assert(asprintf(&g->url, "http://127.0.0.1:%d", port) > 0);
    g->api = client_create(g->url);
    return g;
}

struct gateway *gateway_run(const char *redis, ...)
{
    const char *args[ARGS_MAX] = {NULL};
    va_list list;
    size_t n = 0;

    va_start(list, redis);
    for (const char *arg; (arg = va_arg(list, const char *)) != NULL;) {
        cr_assert_lt(n, ARGS_MAX - 1);
        args[n++] = arg;
    }
    va_end(list);
    return gateway_start(&(struct gateway_opts){.redis = redis, .args = args});
}

void gateway_stop(struct gateway *g)
{
    proc_signal(g->proc, SIGTERM);
    int code = proc_wait(g->proc, STOP_MS);
    cr_assert_eq(code, 0, "the gateway ended with %d: %s", code, proc_stderr(g->proc));
    proc_destroy(&g->proc);
}

void gateway_kill(struct gateway *g)
{
    proc_signal(g->proc, SIGKILL);
    cr_assert_eq(proc_wait(g->proc, STOP_MS), 128 + SIGKILL);
    proc_destroy(&g->proc);
}

void gateway_destroy(struct gateway **g)
{
    if (!*g)
        return;
    if ((*g)->proc) {
        if (proc_is_running((*g)->proc))
            proc_signal((*g)->proc, SIGTERM);
        int code = proc_wait((*g)->proc, STOP_MS);
        if (code != 0) {
            (void)fprintf(stderr, "the gateway ended with %d:\n%s\n", code, proc_stderr((*g)->proc));
            abort();
        }
    }
    proc_destroy(&(*g)->proc);
    client_destroy(&(*g)->api);
    free((*g)->url);
    free(*g);
    *g = NULL;
}

int gateway_exit_code(const char *const *args, const char *const *env, struct proc **proc)
{
    char *binary = gateway_binary();
    const char *argv[ARGS_MAX] = {binary};

    for (size_t i = 0; args && args[i]; i++) {
        cr_assert_lt(i, ARGS_MAX - 2);
        argv[i + 1] = args[i];
    }
    *proc = proc_start(argv, env, NULL);
    free(binary);
    return proc_wait(*proc, 10000);
}

struct world *world_create(void)
{
    struct world *w = calloc(1, sizeof(*w));

    cr_assert_not_null(w);
    w->redis = redis_fixture_create(false);
    w->sink = sink_create();
    w->gateway = gateway_run(redis_fixture_url(w->redis), NULL);
    w->api = w->gateway->api;
    return w;
}

/* The receiver goes first: attempts that it holds fail at once, and the gateway has nothing to drain. */
void world_destroy(struct world **w)
{
    if (!*w)
        return;
    sink_destroy(&(*w)->sink);
    gateway_destroy(&(*w)->gateway);
    redis_fixture_destroy(&(*w)->redis);
    free(*w);
    *w = NULL;
}

json_t *task_reaches(struct client *api, const char *id, const char *state, int ms)
{
    int64_t deadline = wait_mono_ms() + wait_scaled_ms(ms);

    for (;;) {
        const struct reply *r = client_get_task(api, id);
        const char *found = json_string_value(json_object_get(r->json, "state"));
        if (r->status == 200 && found && strcmp(found, state) == 0)
            return r->json;
        if (wait_mono_ms() > deadline)
            cr_assert_fail("task %s is not %s within %d ms: %d %s", id, state, ms, r->status, r->body);
        wait_tick(deadline, "task_reaches", state);
    }
}
