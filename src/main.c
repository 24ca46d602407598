#include "app/app.h"
#include "app/healthcheck.h"
#include "base/buf.h"
#include "conf/config.h"
#include "receive/receive.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define TEXT_MAX 65536

static void print_help(void)
{
    struct buf b;

    buf_init(&b, TEXT_MAX);
    config_usage(&b);
    printf("duepost " DUEPOST_VERSION
           " - a delayed-task gateway: POST a task now, it arrives as a webhook when it is due\n\n"
           "usage: duepost [serve] [settings]         start the gateway\n"
           "       duepost receive [--listen H:P] [--status CODE] [--secret-file FILE] [--quiet]\n"
           "                                          a small receiver that prints each webhook\n"
           "       duepost healthcheck [settings]     ask /readyz; exit 0 when the gateway is ready\n"
           "       duepost --print-config [settings]  the settings in force, secrets masked\n"
           "       duepost --help | --version\n\n%s",
           b.data ? b.data : "");
    buf_deinit(&b);
}

static void print_markdown(void)
{
    struct buf b;

    buf_init(&b, TEXT_MAX);
    config_markdown(&b);
    (void)fputs(b.data ? b.data : "", stdout);
    buf_deinit(&b);
}

static int print_config(const struct config *c)
{
    struct buf b;

    buf_init(&b, TEXT_MAX);
    config_print(c, &b);
    puts(b.data ? b.data : "");
    buf_deinit(&b);
    return 0;
}

/* Take a word out of argv; true when it was there. */
static bool take_word(int *argc, char **argv, const char *word)
{
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], word) != 0)
            continue;
        memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof *argv);
        --*argc;
        return true;
    }
    return false;
}

/* The commands that take the settings. */
static int run_with_config(const char *command, int argc, char **argv)
{
    bool must_print = take_word(&argc, argv, "--print-config");
    struct config config;
    struct buf faults;
    int rc = CONFIG_EXIT_CODE;

    buf_init(&faults, TEXT_MAX);
    if (config_load(argc, argv, environ, &config, &faults) != ERR_OK)
        (void)fputs(faults.data ? faults.data : "duepost: wrong settings\n", stderr);
    else if (must_print)
        rc = print_config(&config);
    else if (strcmp(command, "healthcheck") == 0)
        rc = healthcheck_run(config.host, config.port, config.tls_cert != NULL);
    else
        rc = app_run(&config);
    config_deinit(&config);
    buf_deinit(&faults);
    return rc;
}

int main(int argc, char **argv)
{
    const char *command = "serve";

    app_init();
    argc--;
    argv++;
    if (argc > 0 && argv[0][0] != '-') {
        command = argv[0];
        argc--;
        argv++;
    }
    if (take_word(&argc, argv, "--help") || strcmp(command, "help") == 0)
        print_help();
    else if (take_word(&argc, argv, "--version"))
        puts("duepost " DUEPOST_VERSION);
    else if (take_word(&argc, argv, "--help-markdown"))
        print_markdown();
    else if (strcmp(command, "receive") == 0)
        return receive_main(argc, argv);
    else if (strcmp(command, "serve") == 0 || strcmp(command, "healthcheck") == 0)
        return run_with_config(command, argc, argv);
    else {
        (void)fprintf(stderr, "duepost: unknown command \"%s\"; see duepost --help\n", command);
        return CONFIG_EXIT_CODE;
    }
    return 0;
}
