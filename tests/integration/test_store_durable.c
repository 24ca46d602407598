#include "../support/tmpdir.h"
#include "../support/wait.h"
#include "store/durable_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* What a group of creates asks a Redis for, and what it makes of the answers, on a server that says what the test
 * wants: the installed one may be too old for WAITAOF. The server runs in the test's own loop. */

#define SOON_MS 5000

static const char FILE_EACH_SECOND[] =
    "*4\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n";
static const char FILE_ALWAYS[] = "*4\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n";
static const char NO_FILE[] = "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n";
static const char FORBIDDEN[] = "-NOPERM this user has no permissions to run the 'config|get' command\r\n";

/* One case: the server's answers; NULL: it hangs up. */
struct server_says {
    const char *version, *config, *wait_aof, *wait;
};

static struct server_says says;
static char *dir;
static struct redis_opts opts;
static struct keys keys;
static struct loop *loop;
static struct conn *conn;
static struct durable durable;
static int listener = -1, peer = -1;
static redisReader *commands;
static int configs, waits, dones;

static void on_up(void *ctx)
{
    durable_up(ctx);
}

static void on_done(struct store_op *op)
{
    (void)op;
    dones++;
}

static void say(const char *text)
{
    if (text) {
        cr_assert_eq(send(peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    } else {
        close(peer);
        peer = -1;
    }
}

static void answer(const char *command)
{
    char info[64];

    if (strcmp(command, "INFO") == 0) {
        (void)snprintf(info, sizeof(info), "$%d\r\nredis_version:%s\r\n\r\n", (int)strlen(says.version) + 16,
                       says.version);
        say(info);
    } else if (strcmp(command, "ROLE") == 0) {
        say("*1\r\n$6\r\nmaster\r\n");
    } else if (strcmp(command, "CONFIG") == 0) {
        configs++;
        say(says.config);
    } else if (strcmp(command, "WAITAOF") == 0) {
        waits++;
        say(says.wait_aof);
    } else if (strcmp(command, "WAIT") == 0) {
        waits++;
        say(says.wait);
    } else {
        say("+OK\r\n");
    }
}

static bool turn(void)
{
    char bytes[4096];
    void *command = NULL;
    int next = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ssize_t n;

    (void)conn_tick(conn);
    loop_turn(loop, 1000);
    if (next != -1) {
        redisReaderFree(commands);
        commands = redisReaderCreate();
        peer = next;
    }
    n = peer == -1 ? 0 : recv(peer, bytes, sizeof(bytes), 0);
    if (n > 0)
        cr_assert_eq(redisReaderFeed(commands, bytes, (size_t)n), REDIS_OK);
    while (peer != -1 && redisReaderGetReply(commands, &command) == REDIS_OK && command) {
        answer(((redisReply *)command)->element[0]->str);
        freeReplyObject(command);
        command = NULL;
    }
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
    loop_destroy(&loop);
    close(listener);
    redisReaderFree(commands);
    keys_deinit(&keys);
    redis_opts_deinit(&opts);
    tmpdir_destroy(&dir);
}

TestSuite(store_durable, .init = setup, .fini = teardown, .timeout = 120);

static void connect_to(const struct server_says *s)
{
    const struct conn_opts o = {.redis = &opts,
                                .keys = &keys,
                                .loop = loop,
                                .name = "durable",
                                .is_plain = true,
                                .on_up = on_up,
                                .ctx = &durable};

    says = *s;
    configs = waits = dones = 0;
    conn = conn_create(&o);
    durable_init(&durable, conn);
    WAIT_UNTIL(turn() && configs == 1, SOON_MS);
    for (int i = 0; i < 5; i++)
        turn();
}

static void disconnect(void)
{
    conn_destroy(&conn);
    durable_deinit(&durable);
    if (peer != -1)
        close(peer);
    peer = -1;
}

/* A group of one create; whether it is told that it is durable. */
static bool create(enum task_durability durability)
{
    struct store_op op = {.kind = STORE_CREATE, .durability = durability, .done = on_done};

    durable_note(&durable, &op);
    durable_await(&durable);
    durable_finish(&durable, &op);
    WAIT_UNTIL(turn() && dones == 1, SOON_MS);
    return op.is_durable;
}

Test(store_durable, what_is_reached_depends_on_the_server_and_its_answer)
{
    static const struct {
        struct server_says says;
        enum task_durability asked;
        bool is_durable;
        int waits;
    } cases[] = {
        {{"7.0.15", FILE_ALWAYS, NULL, NULL}, TASK_DURABILITY_FSYNC, true, 0},
        {{"7.0.15", FILE_EACH_SECOND, NULL, NULL}, TASK_DURABILITY_FSYNC, false, 0},
        {{"7.0.15", NO_FILE, NULL, NULL}, TASK_DURABILITY_FSYNC, false, 0},
        {{"7.0.15", FORBIDDEN, NULL, NULL}, TASK_DURABILITY_FSYNC, false, 0},
        {{"7.2.0", FILE_EACH_SECOND, "*2\r\n:1\r\n:0\r\n", NULL}, TASK_DURABILITY_FSYNC, true, 1},
        {{"8.0.0", FILE_EACH_SECOND, "*2\r\n:0\r\n:0\r\n", NULL}, TASK_DURABILITY_FSYNC, false, 1},
        {{"10.1.0", NO_FILE, "-ERR WAITAOF cannot be used\r\n", NULL}, TASK_DURABILITY_FSYNC, false, 1},
        {{"7.2.0", FILE_EACH_SECOND, NULL, NULL}, TASK_DURABILITY_FSYNC, false, 1},
        {{"7.0.15", NO_FILE, NULL, ":1\r\n"}, TASK_DURABILITY_REPLICA, true, 1},
        {{"7.0.15", FILE_ALWAYS, NULL, ":0\r\n"}, TASK_DURABILITY_REPLICA, false, 1},
        {{"7.0.15", FILE_ALWAYS, NULL, NULL}, TASK_DURABILITY_REPLICA, false, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_to(&cases[i].says);
        cr_expect_eq(create(cases[i].asked), cases[i].is_durable, "case %zu", i);
        cr_expect_eq(waits, cases[i].waits, "case %zu waited %d times", i, waits);
        disconnect();
    }
}

Test(store_durable, a_group_shares_one_wait_of_each_kind)
{
    struct store_op ops[6];

    connect_to(&(struct server_says){"7.2.0", FILE_EACH_SECOND, "*2\r\n:1\r\n:0\r\n", ":0\r\n"});
    for (int i = 0; i < 6; i++) {
        ops[i] = (struct store_op){.kind = STORE_CREATE,
                                   .durability = i % 2 ? TASK_DURABILITY_FSYNC : TASK_DURABILITY_REPLICA,
                                   .done = on_done};
        durable_note(&durable, &ops[i]);
    }
    durable_await(&durable);
    for (int i = 0; i < 6; i++)
        durable_finish(&durable, &ops[i]);
    cr_expect_eq(dones, 0, "before the answers nobody knows");
    WAIT_UNTIL(turn() && dones == 6, SOON_MS);
    cr_expect_eq(waits, 2);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(ops[i].is_durable, i % 2 == 1);
    disconnect();
}

Test(store_durable, who_failed_does_not_wait)
{
    struct store_op op = {
        .kind = STORE_CREATE, .durability = TASK_DURABILITY_REPLICA, .done = on_done, .err = ERR_TOO_MANY_PENDING};

    connect_to(&(struct server_says){"7.0.15", FILE_ALWAYS, NULL, ":1\r\n"});
    durable_note(&durable, &op);
    durable_await(&durable);
    durable_finish(&durable, &op);
    cr_expect_eq(dones, 1);
    cr_expect_not(op.is_durable);
    WAIT_UNTIL(turn() && waits == 1 && durable.awaited == 0, SOON_MS);
    disconnect();
}
