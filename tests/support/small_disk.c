#include "small_disk.h"
#include "tmpdir.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

struct small_disk {
    char *dir, *ballast;
};

struct small_disk *small_disk_create(void)
{
    struct small_disk *d;
    char *dir;

    if (unshare(CLONE_NEWNS) != 0)
        return NULL;
    dir = tmpdir_create();
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("tmpfs", dir, "tmpfs", 0, "size=8m") != 0) {
        tmpdir_destroy(&dir);
        return NULL;
    }
    d = calloc(1, sizeof(*d));
    cr_assert_not_null(d);
    d->dir = dir;
    d->ballast = tmpdir_path(dir, "ballast");
    return d;
}

void small_disk_destroy(struct small_disk **d)
{
    if (!*d)
        return;
    (void)umount2((*d)->dir, MNT_DETACH);
    tmpdir_destroy(&(*d)->dir);
    free((*d)->ballast);
    free(*d);
    *d = NULL;
}

const char *small_disk_dir(const struct small_disk *d)
{
    return d->dir;
}

void small_disk_fill(struct small_disk *d)
{
    static const char block[4096] = {0};
    int fd = open(d->ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ssize_t n;

    cr_assert_neq(fd, -1);
    while ((n = write(fd, block, sizeof(block))) > 0)
        ;
    cr_assert(n == -1 && errno == ENOSPC, "the small disk is not full");
    close(fd);
}

void small_disk_clear(struct small_disk *d)
{
    cr_assert_eq(unlink(d->ballast), 0);
}
