/* The receiver of the benchmark: answers every request with 200, counts repeats by `webhook-id` and measures lateness
 * by `Duepost-Due`. It shares the machine with what it measures, so it is one thread on epoll that does little more
 * than read, look at two headers, and write a constant.
 *
 *   sink [MS]       listens on 127.0.0.1 at a port of the kernel's choice and prints it; MS: a slow receiver, which
 *                   answers each webhook after so many ms
 *   GET /report     {"count", "repeats", "early", "in_flight_max", "span_s", "p50", "p99", "p999", "max"}: lateness in
 *                   ms; the span is the time from the first webhook to the last
 *   GET /when/N     the same, as soon as N webhooks have come: who waits by asking again and again takes CPU time from
 *                   what is measured. One may wait at a time
 *   GET /reset      forgets everything
 *
 * Lateness is counted in steps of 10 us up to 10 s, so a report costs no sorting and memory does not grow. Ids are kept
 * as 64-bit hashes in a table for four million of them: two ids that meet would show as a repeat that was none. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define INPUT_MAX 65536
#define IDS_SLOTS (1u << 23) /* twice what is to be counted */
#define STEP_US 10
#define STEPS 1000000

struct figures {
    uint64_t count, repeats, early;
    int64_t first_us, last_us;
    uint64_t *ids; /* IDS_SLOTS hashes, 0: free */
    uint32_t *steps;
    uint64_t measured;
    int64_t max_us;
    uint64_t in_flight, in_flight_max; /* of a slow receiver: not answered yet */
};

struct connection {
    int fd;
    int64_t answer_us;            /* when the webhook it brought is answered; 0: it brought none */
    TAILQ_ENTRY(connection) link; /* in the queue of answers, then */
    size_t count;                 /* bytes in `input` */
    size_t body_left;             /* bytes of a body that are still to come, to be skipped */
    char input[INPUT_MAX];
};

/* The receiver. Every answer waits equally long, so those that wait are a queue. */
struct sink {
    int epoll_fd;
    int64_t delay_us; /* 0: answers at once */
    struct figures figures;
    TAILQ_HEAD(, connection) waiting;
    struct connection *watcher; /* gets a report when `watched_count` webhooks have come; NULL: nobody */
    uint64_t watched_count;
};

/* What of a request matters here. The pointers are into the connection's input. */
struct request {
    const char *id;
    size_t id_bytes;
    const char *due;
    size_t body_bytes;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static uint64_t hash(const char *s, size_t n)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return h ? h : 1;
}

static bool is_repeat(struct figures *f, const struct request *r)
{
    uint64_t h = hash(r->id, r->id_bytes);
    size_t i = h & (IDS_SLOTS - 1);

    while (f->ids[i] != 0 && f->ids[i] != h)
        i = (i + 1) & (IDS_SLOTS - 1);
    bool is_known = f->ids[i] == h;
    f->ids[i] = h;
    return is_known;
}

static int two_digits(const char *s)
{
    return (s[0] - '0') * 10 + (s[1] - '0');
}

/* "2026-11-30T10:20:30.123Z" in Unix us. */
static int64_t parse_due_us(const char *s)
{
    struct tm tm = {.tm_year = two_digits(s) * 100 + two_digits(s + 2) - 1900,
                    .tm_mon = two_digits(s + 5) - 1,
                    .tm_mday = two_digits(s + 8),
                    .tm_hour = two_digits(s + 11),
                    .tm_min = two_digits(s + 14),
                    .tm_sec = two_digits(s + 17)};
    int ms = two_digits(s + 20) * 10 + (s[22] - '0');

    return ((int64_t)timegm(&tm) * 1000 + ms) * 1000;
}

static void count_request(struct figures *f, const struct request *r)
{
    int64_t now = now_us();

    if (f->count++ == 0)
        f->first_us = now;
    f->last_us = now;
    if (r->id && is_repeat(f, r))
        f->repeats++;
    if (!r->due)
        return;
    int64_t late_us = now - parse_due_us(r->due);
    if (late_us < 0) {
        f->early++;
        late_us = 0;
    }
    if (late_us > f->max_us)
        f->max_us = late_us;
    int64_t step = late_us / STEP_US;
    f->steps[step < STEPS ? step : STEPS - 1]++;
    f->measured++;
}

