#include "manager.h"

#include "tmpdir.h"
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct manager {
    char *dir;
    char *path;
    int fd;
    char text[256];
};

struct manager *manager_create(bool is_abstract)
{
    struct manager *m = calloc(1, sizeof *m);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t bytes;

    cr_assert_not_null(m);
    m->dir = tmpdir_create();
    m->path = tmpdir_path(m->dir, "manager");
    if (is_abstract)
        m->path[0] = '@';
    bytes = strlen(m->path);
    memcpy(address.sun_path, m->path, bytes);
    if (is_abstract)
        address.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(
        bind(m->fd, (const struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)), 0,
        "no socket %s", m->path);
    return m;
}

void manager_destroy(struct manager **m)
{
    if (!*m)
        return;
    close((*m)->fd);
    tmpdir_destroy(&(*m)->dir);
    free((*m)->path);
    free(*m);
    *m = NULL;
}

const char *manager_address(const struct manager *m)
{
    return m->path;
}

const char *manager_told(struct manager *m)
{
    ssize_t bytes = recv(m->fd, m->text, sizeof m->text - 1, 0);

    m->text[bytes > 0 ? bytes : 0] = '\0';
    return m->text;
}
