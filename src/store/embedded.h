#ifndef STORE_EMBEDDED_H
#define STORE_EMBEDDED_H

#include "base/err.h"

#include <stdint.h>

/* The private redis-server of `redis = embedded`: on a unix socket inside the data directory, append-only file on,
 * ended with the gateway even when that is killed, started again when it dies alone. Threads: the main thread only,
 * since the kernel's parent-death signal is tied to the thread that forks. */

struct embedded;

#define EMBEDDED_DETAIL_SIZE 256

/* Make the directory when missing, refuse one that another gateway uses, wait for the redis-server of a gateway that
 * was killed to be gone, and start ours. ERR_IO with one sentence in `detail` otherwise. A server that ends after it
 * has made its socket is started again by embedded_poll(), as when it dies later. */
enum err embedded_start(const char *data_dir, struct embedded **out, char detail[EMBEDDED_DETAIL_SIZE]) NODISCARD;

/* The socket's path, good in this process whatever the length of data_dir. Borrowed. */
const char *embedded_socket(const struct embedded *e);

/* After SIGCHLD and every now and then: takes away children that ended, which as process 1 of a container may be
 * anyone's (NULL: only these), and starts the server again when it has died. Returns the time in ms until it wants to
 * be called again, -1 when only SIGCHLD matters. */
int64_t embedded_poll(struct embedded *e);

/* End the server (SIGTERM, after 10 s SIGKILL) and free. */
void embedded_stop(struct embedded **e);

#endif
