#include "../support/tmpdir.h"
#include "../support/wait.h"
#include "store/embedded.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UP_MS 10000

static char *dir;
static struct embedded *server;
static char detail[EMBEDDED_DETAIL_SIZE];

static void set_up(void)
{
    dir = tmpdir_create();
}

static void tear_down(void)
{
    embedded_stop(&server);
    tmpdir_destroy(&dir);
}

TestSuite(embedded, .init = set_up, .fini = tear_down);

static void start(const char *data_dir)
{
    cr_assert_eq(embedded_start(data_dir, &server, detail), ERR_OK, "%s", detail);
    cr_assert_not_null(server);
}

/* A connection to a server that is ready, or NULL. */
static redisContext *try_connect(const char *socket)
{
    redisContext *c = redisConnectUnix(socket);
    redisReply *r = c && !c->err ? redisCommand(c, "PING") : NULL;
    bool is_good = r && r->type == REDIS_REPLY_STATUS;

    if (r)
        freeReplyObject(r);
    if (c && !is_good) {
        redisFree(c);
        c = NULL;
    }
    return c;
}

static redisContext *connect_to(const char *socket)
{
    redisContext *c = NULL;

    WAIT_UNTIL((c = try_connect(socket)) != NULL, UP_MS);
    return c;
}

/* The text or number that a command answers with, as text; free(). */
static char *ask_server(const char *format, const char *argument)
{
    redisContext *c = connect_to(embedded_socket(server));
    redisReply *r = redisCommand(c, format, argument);
    char *text = NULL;

    cr_assert(r && r->type != REDIS_REPLY_ERROR, "%s: %s", format, r ? r->str : c->errstr);
    if (r->type == REDIS_REPLY_INTEGER)
        cr_assert(asprintf(&text, "%lld", r->integer) > 0);
    else if (r->type == REDIS_REPLY_ARRAY)
        text = strdup(r->element[1]->str);
    else
        text = r->str ? strdup(r->str) : NULL;
    freeReplyObject(r);
    redisFree(c);
    return text;
}

static void expect_answer(const char *format, const char *argument, const char *want)
{
    char *text = ask_server(format, argument);

    cr_expect_str_eq(text, want, "%s %s: %s", format, argument, text);
    free(text);
}

static pid_t server_pid(void)
{
    char *info = ask_server("INFO %s", "server");
    const char *at = strstr(info, "process_id:");

    cr_assert_not_null(at);
    pid_t pid = (pid_t)strtol(at + strlen("process_id:"), NULL, 10);
    free(info);
    return pid;
}

Test(embedded, it_starts_with_a_log_on_disk_and_no_port)
{
    start(dir);
    expect_answer("CONFIG GET %s", "appendonly", "yes");
    expect_answer("CONFIG GET %s", "appendfsync", "everysec");
    expect_answer("CONFIG GET %s", "save", "");
    expect_answer("CONFIG GET %s", "port", "0");
    expect_answer("CONFIG GET %s", "maxmemory-policy", "noeviction");
    expect_answer("CONFIG GET %s", "stream-node-max-entries", "16");
}

Test(embedded, nobody_else_can_reach_its_files)
{
    struct stat st;

    char *data_dir = tmpdir_path(dir, "new");
    start(data_dir);
    cr_assert_eq(stat(data_dir, &st), 0);
    cr_expect_eq(st.st_mode & 077, 0, "the directory has mode %o", st.st_mode & 0777);
    char *socket = tmpdir_path(data_dir, "redis.sock");
    cr_assert_eq(stat(socket, &st), 0);
    cr_expect_eq(st.st_mode & 077, 0, "the socket has mode %o", st.st_mode & 0777);
    free(socket);
    free(data_dir);
}

Test(embedded, it_ends_when_it_is_stopped)
{
    start(dir);
    pid_t pid = server_pid();
    embedded_stop(&server);
    cr_expect_null(server);
    cr_expect_eq(kill(pid, 0), -1);
    cr_expect_eq(errno, ESRCH);
}

Test(embedded, what_was_written_is_there_at_the_next_start)
{
    start(dir);
    free(ask_server("SET key %s", "value"));
    embedded_stop(&server);
    start(dir);
    expect_answer("GET %s", "key", "value");
}

Test(embedded, a_second_gateway_on_the_same_folder_is_refused)
{
    struct embedded *second = NULL;

    start(dir);
    cr_expect_eq(embedded_start(dir, &second, detail), ERR_IO);
    cr_expect_null(second);
    cr_expect_not_null(strstr(detail, "in use"), "%s", detail);
    expect_answer("PING %s", "still here", "still here");
}

Test(embedded, two_gateways_on_two_folders_do_not_meet)
{
    char *a = tmpdir_path(dir, "a"), *b = tmpdir_path(dir, "b");
    struct embedded *first;

    start(a);
    first = server;
    free(ask_server("SET key %s", "a"));
    start(b);
    char *text = ask_server("EXISTS %s", "key");
    cr_expect_str_eq(text, "0");
    free(text);
    embedded_stop(&first);
    expect_answer("PING %s", "still here", "still here");
    free(a);
    free(b);
}

