#include "../support/tmpdir.h"
#include "../support/wait.h"
#include "store/conn_priv.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A server that behaves until the connection is up, and then says what no Redis says. Whatever it is, the connection
 * is lost and made again; the process lives. The server runs in the test's own loop. */

#define SOON_MS 5000

static char *dir;
static struct redis_opts opts;
static struct keys keys;
static struct loop *loop;
static struct conn *conn;
static int listener = -1, peer = -1;
static redisReader *commands;
static int ups, downs, answers;

static void on_up(void *ctx)
{
    (void)ctx;
    ups++;
}

static void on_down(void *ctx)
{
    (void)ctx;
    downs++;
}

static void on_answer(void *ctx, const redisReply *reply)
{
    (void)ctx;
    (void)reply;
    answers++;
}

static void on_message(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

static void say(const char *bytes, size_t n)
{
    cr_assert_eq(send(peer, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* The answers that make a connection ready. PING gets none: it waits for what the test says. */
static void answer(const char *command)
{
    static const struct {
        const char *command, *bytes;
    } ANSWERS[] = {
        {"CLIENT", "+OK\r\n"},
        {"INFO", "$20\r\nredis_version:7.0.15\r\n"},
        {"ROLE", "*1\r\n$6\r\nmaster\r\n"},
        {"SUBSCRIBE", "*3\r\n$9\r\nsubscribe\r\n$4\r\nwake\r\n:1\r\n"},
    };

    for (size_t i = 0; i < sizeof(ANSWERS) / sizeof(ANSWERS[0]); i++)
        if (strcasecmp(command, ANSWERS[i].command) == 0)
            say(ANSWERS[i].bytes, strlen(ANSWERS[i].bytes));
}

static void hang_up(void)
{
    if (peer != -1)
        close(peer);
    peer = -1;
    redisReaderFree(commands);
    commands = redisReaderCreate();
}

static void serve(void)
{
    char bytes[4096];
    void *command = NULL;
    int next = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (next != -1) {
        hang_up();
        peer = next;
    }
    if (peer == -1)
        return;
    ssize_t n = recv(peer, bytes, sizeof(bytes), 0);

    if (n > 0)
        cr_assert_eq(redisReaderFeed(commands, bytes, (size_t)n), REDIS_OK);
    while (redisReaderGetReply(commands, &command) == REDIS_OK && command) {
        answer(((redisReply *)command)->element[0]->str);
        freeReplyObject(command);
        command = NULL;
    }
}

static bool turn(void)
{
    (void)conn_tick(conn);
    loop_turn(loop, 1000);
    serve();
    return true;
}

static void setup(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    dir = tmpdir_create();
    opts = (struct redis_opts){.socket_path = tmpdir_path(dir, "s"), .prefix = "duepost", .gateway = "g"};
    keys_init(&keys, opts.prefix, 0);
    loop = loop_create();
    commands = redisReaderCreate();
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", opts.socket_path);
    cr_assert_eq(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(listener, 4), 0);
}

static void teardown(void)
{
    conn_destroy(&conn);
    loop_destroy(&loop);
    close(listener);
    hang_up();
    redisReaderFree(commands);
    keys_deinit(&keys);
    redis_opts_deinit(&opts);
    tmpdir_destroy(&dir);
}

TestSuite(store_hostile, .init = setup, .fini = teardown, .timeout = 120);

static void start(bool is_subscriber)
{
    conn = conn_create(&(struct conn_opts){.redis = &opts,
                                           .keys = &keys,
                                           .loop = loop,
                                           .name = "test",
                                           .channel = is_subscriber ? "wake" : NULL,
                                           .is_plain = !is_subscriber,
                                           .on_up = on_up,
                                           .on_down = on_down,
                                           .on_message = on_message});
    WAIT_UNTIL(turn() && ups == 1, SOON_MS);
}

static void expect_lost_and_made_again(const char *bytes, size_t n)
{
    int before = downs;

    say(bytes, n);
    WAIT_UNTIL(turn() && downs == before + 1, SOON_MS);
    WAIT_UNTIL(turn() && ups == before + 2, SOON_MS);
}

static void expect_each_lost(const char *const *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_lost_and_made_again(cases[i], strlen(cases[i]));
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

Test(store_hostile, an_answer_that_nobody_asked_for_ends_the_connection)
{
    static const char *const cases[] = {
        "+OK\r\n",
        ":1\r\n",
        "$1\r\na\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n$1\r\na\r\n:1\r\n",
        "-ERR\r\n",
        "\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*4294967295\r\n",
    };

    start(false);
    expect_each_lost(cases, COUNT(cases));
}

Test(store_hostile, a_message_that_is_none_ends_the_subscription)
{
    static const char *const cases[] = {
        "+OK\r\n",
        ":1\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*1\r\n$7\r\nmessage\r\n",
        "*3\r\n:1\r\n$4\r\nwake\r\n$1\r\n1\r\n",
        "*3\r\n$7\r\nmessage\r\n:1\r\n$1\r\n1\r\n",
        "*3\r\n*1\r\n:1\r\n$4\r\nwake\r\n$1\r\n1\r\n",
        "*3\r\n$11\r\nunsubscribe\r\n$4\r\nwake\r\n$1\r\nx\r\n",
        "*3\r\n$12\r\npunsubscribe\r\n$4\r\nwake\r\n:0\r\n",
    };

    start(true);
    expect_each_lost(cases, COUNT(cases));
}

/* The command gets its end, as always when its connection is lost. */
static void expect_refused(const char *bytes, size_t n)
{
    struct call call;
    int before = answers;

    call_init(&call);
    call_begin(&call);
    call_add_str(&call, "PING");
    call_seal(&call);
    cr_assert(conn_send(conn, &call, 60000, on_answer, NULL));
    call_deinit(&call);
    (void)turn();
    expect_lost_and_made_again(bytes, n);
    cr_expect_eq(answers, before + 1);
}

Test(store_hostile, an_answer_without_measure_ends_the_connection)
{
    enum { DEPTH = 5000 };
    char nested[4 * DEPTH];

    for (int i = 0; i < DEPTH; i++)
        memcpy(nested + (size_t)4 * i, "*1\r\n", 4);
    start(false);
    expect_refused("*2000000000\r\n", 13);
    expect_refused("*65537\r\n", 8);
    expect_refused(nested, sizeof(nested));
    expect_refused("?\r\n", 3);
}

Test(store_hostile, an_answer_that_is_cut_or_never_ends_is_waited_for_no_longer_than_any)
{
    static const char *const cases[] = {"$9999999999\r\nabc", "*3\r\n:1\r\n", "+no end", "*3"};
    struct call call;

    start(false);
    for (size_t i = 0; i < COUNT(cases); i++) {
        int before = downs;
        call_init(&call);
        call_begin(&call);
        call_add_str(&call, "PING");
        call_seal(&call);
        cr_assert(conn_send(conn, &call, 100, on_answer, NULL));
        call_deinit(&call);
        (void)turn();
        say(cases[i], strlen(cases[i]));
        WAIT_UNTIL(turn() && downs == before + 1, SOON_MS);
        WAIT_UNTIL(turn() && ups == before + 2, SOON_MS);
    }
    cr_expect_eq(answers, (int)COUNT(cases));
}