static double percentile_ms(const struct figures *f, double share)
{
    uint64_t rank = (uint64_t)((double)f->measured * share), seen = 0;

    for (size_t i = 0; i < STEPS; i++) {
        seen += f->steps[i];
        if (seen > rank)
            return (double)(i * STEP_US) / 1000.0;
    }
    return (double)f->max_us / 1000.0;
}

static int write_report(const struct figures *f, char *out, size_t size)
{
    char body[512];
    int n =
        snprintf(body, sizeof(body),
                 "{\"count\":%llu,\"repeats\":%llu,\"early\":%llu,\"in_flight_max\":%llu,\"span_s\":%.3f,"
                 "\"p50\":%.2f,\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f}\n",
                 (unsigned long long)f->count, (unsigned long long)f->repeats, (unsigned long long)f->early,
                 (unsigned long long)f->in_flight_max, (double)(f->last_us - f->first_us) / 1e6, percentile_ms(f, 0.5),
                 percentile_ms(f, 0.99), percentile_ms(f, 0.999), (double)f->max_us / 1000.0);

    return snprintf(out, size, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, body);
}

static void reset(struct figures *f)
{
    memset(f->ids, 0, IDS_SLOTS * sizeof(*f->ids));
    memset(f->steps, 0, STEPS * sizeof(*f->steps));
    *f = (struct figures){.ids = f->ids, .steps = f->steps, .in_flight = f->in_flight};
}

/* The value when the line is this header, else NULL. */
static const char *value_of(const char *line, const char *name, size_t name_bytes)
{
    if (strncasecmp(line, name, name_bytes) != 0)
        return NULL;
    return line + name_bytes + strspn(line + name_bytes, " ");
}

static struct request parse_head(const char *head, const char *end)
{
    struct request r = {0};

