/* Stopping: what is under way is finished and recorded or given back, whatever the moment, and the exit code is 0.
 * That a receiver sees no second request is shown after a restart, by a later task that has arrived. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/procfs.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ARRIVE_MS 10000
#define EXIT_MS 10000

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;

static void setup(void)
{
    redis = redis_fixture_create(true);
    sink = sink_create();
    gateway = gateway_run(redis_fixture_url(redis), NULL);
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
}

TestSuite(shutdown, .init = setup, .fini = teardown, .timeout = 300);

static void post(struct gateway *g, const char *id, const char *path, int delay_ms)
{
    const struct reply *r = client_post_task(g->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d,\"timeout\":\"1m\"}",
                                             id, sink_url(sink, path), delay_ms);

    cr_assert_eq(r->status, 201, "%d %s", r->status, r->body);
}

static void expect_exit(struct gateway *g, int ms)
{
    int code = proc_wait(g->proc, ms);

    cr_assert_eq(code, 0, "exit code %d: %s", code, proc_stderr(g->proc));
    proc_destroy(&g->proc);
}

/* Start the next gateway and let a task of its own arrive. */
static void restart_and_pass_time(void)
{
    second = gateway_run(redis_fixture_url(redis), NULL);
    post(second, "sentinel", "/sentinel", 300);
    sink_wait(sink, "/sentinel", 1, ARRIVE_MS);
}

Test(shutdown, a_delivery_under_way_is_finished_and_recorded)
{
    SINK_SCRIPT(sink, "/slow", {.status = 200, .delay_ms = 2000});
    post(gateway, "slow", "/slow", 0);
    sink_wait(sink, "/slow", 1, ARRIVE_MS);
    proc_signal(gateway->proc, SIGTERM);
    expect_exit(gateway, EXIT_MS);
    restart_and_pass_time();
    json_t *task = client_get_task(second->api, "slow")->json;
    cr_expect_str_eq(json_text_at(task, "state"), "delivered");
    cr_expect_eq(json_integer_at(task, "attempts"), 1);
    cr_assert_eq(sink_count(sink, "/slow"), 1, "it was sent again after the restart");
}

Test(shutdown, what_does_not_end_within_drain_timeout_is_given_back)
{
    SINK_SCRIPT(sink, "/hang", {.status = 200, .is_held = true}, {.status = 200});
    second = gateway_run(redis_fixture_url(redis), "--drain-timeout", "300ms", NULL);
    gateway_stop(gateway);
    post(second, "hang", "/hang", 0);
    sink_wait(sink, "/hang", 1, ARRIVE_MS);
    proc_signal(second->proc, SIGTERM);
    expect_exit(second, 5000);
    gateway_destroy(&second);
    int64_t before_ms = wait_mono_ms();
    second = gateway_run(redis_fixture_url(redis), NULL);
    sink_wait(sink, "/hang", 2, ARRIVE_MS);
    cr_expect_lt(wait_mono_ms() - before_ms, wait_scaled_ms(10000),
                 "it waited for claim-idle instead of being given back");
    task_reaches(second->api, "hang", "delivered", ARRIVE_MS);
    cr_assert_eq(json_integer_at(client_get(second->api, "/stats")->json, "totals.recovered"), 0);
}

Test(shutdown, ready_and_scheduled_tasks_wait_for_the_next_gateway)
{
    SINK_SCRIPT(sink, "/held", {.status = 200, .is_held = true});
    second = gateway_run(redis_fixture_url(redis), "--concurrency", "1", "--drain-timeout", "100ms", NULL);
    gateway_stop(gateway);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(client_post_task(second->api, "{\"url\":\"%s\"}", sink_url(sink, "/held"))->status, 201);
    sink_wait(sink, "/held", 1, ARRIVE_MS);
    gateway_stop(second);
    gateway_destroy(&second);
    sink_release(sink);
    second = gateway_run(redis_fixture_url(redis), NULL);
    WAIT_UNTIL(json_integer_at(client_get(second->api, "/stats")->json, "totals.delivered") == 20, ARRIVE_MS);
}

Test(shutdown, sigint_stops_like_sigterm)
{
    SINK_SCRIPT(sink, "/slow", {.status = 200, .delay_ms = 500});
    post(gateway, "slow", "/slow", 0);
    sink_wait(sink, "/slow", 1, ARRIVE_MS);
    proc_signal(gateway->proc, SIGINT);
    expect_exit(gateway, EXIT_MS);
    restart_and_pass_time();
    cr_expect_str_eq(json_text_at(client_get_task(second->api, "slow")->json, "state"), "delivered");
    cr_assert_eq(sink_count(sink, "/slow"), 1);
}

