/* Loading the settings.
 *
 * argv and the environment are first sorted by setting, because --config decides what is read before them; then the
 * four sources are applied from weak to strong, each value checked where it stands, and what follows from several
 * settings comes last. Nothing stops at a fault. A flag given twice counts by its last value, so that a wrapper can
 * append its own; a member given twice is a slip and a fault.
 *
 * Secrets have no flag. One that comes along all the same is not repeated in the fault, and neither is the argument
 * behind an unknown flag. */
#include "conf/config.h"
#include "base/log.h"
#include "base/parse.h"
#include "conf/loader_priv.h"
#include "conf/option_priv.h"
#include "conf/value_priv.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_SHOWN 64
#define FAULT_SIZE 2048

/* What came from outside may be cut inside a character, or be no text at all; a fault is one line of UTF-8. */
static void put_clean(struct buf *out, const char *s)
{
    for (size_t n = strlen(s), used = 0; n > 0; s += used, n -= used) {
        unsigned char c = (unsigned char)s[0];

        for (used = 1; used < 4 && used < n && !parse_is_utf8(s, used);)
            used++;
        if (parse_is_utf8(s, used) && c >= ' ' && c != 0x7f) {
            buf_append(out, s, used);
        } else {
            buf_putc(out, '?');
            used = 1;
        }
    }
}

void loader_fault(struct loader *l, const char *where, const char *fmt, ...)
{
    char text[FAULT_SIZE];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_clean(l->faults, where);
    buf_puts(l->faults, ": ");
    put_clean(l->faults, text);
    buf_putc(l->faults, '\n');
}

void loader_set(struct loader *l, size_t index, const char *text, const char *where)
{
    const struct option *o = option_at(index);
    struct buf why;
    struct buf shown;

    buf_init(&why, FAULT_SIZE);
    buf_init(&shown, FAULT_SIZE);
    if (value_set(o, l->config, text, &why) != ERR_OK) {
        value_show(o, text, &shown);
        loader_fault(l, where, "%s %s", shown.data, why.data);
    }
    l->is_given[index] = true;
    buf_deinit(&why);
    buf_deinit(&shown);
}

/* The arguments that follow argv[at] and belong to it: 0 or 1. */
static int collect_flag(struct loader *l, int argc, char **argv, int at)
{
    const char *name = argv[at] + 2;
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    bool is_followed = !value && at + 1 < argc && strncmp(argv[at + 1], "--", 2) != 0;
    size_t index = option_find(name, n);
    char where[NAME_MAX_SHOWN + 3];
    char variable[OPTION_ENV_SIZE];

    (void)snprintf(where, sizeof(where), "--%.*s", (int)(n < NAME_MAX_SHOWN ? n : NAME_MAX_SHOWN), name);
    if (index == OPTION_NONE) {
        loader_fault(l, where, "there is no such flag");
        return is_followed;
    }
    if (option_at(index)->flags & OPTION_NO_FLAG) {
        option_env_name(option_at(index), variable);
        loader_fault(l, where, "a secret is not taken from the command line: use %s or --%s-file", variable,
                     option_at(index)->key);
        return is_followed;
    }
    if (option_at(index)->kind == OPTION_BOOL) {
        l->flags[index] = value ? value : "true";
        return 0;
    }
    if (is_followed)
        value = argv[at + 1];
    if (value)
        l->flags[index] = value;
    else
        loader_fault(l, where, "needs a value");
    l->is_given[index] = true;
    return is_followed;
}

static void collect_flags(struct loader *l, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2])
            i += collect_flag(l, argc, argv, i);
        else
            loader_fault(l, log_quote(argv[i]), "is neither a flag nor the value of one");
    }
}

/* Set by Kubernetes in every container when a service is called duepost. */
static bool is_foreign(const char *name)
{
    return strncmp(name, "DUEPOST_PORT", strlen("DUEPOST_PORT")) == 0 ||
           strncmp(name, "DUEPOST_SERVICE_", strlen("DUEPOST_SERVICE_")) == 0;
}

static void collect_variables(struct loader *l, char **env)
{
    for (char **entry = env; *entry; entry++) {
        size_t n = strcspn(*entry, "=");
        size_t index = OPTION_NONE;

        if (strncmp(*entry, "DUEPOST_", strlen("DUEPOST_")) != 0 || is_foreign(*entry) || (*entry)[n] != '=' ||
            !(*entry)[n + 1])
            continue;
        index = option_find_env(*entry, n);
        if (index == OPTION_NONE) {
            char where[NAME_MAX_SHOWN + 1];

            (void)snprintf(where, sizeof(where), "%.*s", (int)(n < NAME_MAX_SHOWN ? n : NAME_MAX_SHOWN), *entry);
            loader_fault(l, where, "there is no such setting");
        } else if (!l->variables[index]) { /* the first counts, as for getenv() */
            l->variables[index] = *entry + n + 1;
        }
    }
}

static void apply_defaults(struct loader *l)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!option_at(i)->fallback)
            continue;
        loader_set(l, i, option_at(i)->fallback, option_at(i)->key);
        l->is_given[i] = false;
    }
}

static void apply_file(struct loader *l)
{
    size_t index = option_find("config", strlen("config"));
    const char *path = l->flags[index] ? l->flags[index] : l->variables[index];

    if (path && path[0])
        loader_read_file(l, path);
}

static void apply_variables_and_flags(struct loader *l)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char where[OPTION_ENV_SIZE];

        if (l->variables[i]) {
            option_env_name(option_at(i), where);
            loader_set(l, i, l->variables[i], where);
        }
        if (l->flags[i]) {
            (void)snprintf(where, sizeof(where), "--%s", option_at(i)->key);
            loader_set(l, i, l->flags[i], where);
        }
    }
}

enum err config_load(int argc, char **argv, char **env, struct config *out, struct buf *faults)
{
    struct loader l = {.config = out, .faults = faults};
    size_t before = faults->len;

    *out = (struct config){0};
    collect_flags(&l, argc, argv);
    collect_variables(&l, env);
    apply_defaults(&l);
    apply_file(&l);
    apply_variables_and_flags(&l);
    loader_resolve(&l);
    if (faults->len == before && buf_status(faults) == ERR_OK)
        return ERR_OK;
    config_deinit(out);
    return ERR_INVALID;
}

static void wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

static void wipe_list(char **list)
{
    for (char **item = list; item && *item; item++)
        wipe(item);
    free(list);
}

void config_deinit(struct config *c)
{
    wipe_list(c->tokens);
    wipe_list(c->read_tokens);
    wipe(&c->token);
    wipe(&c->read_token);
    wipe(&c->signing_secret);
    wipe(&c->redis);
    wipe(&c->tls_key_pem);
    cidr_list_deinit(&c->allow_net);
    free(c->listen);
    free(c->host);
    free(c->redis_file);
    free(c->data_dir);
    free(c->token_file);
    free(c->read_token_file);
    free(c->signing_secret_file);
    free(c->allow_net_text);
    free(c->prefix);
    free(c->ca_file);
    free(c->tls_cert);
    free(c->tls_key);
    free(c->tls_cert_pem);
    free(c->config_file);
    *c = (struct config){0};
}