    for (const char *line = strchr(head, '\n') + 1; line < end; line = strchr(line, '\n') + 1) {
        const char *value;
        if ((value = value_of(line, "webhook-id:", 11)) != NULL) {
            r.id = value;
            r.id_bytes = strcspn(value, "\r");
        } else if ((value = value_of(line, "duepost-due:", 12)) != NULL) {
            if (strcspn(value, "\r") == strlen("2026-11-30T10:20:30.123Z"))
                r.due = value;
        } else if ((value = value_of(line, "content-length:", 15)) != NULL) {
            r.body_bytes = strtoul(value, NULL, 10);
        }
    }
    return r;
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* A slow receiver keeps the answer for later, and `out` stays empty. */
static void answer_webhook(struct sink *s, struct connection *c, char *out, size_t size)
{
    if (s->delay_us == 0 || c->answer_us != 0) {
        snprintf(out, size, "%s", ok);
        return;
    }
    c->answer_us = now_us() + s->delay_us;
    TAILQ_INSERT_TAIL(&s->waiting, c, link);
    s->figures.in_flight++;
    if (s->figures.in_flight > s->figures.in_flight_max)
        s->figures.in_flight_max = s->figures.in_flight;
}

static void tell_watcher(struct sink *s)
{
    char out[1024];

    if (!s->watcher || s->figures.count < s->watched_count)
        return;
    write_report(&s->figures, out, sizeof(out));
    if (send(s->watcher->fd, out, strlen(out), MSG_NOSIGNAL) < 0)
        shutdown(s->watcher->fd, SHUT_RDWR); /* the loop sees its end */
    s->watcher = NULL;
}

/* Handle one request at the start of `input`; its answer goes to `out`. Returns the bytes of its head, 0 when it is
 * not complete. */
static size_t handle_one(struct sink *s, struct connection *c, const char *input, char *out, size_t size)
{
    const char *end = strstr(input, "\r\n\r\n");

    if (!end)
        return 0;
    struct request r = parse_head(input, end);
    out[0] = '\0';
    if (strncmp(input, "GET /report ", 12) == 0) {
        write_report(&s->figures, out, size);
    } else if (strncmp(input, "GET /when/", 10) == 0) {
        s->watcher = c;
        s->watched_count = strtoull(input + 10, NULL, 10);
        tell_watcher(s);
    } else if (strncmp(input, "GET /reset ", 11) == 0) {
        reset(&s->figures);
        snprintf(out, size, "%s", ok);
    } else {
        count_request(&s->figures, &r);
        tell_watcher(s);
        answer_webhook(s, c, out, size);
    }
    c->body_left = r.body_bytes;
    return (size_t)(end - input) + 4;
}

/* Handle what has come; false when the connection is to be closed. */
static bool handle_input(struct sink *s, struct connection *c)
{
    size_t used = 0;
    char out[1024];

    while (used < c->count) {
        if (c->body_left > 0) {
            size_t n = c->count - used < c->body_left ? c->count - used : c->body_left;
            c->body_left -= n;
            used += n;
            continue;
        }
        size_t head_bytes = handle_one(s, c, c->input + used, out, sizeof(out));
        if (head_bytes == 0)
            break;
        used += head_bytes;
        if (out[0] != '\0' && send(c->fd, out, strlen(out), MSG_NOSIGNAL) < 0)
            return false;
    }
    memmove(c->input, c->input + used, c->count - used);
    c->count -= used;
    c->input[c->count] = '\0';
    return c->count < INPUT_MAX - 1;
}

static void end_waiting(struct sink *s, struct connection *c)
{
    if (c->answer_us == 0)
        return;
    c->answer_us = 0;
    TAILQ_REMOVE(&s->waiting, c, link);
    s->figures.in_flight--;
}

static void serve(struct sink *s, struct connection *c)
{
    ssize_t n = recv(c->fd, c->input + c->count, INPUT_MAX - 1 - c->count, 0);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0) {
        c->count += (size_t)n;
        c->input[c->count] = '\0';
        if (handle_input(s, c))
            return;
    }
    end_waiting(s, c);
    if (s->watcher == c)
        s->watcher = NULL;
    close(c->fd);
    free(c);
}

/* Send the answers whose time has come; returns the ms until the next one, -1 when none waits. */
static int answer_due(struct sink *s)
{
    struct connection *c;

    while ((c = TAILQ_FIRST(&s->waiting)) != NULL) {
        int64_t left_us = c->answer_us - now_us();
        if (left_us > 0)
            return (int)(left_us / 1000) + 1;
        end_waiting(s, c);
        if (send(c->fd, ok, strlen(ok), MSG_NOSIGNAL) < 0)
            shutdown(c->fd, SHUT_RDWR); /* the loop sees its end */
    }
    return -1;
}

static void accept_one(struct sink *s, int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c = fd < 0 ? NULL : malloc(sizeof(*c));

    if (!c)
        return;
    c->fd = fd;
    c->answer_us = 0;
    c->count = c->body_left = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        perror("sink");
        exit(1);
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* A connection is a descriptor: as many as the machine lets us have. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    static struct sink s;
    int listen_fd = listen_anywhere();
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = NULL};

    s.delay_us = argc > 1 ? strtol(argv[1], NULL, 10) * 1000 : 0;
    s.figures.ids = calloc(IDS_SLOTS, sizeof(*s.figures.ids));
    s.figures.steps = calloc(STEPS, sizeof(*s.figures.steps));
    TAILQ_INIT(&s.waiting);
    s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    allow_descriptors();
    if (!s.figures.ids || !s.figures.steps || s.epoll_fd < 0 ||
        epoll_ctl(s.epoll_fd, EPOLL_CTL_ADD, listen_fd, &listening) != 0)
        return 1;
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int n = epoll_wait(s.epoll_fd, events, EVENTS_MAX, answer_due(&s));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                serve(&s, events[i].data.ptr);
            else
                accept_one(&s, listen_fd);
        }
    }
}
