#include "app/notify.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void set_address(struct notify *n, const char *path)
{
    size_t bytes = strlen(path);

    if (bytes >= sizeof n->address.sun_path) {
        LOG_WARN("notify.failed", "detail=%s", log_quote("the path in NOTIFY_SOCKET is too long"));
        return;
    }
    n->address.sun_family = AF_UNIX;
    memcpy(n->address.sun_path, path, bytes);
    if (path[0] == '@')
        n->address.sun_path[0] = '\0';
    n->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
}

static void tell(const struct notify *n, const char *text)
{
    int fd;

    if (n->address_bytes == 0)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1 ||
        sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&n->address, n->address_bytes) == -1)
        LOG_WARN("notify.failed", "detail=%s", log_quote(strerrordesc_np(errno)));
    if (fd != -1)
        close(fd);
}

void notify_begin(struct notify *n, const char *socket, int64_t now_mono_ms)
{
    *n = (struct notify){.began_mono_ms = now_mono_ms};
    if (socket && socket[0])
        set_address(n, socket);
    tell(n, "STATUS=waiting for Redis");
}

void notify_progress(struct notify *n, bool is_ready, int64_t now_mono_ms)
{
    if (is_ready) {
        tell(n, n->is_started ? "STATUS=ready" : "READY=1\nSTATUS=ready");
        n->is_started = true;
    } else if (!n->is_started && now_mono_ms - n->began_mono_ms >= NOTIFY_PATIENCE_MS) {
        tell(n, "READY=1\nSTATUS=not ready yet: /readyz and the log say why");
        n->is_started = true;
    }
}

void notify_stopping(const struct notify *n, int64_t at_most_ms)
{
    char text[128];

    (void)snprintf(text, sizeof text, "STOPPING=1\nSTATUS=finishing what is in flight\nEXTEND_TIMEOUT_USEC=%" PRId64,
                   at_most_ms * 1000);
    tell(n, text);
}
