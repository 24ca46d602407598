/* For LD_PRELOAD: a wall clock that the test steps. CLOCK_STEP_FILE names a file that holds one int64_t, the
 * microseconds that are added to the true time; the test writes it. The monotonic clock is true. Programs that ask libc
 * for the time are deceived, as redis-server is. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *step_us; /* NULL: none */

__attribute__((constructor)) static void map_step(void)
{
    const char *path = getenv("CLOCK_STEP_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (at != MAP_FAILED)
        step_us = at;
    if (fd >= 0)
        close(fd);
}

/* The kernel is asked itself: libc's functions are the ones replaced here. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    long rc = syscall(SYS_clock_gettime, clock, out);

    if (rc == 0 && step_us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t us = (int64_t)out->tv_sec * 1000000 + out->tv_nsec / 1000 + *step_us;
        out->tv_nsec = us % 1000000 * 1000 + out->tv_nsec % 1000;
        out->tv_sec = us / 1000000;
    }
    return (int)rc;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec t;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0)
        return -1;
    *out = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec t;

    if (clock_gettime(CLOCK_REALTIME, &t) != 0)
        return -1;
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}
