#include "tmpdir.h"
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tmpdir_create(void)
{
    char *path = strdup("/tmp/duepost-test-XXXXXX");

    cr_assert(path && mkdtemp(path), "no temporary folder");
    return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0; /* what is left over is only untidy */
}

void tmpdir_destroy(char **path)
{
    if (*path)
        (void)nftw(*path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*path);
    *path = NULL;
}

char *tmpdir_path(const char *dir, const char *name)
{
    char *path = NULL;

    cr_assert(asprintf(&path, "%s/%s", dir, name) > 0);
    return path;
}

char *tmpdir_write(const char *dir, const char *name, const char *text)
{
    char *path = tmpdir_path(dir, name);
    FILE *f = fopen(path, "w");

    cr_assert_not_null(f, "cannot write %s", path);
    cr_assert(fputs(text, f) >= 0);
    cr_assert_eq(fclose(f), 0);
    return path;
}
