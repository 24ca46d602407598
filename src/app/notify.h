#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What the service manager is told, so that `systemctl start` returns when the gateway is ready and `systemctl status`
 * says what it waits for: the protocol of sd_notify(3), one datagram to the socket that $NOTIFY_SOCKET names. */
struct notify {
    struct sockaddr_un address;
    socklen_t address_bytes; /* 0: nobody wants to know, and nothing is sent */
    int64_t began_mono_ms;
    bool is_started; /* the manager takes the start for done */
};

/* The start is not held up for longer by a Redis that is away: the gateway lives, and waits for it by itself. */
#define NOTIFY_PATIENCE_MS 30000

/* `socket` is the value of $NOTIFY_SOCKET: a path, or @NAME for an abstract one; NULL or empty for none. */
void notify_begin(struct notify *n, const char *socket, int64_t now_mono_ms);

/* Whether tasks are accepted and delivered; to be called until they are. */
void notify_progress(struct notify *n, bool is_ready, int64_t now_mono_ms);

/* The end begins, and may take this long. */
void notify_stopping(const struct notify *n, int64_t at_most_ms);

#endif