Test(embedded, it_is_started_again_when_it_dies_alone)
{
    start(dir);
    for (int i = 0; i < 2; i++) {
        pid_t pid = server_pid();
        free(ask_server("INCR %s", "restarts"));
        cr_assert_eq(kill(pid, SIGKILL), 0);
        WAIT_UNTIL((embedded_poll(server), kill(pid, 0) == -1), UP_MS);
        WAIT_UNTIL(embedded_poll(server) == -1, UP_MS);
        cr_expect_neq(server_pid(), pid);
    }
    expect_answer("GET %s", "restarts", "2");
}

Test(embedded, a_server_that_dies_is_not_started_in_a_hot_loop)
{
    start(dir);
    pid_t pid = server_pid();
    cr_assert_eq(kill(pid, SIGKILL), 0);
    int64_t wait_ms;
    WAIT_UNTIL((wait_ms = embedded_poll(server)) != -1, UP_MS);
    cr_expect(wait_ms > 0 && wait_ms <= 5000, "%lld", (long long)wait_ms);
}

/* The kernel ends it with the gateway; here a child plays the gateway and is killed with SIGKILL. */
Test(embedded, it_ends_with_a_gateway_that_is_killed_and_the_next_one_finds_the_data)
{
    int pipe_fds[2];
    pid_t redis_pid = 0;

    cr_assert_eq(pipe(pipe_fds), 0);
    pid_t gateway = fork();
    if (gateway == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (embedded_start(dir, &server, detail) != ERR_OK)
            _exit(1);
        free(ask_server("SET key %s", "value"));
        redis_pid = server_pid();
        if (write(pipe_fds[1], &redis_pid, sizeof(redis_pid)) != sizeof(redis_pid))
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(pipe_fds[0], &redis_pid, sizeof(redis_pid)), sizeof(redis_pid));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    cr_assert_eq(kill(gateway, SIGKILL), 0);
    cr_assert_eq(waitpid(gateway, NULL, 0), gateway);
    start(dir);
    expect_answer("GET %s", "key", "value");
    cr_expect_neq(server_pid(), redis_pid);
}

/* A socket's path has 107 bytes at most. */
Test(embedded, the_folder_may_have_a_long_name)
{
    char name[201];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    char *data_dir = tmpdir_path(dir, name);
    start(data_dir);
    free(ask_server("SET key %s", "value"));
    cr_expect_lt(strlen(embedded_socket(server)), 100);
    embedded_stop(&server);
    start(data_dir);
    expect_answer("GET %s", "key", "value");
    free(data_dir);
}

Test(embedded, a_relative_folder_is_fine)
{
    cr_assert_eq(chdir(dir), 0);
    start("data");
    expect_answer("PING %s", "here", "here");
    char *log = tmpdir_path(dir, "data/redis.log");
    cr_expect_eq(access(log, F_OK), 0);
    free(log);
    cr_assert_eq(chdir("/"), 0);
}

Test(embedded, a_folder_that_cannot_be_made_is_a_plain_reason)
{
    char *data_dir = tmpdir_path(dir, "missing/parent");

    cr_expect_eq(embedded_start(data_dir, &server, detail), ERR_IO);
    cr_expect_null(server);
    cr_expect_not_null(strstr(detail, "cannot be made"), "%s", detail);
    free(data_dir);
}

Test(embedded, a_file_in_place_of_the_folder_is_a_plain_reason)
{
    char *file = tmpdir_write(dir, "file", "text");

    cr_expect_eq(embedded_start(file, &server, detail), ERR_IO);
    cr_expect_not_null(strstr(detail, "cannot be opened"), "%s", detail);
    free(file);
}

/* Something lies where its socket must be. */
Test(embedded, a_server_that_does_not_start_is_a_plain_reason)
{
    char *socket = tmpdir_path(dir, "redis.sock");

    cr_assert_eq(mkdir(socket, 0700), 0);
    cr_expect_eq(embedded_start(dir, &server, detail), ERR_IO);
    cr_expect_null(server);
    cr_expect_not_null(strstr(detail, "redis.log"), "%s", detail);
    free(socket);
}

/* A full disk ends it when it opens its files, a moment after it has made its socket. */
Test(embedded, a_server_that_ends_after_it_has_made_its_socket_is_started_again)
{
    static const char dies_once[] =
        "#!/bin/sh\n"
        "export PATH=/usr/local/bin:/usr/bin:/bin\n"
        "[ ! -e died ] || exec $(command -v redis-server || command -v valkey-server) \"$@\"\n"
        "touch died\n"
        "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"redis.sock\"))'\n"
        "exit 1\n";
    static char path[200];
    char *program = tmpdir_write(dir, "redis-server", dies_once);

    cr_assert_eq(chmod(program, 0700), 0);
    (void)snprintf(path, sizeof(path), "PATH=%s", dir);
    cr_assert_eq(putenv(path), 0);
    start(dir);
    cr_expect_gt(embedded_poll(server), 0, "it waits before it starts it again");
    WAIT_UNTIL(embedded_poll(server) == -1, UP_MS);
    expect_answer("PING %s", "here", "here");
    free(program);
}

Test(embedded, without_a_redis_server_the_reason_says_so)
{
    static char nowhere[] = "PATH=/nowhere";

    cr_assert_eq(putenv(nowhere), 0);
    cr_expect_eq(embedded_start(dir, &server, detail), ERR_IO);
    cr_expect_not_null(strstr(detail, "not in PATH"), "%s", detail);
}
