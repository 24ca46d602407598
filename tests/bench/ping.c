/* How long Redis keeps another client waiting: a PING each millisecond for so many seconds, or until SIGTERM.
 *
 *   ping SOCKET SECONDS
 *
 * Open loop: a PING goes out each millisecond whether the earlier ones are answered or not, so a long call shows in all
 * that met it. Prints {"pings", "p50", "p99", "max"}: ms from a PING to its answer. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EVERY_US 1000

static volatile sig_atomic_t is_over;

static void end(int signal)
{
    (void)signal;
    is_over = 1;
}

static int64_t mono_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        perror("ping");
        exit(1);
    }
    return fd;
}

struct pings {
    size_t sent, answered, room;
    int64_t *us; /* of each: when it was sent, then how long it took */
    size_t answer_bytes;
};

static void send_one(struct pings *p, int fd)
{
    p->us[p->sent++] = mono_us();
    if (write(fd, "PING\r\n", 6) != 6)
        exit(1);
}

static void read_answers(struct pings *p, int fd)
{
    char pongs[7 * 512];
    ssize_t n = read(fd, pongs, sizeof(pongs));

    if (n <= 0)
        exit(1);
    p->answer_bytes += (size_t)n;
    for (; p->answered < p->answer_bytes / 7; p->answered++)
        p->us[p->answered] = mono_us() - p->us[p->answered];
}

static void run(struct pings *p, int fd)
{
    int64_t next_us = mono_us();

    while ((!is_over && p->sent < p->room) || p->answered < p->sent) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_us = next_us - mono_us();
        if (left_us <= 0 && !is_over && p->sent < p->room) {
            send_one(p, fd);
            next_us += EVERY_US;
            continue;
        }
        struct timespec wait = {.tv_nsec = left_us > 0 ? left_us * 1000 : EVERY_US * 1000};
        if (ppoll(&ready, 1, &wait, NULL) > 0)
            read_answers(p, fd);
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct pings p = {.room = (size_t)strtoul(argv[2], NULL, 10) * 1000000 / EVERY_US};
    int fd = connect_to(argv[1]);

    p.us = calloc(p.room + 1, sizeof(*p.us));
    signal(SIGTERM, end);
    if (!p.us)
        return 1;
    run(&p, fd);
    if (p.answered == 0)
        return 1;
    qsort(p.us, p.answered, sizeof(*p.us), compare);
    printf("{\"pings\":%zu,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}\n", p.answered,
           (double)p.us[p.answered / 2] / 1000.0, (double)p.us[p.answered * 99 / 100] / 1000.0,
           (double)p.us[p.answered - 1] / 1000.0);
    return 0;
}
