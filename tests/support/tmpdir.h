#ifndef SUPPORT_TMPDIR_H
#define SUPPORT_TMPDIR_H

/* A folder of its own for one test, short enough to hold unix sockets. */

/* Gives the path; end it with tmpdir_destroy(). Fails the test when it cannot be made. */
char *tmpdir_create(void);

/* Removes the folder with all that is in it, and frees the path. NULL-safe. */
void tmpdir_destroy(char **path);

/* Gives `dir`/`name`; free(). */
char *tmpdir_path(const char *dir, const char *name);

/* Write `text` to the file `dir`/`name`; gives its path; free(). */
char *tmpdir_write(const char *dir, const char *name, const char *text);

#endif
