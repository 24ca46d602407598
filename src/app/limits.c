#include "app/limits.h"

#include "base/log.h"

#include <sys/resource.h>

#define CONNECTIONS_WANTED 8192
#define CONNECTIONS_MIN 16
#define CONNECTIONS_SHARE 8 /* of the descriptors, at least */
#define CONCURRENCY_MIN 1
#define OWN_DESCRIPTORS 96       /* logs, sockets to Redis, epoll and event descriptors of all threads */
#define DESCRIPTORS_A_DELIVERY 3 /* its connection, an idle one kept for reuse, one for a name lookup */

static long raise_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == -1)
        return 1024;
    r.rlim_cur = r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) == -1 && getrlimit(RLIMIT_NOFILE, &r) == -1)
        return 1024;
    return r.rlim_cur > 1 << 20 ? 1 << 20 : (long)r.rlim_cur;
}

struct app_limits app_limits_fit(int concurrency)
{
    struct app_limits limits = {.connections = CONNECTIONS_WANTED, .concurrency = concurrency};
    long left = raise_limit() - OWN_DESCRIPTORS;
    long wanted = CONNECTIONS_WANTED + (long)concurrency * DESCRIPTORS_A_DELIVERY;

    if (left >= wanted)
        return limits;
    /* API connections give way first, down to an eighth of what there is; then deliveries. */
    limits.connections = (int)(left - (long)concurrency * DESCRIPTORS_A_DELIVERY);
    if (limits.connections < left / CONNECTIONS_SHARE)
        limits.connections = (int)(left / CONNECTIONS_SHARE);
    if (limits.connections < CONNECTIONS_MIN)
        limits.connections = CONNECTIONS_MIN;
    if (limits.concurrency > (left - limits.connections) / DESCRIPTORS_A_DELIVERY)
        limits.concurrency = (int)((left - limits.connections) / DESCRIPTORS_A_DELIVERY);
    if (limits.concurrency < CONCURRENCY_MIN)
        limits.concurrency = CONCURRENCY_MIN;
    LOG_WARN("limits.descriptors", "descriptors=%ld wanted=%ld connections=%d concurrency=%d", left + OWN_DESCRIPTORS,
             wanted + OWN_DESCRIPTORS, limits.connections, limits.concurrency);
    return limits;
}