Test(shutdown, a_second_signal_ends_it_now)
{
    SINK_SCRIPT(sink, "/hang", {.status = 200, .is_held = true}, {.status = 200});
    post(gateway, "hang", "/hang", 0);
    sink_wait(sink, "/hang", 1, ARRIVE_MS);
    proc_signal(gateway->proc, SIGTERM);
    /* It refuses new tasks once it has seen the first signal. */
    WAIT_UNTIL(client_post_task(gateway->api, "{\"url\":\"%s\"}", sink_url(sink, "/late"))->status != 201, ARRIVE_MS);
    cr_assert(proc_is_running(gateway->proc), "it did not wait for the delivery");
    proc_signal(gateway->proc, SIGTERM);
    expect_exit(gateway, 3000);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    sink_wait(sink, "/hang", 2, 3 * ARRIVE_MS);
}

Test(shutdown, sighup_is_ignored)
{
    proc_signal(gateway->proc, SIGHUP);
    post(gateway, "after", "/after", 100);
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
    cr_assert(proc_is_running(gateway->proc));
}

Test(shutdown, a_signal_at_any_moment_of_the_start_is_honoured)
{
    for (int after_ms = 0; after_ms < 100; after_ms += 7) {
        char *binary = gateway_binary();
        const char *const argv[] = {binary, "serve", "--listen", "127.0.0.1:0", "--redis", redis_fixture_url(redis),
                                    NULL};
        const struct timespec pause = {.tv_nsec = after_ms * 1000000L};
        struct proc *p = proc_start(argv, NULL, NULL);
        nanosleep(&pause, NULL); /* the moment is the case */
        proc_signal(p, SIGTERM);
        int code = proc_wait(p, EXIT_MS);
        /* Before it has taken over its signals the kernel ends it: nothing was begun yet. */
        cr_expect(code == 0 || (code == 128 + SIGTERM && strlen(proc_stderr(p)) == 0), "%d ms: exit code %d: %s",
                  after_ms, code, proc_stderr(p));
        proc_destroy(&p);
        free(binary);
    }
}

static int connect_to(const struct gateway *g)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t)strtol(strrchr(g->url, ':') + 1, NULL, 10));
    cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

Test(shutdown, open_connections_do_not_hold_it_up)
{
    enum { CLIENTS = 20 };
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char half[] =
        "POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{";
    int fds[CLIENTS];

    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = connect_to(gateway);
        const char *text = i % 4 == 0 ? "" : i % 4 == 1 ? half : request;
        cr_assert_eq(send(fds[i], text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    }
    cr_assert_eq(client_get(gateway->api, "/healthz")->status, 200); /* those before it were seen */
    proc_signal(gateway->proc, SIGTERM);
    expect_exit(gateway, EXIT_MS);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
}

Test(shutdown, a_second_signal_does_not_wait_for_a_client_that_sends_slowly)
{
    static const char half[] =
        "POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{";
    int fd = connect_to(gateway);

    cr_assert_eq(send(fd, half, strlen(half), MSG_NOSIGNAL), (ssize_t)strlen(half));
    cr_assert_eq(client_get(gateway->api, "/healthz")->status, 200); /* the half was seen */
    proc_signal(gateway->proc, SIGTERM);
    WAIT_UNTIL(strstr(proc_stderr(gateway->proc), "count=1"), EXIT_MS);
    proc_signal(gateway->proc, SIGTERM);
    expect_exit(gateway, 2000); /* a single signal waits 3 s for it */
    close(fd);
}

Test(shutdown, it_stops_while_redis_is_away)
{
    redis_fixture_kill(redis);
    proc_signal(gateway->proc, SIGTERM);
    expect_exit(gateway, EXIT_MS);
}

Test(shutdown, requests_waiting_for_a_stuck_redis_get_an_answer_or_a_close)
{
    enum { CLIENTS = 20 };
    static const char request[] = "GET /tasks/x HTTP/1.1\r\nHost: x\r\n\r\n";
    int fds[CLIENTS];

    redis_fixture_pause(redis);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = connect_to(gateway);
        cr_assert_eq(send(fds[i], request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    }
    proc_signal(gateway->proc, SIGTERM);
    expect_exit(gateway, EXIT_MS);
    for (int i = 0; i < CLIENTS; i++) {
        char answer[256];
        ssize_t n = recv(fds[i], answer, sizeof(answer) - 1, 0);
        if (n > 0) {
            answer[n] = '\0';
            cr_expect_eq(strncmp(answer, "HTTP/1.1 503", 12), 0, "%s", answer);
        }
        close(fds[i]);
    }
    redis_fixture_resume(redis);
}

Test(shutdown, the_embedded_redis_ends_with_its_gateway)
{
    char *dir = tmpdir_create();

    second = gateway_start(&(struct gateway_opts){.data_dir = dir});
    pid_t child = procfs_child(proc_pid(second->proc));
    cr_assert_gt(child, 0, "the gateway has no child");
    gateway_stop(second);
    cr_assert_not(procfs_is_alive(child), "redis-server %d outlived its gateway", (int)child);
    tmpdir_destroy(&dir);
}
