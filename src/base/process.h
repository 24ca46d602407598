#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* What the kernel counts of this process, from /proc/self (proc(5)) and getrusage(2). */
struct process_usage {
    int64_t resident_bytes, virtual_bytes; /* -1: not known */
    int64_t open_fds;                      /* -1: not known */
    int64_t max_fds;                       /* the soft limit */
    double cpu_s;                          /* user and system */
    double started_at_s;                   /* Unix time */
};

void process_read_usage(struct process_usage *out);

#endif
