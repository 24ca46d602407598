#include "../support/plain.h"
#include "base/log.h"
#include "base/thread.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Several threads log while the level and the format are changed: lines stay whole, and a limit counts every call. */

#define THREADS 4
#define LINES 3000

static struct log_limit limit;
static atomic_long passes, held_sum;

static void write_lines(void *ctx)
{
    int number = *(int *)ctx;

    for (int i = 0; i < LINES; i++) {
        long held = 0;
        LOG_INFO("test.line", "thread=%d line=%d text=%s", number, i, log_quote("a \"quoted\" text\n"));
        if (log_limit_pass(&limit, 5, &held)) {
            atomic_fetch_add(&passes, 1);
            atomic_fetch_add(&held_sum, held);
        }
    }
}

/* Every line has its end in the same write, whatever its format. */
static bool is_line_whole(const char *line)
{
    size_t n = strlen(line);
    bool is_json = line[0] == '{';

    if (n == 0 || line[n - 1] != '\n' || !strstr(line, "test.line"))
        return false;
    return is_json ? strcmp(line + n - 2, "}\n") == 0 : strstr(line, "text=\"a ") != NULL;
}

int main(void)
{
    char path[] = "/tmp/duepost-tsan-log-XXXXXX", line[4096];
    int fd = mkstemp(path), numbers[THREADS];
    struct thread *threads[THREADS] = {0};
    int lines = 0, bad = 0;
    long rest = 0;

    plain_result(fd != -1 && dup2(fd, STDERR_FILENO) != -1, "a file takes the log");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        plain_result(thread_start("logger", write_lines, &numbers[i], &threads[i]) == ERR_OK, "a thread starts");
    }
    for (int i = 0; i < 2000; i++)
        log_setup(LOG_LEVEL_INFO, i % 2 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
    for (int i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        lines++;
        bad += !is_line_whole(line);
    }
    if (f)
        (void)fclose(f);
    (void)unlink(path);
    plain_result(lines == THREADS * LINES, "no line is lost");
    plain_result(bad == 0, "no line is torn");
    while (!log_limit_pass(&limit, 0, &rest))
        ;
    plain_result(atomic_load(&passes) + atomic_load(&held_sum) + rest >= (long)THREADS * LINES,
                 "a limit counts every call");
    return plain_end();
}
