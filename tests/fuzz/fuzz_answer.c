#include "base/clock.h"
#include "base/parse.h"
#include "deliver/failure_priv.h"
#include "deliver/webhook_priv.h"
#include "task/outcome.h"
#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Any bytes as a receiver's answer, through libcurl and the callbacks of an attempt. The whole answer is in the
 * connection before libcurl looks for it, so that one thread is enough. Whatever came, the result is a status or none,
 * a text that can stand in JSON and in a log line, and a wait within its bounds; and it decides about the task. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define ANSWER_MAX_BYTES ((size_t)100 * 1024) /* fits the socket's buffers, and is over each of our limits */
#define SECRET "SeCrEt"
#define BUFFER_BYTES (2 * (int)ANSWER_MAX_BYTES)

struct rig {
    int listener;
    CURLM *multi;
    struct multi sockets; /* opens and closes them only */
    struct task *task;
    struct attempt *attempt;
    struct cidr_list loopback;
    struct pool_opts opts;
    struct webhook_env env;
};

static void nothing(void *ctx, struct attempt *a)
{
    (void)ctx;
    (void)a;
}

static int listen_on_loopback(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int bytes = BUFFER_BYTES;
    int rc = setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));

    rc |= bind(fd, (const struct sockaddr *)&address, n);
    rc |= listen(fd, 1);
    rc |= getsockname(fd, (struct sockaddr *)&address, &n);
    assert(fd != -1 && rc == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Room for the whole answer, and an end by reset, so that no port is left waiting. */
static int set_socket(void *clientp, curl_socket_t fd, curlsocktype purpose)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    const int bytes = BUFFER_BYTES;

    (void)clientp;
    (void)purpose;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    return CURL_SOCKOPT_OK;
}

static void set_up(struct rig *g)
{
    static char agent[] = "User-Agent: fuzz";
    const char *bad = NULL;
    size_t bad_bytes = 0;
    int port = 0;

    if (pool_global_init() != ERR_OK || cidr_list_parse("127.0.0.0/8", &g->loopback, &bad, &bad_bytes) != ERR_OK)
        abort();
    g->listener = listen_on_loopback(&port);
    g->opts.allow_net = &g->loopback;
    multi_init(&g->sockets, loop_create());
    g->env = (struct webhook_env){.opts = &g->opts,
                                  .multi = &g->sockets,
                                  .libcurl = curl_version_info(CURLVERSION_NOW),
                                  .agent_line = agent,
                                  .on_found = nothing,
                                  .on_success = nothing};
    g->multi = curl_multi_init();
    g->attempt = attempt_create(&g->env);
    g->task = task_create();
    g->task->id = strdup("id");
    if (!g->multi || !g->attempt || asprintf(&g->task->url, "http://127.0.0.1:%d/hook?token=" SECRET, port) < 0)
        abort();
    (void)curl_easy_setopt(g->attempt->easy, CURLOPT_SOCKOPTFUNCTION, set_socket);
    (void)curl_easy_setopt(g->attempt->easy, CURLOPT_FORBID_REUSE, 1L);
    (void)curl_easy_setopt(g->attempt->easy, CURLOPT_TIMEOUT_MS, 5000L);
}

/* Say all this and no more. */
static int answer(const struct rig *g, const unsigned char *data, size_t size)
{
    int fd = accept(g->listener, NULL, NULL);

    assert(fd != -1);
    (void)send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    return fd;
}

static CURLcode transfer(const struct rig *g, const unsigned char *data, size_t size)
{
    int running = 1;
    int left = 0;
    int fd = -1;
    const CURLMsg *message = NULL;

    if (curl_multi_add_handle(g->multi, g->attempt->easy) != CURLM_OK)
        abort();
    while (curl_multi_perform(g->multi, &running) == CURLM_OK && running > 0) {
        if (fd == -1)
            fd = answer(g, data, size);
        else
            (void)curl_multi_poll(g->multi, NULL, 0, 1000, NULL);
    }
    message = curl_multi_info_read(g->multi, &left);
    assert(message && message->msg == CURLMSG_DONE);
    CURLcode code = message->data.result;

    (void)curl_multi_remove_handle(g->multi, g->attempt->easy);
    (void)close(fd);
    return code;
}

/* Nothing of the request is in it; what the receiver said may be. */
static void check_text(const char *error, const unsigned char *data, size_t size)
{
    size_t n = strnlen(error, sizeof((struct webhook_result){0}.error));

    assert(n < sizeof((struct webhook_result){0}.error) && parse_is_utf8(error, n));
    for (size_t i = 0; i < n; i++)
        assert((unsigned char)error[i] >= ' ' && error[i] != 0x7f);
    assert(!strstr(error, SECRET) || memmem(data, size, SECRET, strlen(SECRET)));
}

static void check_outcome(const struct task *t, const struct webhook_result *r)
{
    struct outcome o = outcome_decide(t, r->status, r->retry_after_ms, clock_mono_us() / 1000, 0.5);
    bool is_success = r->status >= 200 && r->status <= 299;

    assert((o.kind == OUTCOME_DELIVERED) == is_success);
    assert((o.kind == OUTCOME_DEAD) == (r->status == 410));
    if (o.kind == OUTCOME_RETRY)
        assert(o.delay_ms >= t->retry.initial_ms && o.delay_ms >= r->retry_after_ms);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct rig g;
    struct webhook_result result;

    if (size > ANSWER_MAX_BYTES)
        return 0;
    if (!g.task)
        set_up(&g);
    if (attempt_prepare(g.attempt, g.task, 1, true) != ERR_OK)
        abort();
    g.attempt->started_mono_us = clock_mono_us();
    g.attempt->code = transfer(&g, data, size);
    g.attempt->ended_mono_us = clock_mono_us();
    attempt_result(g.attempt, &result);
    assert(g.attempt->sent_mono_us != 0 && !result.is_local_failure);
    assert(result.status == 0 || (result.status >= 100 && result.status <= 999));
    assert(result.retry_after_ms >= -1 && result.retry_after_ms <= OUTCOME_RETRY_AFTER_MAX_MS);
    assert((result.error[0] == '\0') == (result.status >= 200 && result.status <= 299));
    assert(g.attempt->answer.body_bytes <= WEBHOOK_BODY_MAX + CURL_MAX_WRITE_SIZE);
    check_text(result.error, data, size);
    check_outcome(g.task, &result);
    attempt_recycle(g.attempt);
    return 0;
}
