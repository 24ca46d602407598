#include "conf/textfile_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void explain(int error, struct buf *why)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        buf_puts(why, "does not exist");
        return;
    case EACCES:
    case EPERM:
        buf_puts(why, "may not be read by this user");
        return;
    case EISDIR:
        buf_puts(why, "is a folder");
        return;
    default:
        buf_printf(why, "cannot be read (errno %d)", error);
        return;
    }
}

/* Returns 0 or an errno. */
static int read_all(int fd, struct buf *out)
{
    char chunk[4096];
    ssize_t n = 0;

    for (;;) {
        n = read(fd, chunk, sizeof(chunk));
        if (n > 0)
            buf_append(out, chunk, (size_t)n);
        else if (n == 0 || errno != EINTR)
            break;
        if (buf_status(out) != ERR_OK)
            break;
    }
    explicit_bzero(chunk, sizeof(chunk)); /* it may have been a secret */
    return n == -1 ? errno : 0;
}

enum err textfile_read(const char *path, struct buf *out, struct buf *why)
{
    enum err err = ERR_INVALID;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd == -1 ? errno : read_all(fd, out);

    if (error != 0) {
        explain(error, why);
        goto out;
    }
    if (buf_status(out) != ERR_OK) {
        buf_printf(why, "is over %zu bytes", out->max);
        goto out;
    }
    if (out->len > 0 && memchr(out->data, '\0', out->len)) {
        buf_puts(why, "holds a NUL byte");
        goto out;
    }
    err = ERR_OK;
out:
    if (fd != -1)
        (void)close(fd);
    return err;
}
