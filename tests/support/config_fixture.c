#include "config_fixture.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEMS_MAX 16
#define FOLDER_TEMPLATE "/tmp/duepost-test-XXXXXX"

struct config config_fixture;
struct buf config_fixture_faults;
char config_fixture_folder[sizeof(FOLDER_TEMPLATE)];
static char paths[ITEMS_MAX][64];
static int path_count;

void config_fixture_set_up(void)
{
    buf_init(&config_fixture_faults, 1 << 20);
    buf_puts(&config_fixture_faults, "");
    memcpy(config_fixture_folder, FOLDER_TEMPLATE, sizeof(config_fixture_folder));
    cr_assert_not_null(mkdtemp(config_fixture_folder));
}

void config_fixture_tear_down(void)
{
    config_deinit(&config_fixture);
    buf_deinit(&config_fixture_faults);
    while (path_count > 0)
        (void)unlink(paths[--path_count]);
    (void)rmdir(config_fixture_folder);
}

const char *config_fixture_file_with(const char *text)
{
    char *path = paths[path_count];
    FILE *f = NULL;

    cr_assert_lt(path_count, ITEMS_MAX);
    (void)snprintf(path, sizeof(paths[0]), "%s/%d", config_fixture_folder, path_count++);
    f = fopen(path, "w");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(text, 1, strlen(text), f), strlen(text));
    cr_assert_eq(fclose(f), 0);
    return path;
}

enum err config_fixture_load(const char *const *args, const char *const *env)
{
    char *argv[ITEMS_MAX] = {NULL};
    char *environment[ITEMS_MAX] = {NULL};
    int argc = 0;
    enum err err = ERR_OK;

    for (; args[argc]; argc++)
        argv[argc] = strdup(args[argc]);
    for (int i = 0; env[i]; i++)
        environment[i] = strdup(env[i]);
    config_deinit(&config_fixture);
    buf_clear(&config_fixture_faults);
    err = config_load(argc, argv, environment, &config_fixture, &config_fixture_faults);
    for (int i = 0; i < ITEMS_MAX; i++) { /* nothing may be borrowed from them after loading */
        free(argv[i]);
        free(environment[i]);
    }
    return err;
}

void config_fixture_expect_ok(const char *const *args, const char *const *env)
{
    cr_assert_eq(config_fixture_load(args, env), ERR_OK, "%s", config_fixture_faults.data);
    cr_expect_eq(config_fixture_faults.len, 0);
}

void config_fixture_expect_faults(const char *const *args, const char *const *env, const char *lines)
{
    cr_expect_eq(config_fixture_load(args, env), ERR_INVALID, "accepted, wanted: %s", lines);
    cr_expect_str_eq(config_fixture_faults.data, lines);
    cr_expect_null(config_fixture.listen, "on an error the struct is empty");
}

void config_fixture_expect_refused(const char *flag, const char *value, const char *reason)
{
    char *line = NULL;

    cr_assert_gt(asprintf(&line, "%s: \"%s\" %s\n", flag, value, reason), 0);
    config_fixture_expect_faults(WORDS(flag, value), NO_WORDS, line);
    free(line);
}
