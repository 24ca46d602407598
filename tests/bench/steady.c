/* A steady, open-loop stream of new tasks: steady GATEWAY_PORT RECEIVER_URL RATE SECONDS
 *
 * Open loop: the n-th task is posted at start + n / RATE whatever the answers do, so a slow gateway cannot slow down
 * what is asked of it. Each task has a small random delay (10 to 200 ms), so that due times fall between the posts.
 * One thread on epoll; a post takes an idle connection, or a new one when none is idle.
 *
 * Prints {"sent", "accepted", "failed", "behind_ms", "post_p50", "post_p99"}: `behind_ms` is how far the sender itself
 * fell behind its plan at worst, and the others are ms from post to answer. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 512
#define EVENTS_MAX 64
#define TICK_NS 500000
#define DELAY_MIN_MS 10
#define DELAY_SPAN_MS 190
#define LAST_ANSWERS_S 5

struct connection {
    int fd;
    bool is_busy;
    int64_t sent_us;
    size_t count;
    char input[4096];
};

struct stream {
    int port;
    const char *url;
    int rate, seconds;
    int epoll_fd;
    struct connection connections[CONNECTIONS_MAX];
    size_t connection_count;
    uint64_t sent, accepted, failed;
    int64_t behind_us;
    int64_t *took_us; /* of each answer */
    uint64_t random;
};

static int64_t mono_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* xorshift64: the same delays in every run. */
static uint64_t next_random(struct stream *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static struct connection *idle_connection(struct stream *s)
{
    for (size_t i = 0; i < s->connection_count; i++) {
        if (!s->connections[i].is_busy)
            return &s->connections[i];
    }
    if (s->connection_count == CONNECTIONS_MAX)
        return NULL;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct connection *c = &s->connections[s->connection_count];
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        die("steady: connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0)
        die("steady: epoll_ctl");
    s->connection_count++;
    return c;
}

/* Post the next task; false when every connection is waiting for an answer. */
static bool post(struct stream *s)
{
    struct connection *c = idle_connection(s);
    char body[512], request[1024];

    if (!c)
        return false;
    int delay_ms = DELAY_MIN_MS + (int)(next_random(s) % DELAY_SPAN_MS);
    int body_bytes = snprintf(body, sizeof(body), "{\"url\":\"%s\",\"delay\":%d,\"payload\":{\"order\":%llu}}", s->url,
                              delay_ms, (unsigned long long)s->sent);
    int n = snprintf(request, sizeof(request),
                     "POST /tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
                     "%d\r\n\r\n%s",
                     body_bytes, body);
    c->is_busy = true;
    c->count = 0;
    c->sent_us = mono_us();
    if (send(c->fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        die("steady: send");
    s->sent++;
    return true;
}

/* Whether the whole answer is there. */
static bool is_complete(const struct connection *c)
{
    const char *end = strstr(c->input, "\r\n\r\n");
    const char *length = end ? strcasestr(c->input, "\ncontent-length:") : NULL;

    if (!length || length > end)
        return false;
    size_t head_bytes = (size_t)(end - c->input) + 4;
    return c->count >= head_bytes + strtoul(length + 16, NULL, 10);
}

static void read_answer(struct stream *s, struct connection *c)
{
    ssize_t n = recv(c->fd, c->input + c->count, sizeof(c->input) - 1 - c->count, 0);

    if (n <= 0)
        die("steady: the gateway closed a connection");
    c->count += (size_t)n;
    c->input[c->count] = '\0';
    if (!is_complete(c))
        return;
    s->took_us[s->accepted + s->failed] = mono_us() - c->sent_us;
    if (strncmp(c->input, "HTTP/1.1 201", 12) == 0)
        s->accepted++;
    else
        s->failed++;
    c->is_busy = false;
}

static void read_answers(struct stream *s, int timer_fd)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, -1);

    for (int i = 0; i < n; i++) {
        uint64_t ticks;
        if (events[i].data.ptr)
            read_answer(s, events[i].data.ptr);
        else if (read(timer_fd, &ticks, sizeof(ticks)) < 0)
            die("steady: timer");
    }
}

static void run(struct stream *s, int timer_fd)
{
    uint64_t total = (uint64_t)s->rate * (uint64_t)s->seconds;
    int64_t start_us = mono_us(), end_us = start_us + (int64_t)(s->seconds + LAST_ANSWERS_S) * 1000000;

    while ((s->sent < total || s->accepted + s->failed < total) && mono_us() < end_us) {
        int64_t planned_us = start_us + (int64_t)(s->sent * 1000000 / (uint64_t)s->rate);
        while (s->sent < total && planned_us <= mono_us()) {
            int64_t behind_us = mono_us() - planned_us;
            if (behind_us > s->behind_us)
                s->behind_us = behind_us;
            if (!post(s))
                break;
            planned_us = start_us + (int64_t)(s->sent * 1000000 / (uint64_t)s->rate);
        }
        read_answers(s, timer_fd);
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void report(struct stream *s)
{
    uint64_t answers = s->accepted + s->failed;
    double p50 = 0, p99 = 0;

    if (answers > 0) {
        qsort(s->took_us, answers, sizeof(*s->took_us), compare);
        p50 = (double)s->took_us[answers / 2] / 1000.0;
        p99 = (double)s->took_us[answers * 99 / 100] / 1000.0;
    }
    printf("{\"sent\":%llu,\"accepted\":%llu,\"failed\":%llu,\"behind_ms\":%.2f,\"post_p50\":%.2f,\"post_p99\":%.2f}\n",
           (unsigned long long)s->sent, (unsigned long long)s->accepted, (unsigned long long)(s->sent - s->accepted),
           (double)s->behind_us / 1000.0, p50, p99);
}

int main(int argc, char **argv)
{
    static struct stream s = {.random = 88172645463325252u};
    struct itimerspec every = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
    struct epoll_event tick = {.events = EPOLLIN, .data.ptr = NULL};

    if (argc != 5) {
        fprintf(stderr, "usage: steady GATEWAY_PORT RECEIVER_URL RATE SECONDS\n");
        return 2;
    }
    s.port = (int)strtol(argv[1], NULL, 10);
    s.url = argv[2];
    s.rate = (int)strtol(argv[3], NULL, 10);
    s.seconds = (int)strtol(argv[4], NULL, 10);
    if (s.port <= 0 || s.rate <= 0 || s.seconds <= 0)
        return 2;
    s.took_us = calloc((size_t)s.rate * (size_t)s.seconds, sizeof(*s.took_us));
    s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (!s.took_us || s.epoll_fd < 0 || timer_fd < 0 || timerfd_settime(timer_fd, 0, &every, NULL) != 0 ||
        epoll_ctl(s.epoll_fd, EPOLL_CTL_ADD, timer_fd, &tick) != 0)
        die("steady");
    run(&s, timer_fd);
    report(&s);
    return 0;
}
