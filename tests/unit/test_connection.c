#include "http/connection_priv.h"
#include "base/clock.h"
#include "http/request_priv.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The sweep with a clock of our own over real sockets: nothing here waits for a time limit to pass. */

static struct connections list;
static struct connection *c;
static int client = -1;
static int64_t start_ms;

static void connect_pair(int *client_fd, int *server_fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t size = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *client_fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, (const struct sockaddr *)&a, sizeof(a)), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &size), 0);
    cr_assert_eq(connect(*client_fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    *server_fd = accept(listener, NULL, NULL);
    cr_assert_neq(*server_fd, -1);
    cr_assert_eq(close(listener), 0);
}

static void set_up(void)
{
    int server = -1;

    connect_pair(&client, &server);
    start_ms = clock_mono_ms();
    list.max = 1;
    c = connections_add(&list, server, start_ms);
}

static void tear_down(void)
{
    while (list.first) {
        struct connection *last = list.first;

        (void)close(last->fd);
        connections_remove(&list, &last);
    }
    (void)close(client);
}

static bool sweep_ends_it_after(int64_t ms)
{
    connections_sweep(&list, start_ms + ms);
    return c->is_shut;
}

static void receive(const char *text)
{
    char got[64];

    cr_assert_eq(send(client, text, strlen(text), 0), (ssize_t)strlen(text));
    for (size_t n = 0; n < strlen(text);)
        n += (size_t)recv(c->fd, got, sizeof(got), 0);
}

static struct request *begin_request(enum request_phase phase)
{
    static const struct request_env env = {.reply_max_bytes = 1024};
    struct request *r = request_create(&env, "/stats");

    r->began_mono_ms = start_ms;
    r->phase = phase;
    connection_begin(c, r);
    return r;
}

TestSuite(connection, .init = set_up, .fini = tear_down);

Test(connection, an_idle_one_is_ended_after_a_minute)
{
    char byte = 0;

    cr_expect_not(sweep_ends_it_after(CONNECTION_IDLE_MS - 100));
    cr_expect(sweep_ends_it_after(CONNECTION_IDLE_MS + 100));
    cr_expect_eq(recv(client, &byte, 1, 0), 0, "the client must see the end");
}

Test(connection, half_a_request_line_is_a_head_that_takes_too_long)
{
    receive("GET /st");
    cr_expect_not(sweep_ends_it_after(1000));
    receive("a");
    cr_expect_not(sweep_ends_it_after(1000 + CONNECTION_HEAD_MS - 100));
    receive("t");
    cr_expect(sweep_ends_it_after(1000 + CONNECTION_HEAD_MS + 100));
}

Test(connection, a_kept_one_is_idle_from_its_last_answer)
{
    struct request *r = NULL;

    receive("GET /stats HTTP/1.1\r\n");
    r = begin_request(REQUEST_ANSWERED);
    connection_end(c, start_ms + 50000);
    request_release(&r);
    cr_expect_not(sweep_ends_it_after(50000 + CONNECTION_IDLE_MS - 100));
    cr_expect(sweep_ends_it_after(50000 + CONNECTION_IDLE_MS + 100));
}

/* What libmicrohttpd has no memory for stays in the socket. */
static void expect_stuck_is_ended(enum request_phase phase)
{
    struct request *r = begin_request(phase);
    char byte = 0;

    cr_expect_not(sweep_ends_it_after(100), "nothing has come");
    cr_expect_not(sweep_ends_it_after(200), "nothing has come");
    cr_assert_eq(send(client, "four", 4, 0), 4);
    cr_expect_not(sweep_ends_it_after(300), "it has just come");
    r->body_bytes++;
    cr_expect_not(sweep_ends_it_after(400), "some of the body was read");
    cr_assert_eq(recv(c->fd, &byte, 1, 0), 1);
    cr_expect_not(sweep_ends_it_after(500), "something was read");
    cr_assert_eq(send(client, "more", 4, 0), 4); /* a client that drips is no better */
    cr_expect(sweep_ends_it_after(600));
    connection_end(c, start_ms + 600);
    request_release(&r);
}

Test(connection, a_body_that_is_not_read_on_is_ended_at_the_next_sweep)
{
    expect_stuck_is_ended(REQUEST_BODY);
}

Test(connection, nor_is_one_waited_for_that_is_only_read_away)
{
    expect_stuck_is_ended(REQUEST_ANSWERED);
}

Test(connection, each_phase_of_a_request_has_its_limit)
{
    static const struct {
        enum request_phase phase;
        int64_t limit_ms; /* 0: none */
    } rows[] = {
        {REQUEST_HEAD, CONNECTION_HEAD_MS},
        {REQUEST_BODY, CONNECTION_REQUEST_MS},
        {REQUEST_ANSWERED, CONNECTION_REQUEST_MS},
        {REQUEST_REFUSED_HEAD, CONNECTION_LINGER_MS},
        {REQUEST_REFUSED, CONNECTION_LINGER_MS},
        {REQUEST_WAITING, 0},
        {REQUEST_SUSPENDED, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct request *r = begin_request(rows[i].phase);
        int64_t limit_ms = rows[i].limit_ms;

        c->refused_mono_ms = start_ms;
        c->is_shut = false;
        if (limit_ms > 0)
            cr_expect_not(sweep_ends_it_after(limit_ms - 100), "row %zu", i);
        cr_expect_eq(sweep_ends_it_after(limit_ms > 0 ? limit_ms + 100 : CONNECTION_REQUEST_MS * 2), limit_ms > 0,
                     "row %zu", i);
        connection_end(c, start_ms);
        request_release(&r);
    }
}

Test(connection, a_client_that_closed_its_half_before_its_request_was_whole_has_left)
{
    struct pollfd fd = {.fd = c->fd, .events = POLLRDHUP};
    struct request *r = begin_request(REQUEST_BODY);

    receive("half a bo");
    cr_expect_not(sweep_ends_it_after(1));
    cr_assert_eq(send(client, "dy", 2, 0), 2);
    cr_assert_eq(shutdown(client, SHUT_WR), 0);
    cr_assert_eq(poll(&fd, 1, 5000), 1);
    cr_expect_not(sweep_ends_it_after(1), "two bytes are not read yet");
    cr_assert_eq(recv(c->fd, (char[8]){0}, 8, 0), 2);
    cr_expect(sweep_ends_it_after(1));
    connection_end(c, start_ms);
    request_release(&r);
}

Test(connection, one_too_many_is_marked_until_there_is_room)
{
    int fds[2];
    struct connection *second = NULL;
    struct connection *third = NULL;

    connect_pair(&fds[0], &fds[1]);
    second = connections_add(&list, fds[1], start_ms);
    cr_expect_not(c->is_excess);
    cr_expect(second->is_excess);
    connections_sweep(&list, start_ms + CONNECTION_LINGER_MS + 100);
    cr_expect(second->is_shut, "it does not stay");
    cr_expect_not(c->is_shut);
    (void)close(c->fd);
    connections_remove(&list, &c);
    third = connections_add(&list, dup(fds[1]), start_ms);
    cr_expect_not(third->is_excess, "the excess one does not count");
    (void)close(fds[0]);
}

Test(connection, many_that_have_gone_are_noticed_once)
{
    int fds[2];
    struct connection *many[200];

    connect_pair(&fds[0], &fds[1]);
    for (size_t i = 0; i < 200; i++)
        many[i] = connections_add(&list, fds[1], start_ms);
    cr_expect_not(connections_have_fallen(&list));
    for (size_t i = 0; i < 200; i++)
        connections_remove(&list, &many[i]);
    cr_expect(connections_have_fallen(&list));
    cr_expect_not(connections_have_fallen(&list));
    cr_assert_eq(close(fds[0]), 0);
    cr_assert_eq(close(fds[1]), 0);
}
