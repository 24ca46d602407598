#include "base/process.h"
#include "base/clock.h"
#include "base/parse.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define STAT_SIZE 1024
#define FIELD_START_TIME 22 /* of /proc/self/stat, counted from 1 */

/* A file of /proc as text; false when it cannot be read. */
static bool read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

    if (fd >= 0)
        (void)close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The n-th word from 1, as a number; -1 when there is none. */
static int64_t word(const char *s, int n)
{
    int64_t value = -1;

    for (int i = 1; i < n; i++) {
        s += strcspn(s, " ");
        s += strspn(s, " ");
    }
    return parse_int64(s, strcspn(s, " \n"), &value) ? value : -1;
}

static void read_memory(struct process_usage *out)
{
    char text[STAT_SIZE];
    int64_t page_bytes = sysconf(_SC_PAGESIZE);

    out->resident_bytes = -1;
    out->virtual_bytes = -1;
    if (!read_text("/proc/self/statm", text, sizeof(text)))
        return;
    out->virtual_bytes = word(text, 1) * page_bytes;
    out->resident_bytes = word(text, 2) * page_bytes;
}

/* Since Linux 6.2 the size of the folder is their number; before, they are counted one by one. */
static int64_t count_fds(void)
{
    struct stat folder;
    int64_t count = -3; /* ".", ".." and the one that reads */

    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return folder.st_size;
    DIR *dir = opendir("/proc/self/fd");

    if (!dir)
        return -1;
    while (readdir(dir)) /* NOLINT(concurrency-mt-unsafe): nobody else reads from this one */
        count++;
    (void)closedir(dir);
    return count;
}

/* Boot time plus the clock ticks from there to the start of the process. */
static double started_at_s(void)
{
    char text[STAT_SIZE];
    const char *after_name = NULL;
    int64_t since_boot_ms = clock_mono_ms();
    int64_t ticks = -1;

    if (read_text("/proc/self/stat", text, sizeof(text)))
        after_name = strrchr(text, ')'); /* the name may hold anything */
    if (after_name && after_name[1] == ' ')
        ticks = word(after_name + 2, FIELD_START_TIME - 2);
    if (ticks < 0)
        return 0;
    return (double)(clock_wall_ms() - since_boot_ms) / 1e3 + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void process_read_usage(struct process_usage *out)
{
    struct rusage usage = {0};
    struct rlimit limit = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    read_memory(out);
    out->open_fds = count_fds();
    out->max_fds = (int64_t)limit.rlim_cur;
    out->cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    out->started_at_s = started_at_s();
}
