#include "receive/options_priv.h"
#include "base/buf.h"
#include "base/parse.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The flags and secrets of `duepost receive`.
 *
 * It is started by hand beside a gateway, so it takes its secrets from the same variables, but has flags of its own and
 * not the gateway's table: none of those settings means anything here. As there, all faults are told in one go, and a
 * secret is never shown, only its place in the list. */

#define SECRET_FILE_MAX_BYTES ((size_t)64 * 1024)
#define USAGE                                                                                      \
    "usage: duepost receive [--listen HOST:PORT] [--secret-file FILE] [--status CODE] [--quiet]\n" \
    "       secrets also come from DUEPOST_SIGNING_SECRET or DUEPOST_SIGNING_SECRET_FILE\n"

static enum err fault(const char *name, const char *value, const char *why)
{
    (void)fprintf(stderr, "duepost receive: %s \"%s\": %s\n", name, value, why);
    return ERR_INVALID;
}

/* "127.0.0.1:9000", "localhost:9000", "[::1]:9000". */
static enum err read_listen(struct receive_options *o)
{
    const char *colon = strrchr(o->listen, ':');
    const char *host = o->listen;
    int64_t port = 0;
    size_t n = 0;

    if (colon == NULL || !parse_int64(colon + 1, strlen(colon + 1), &port) || port < 0 || port > 65535)
        return fault("--listen", o->listen, "must be HOST:PORT with a port from 0 to 65535");
    n = (size_t)(colon - host);
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    } else if (memchr(host, ':', n) != NULL) {
        return fault("--listen", o->listen, "an IPv6 address needs brackets: [::1]:9000");
    }
    if (n == 0 || n >= sizeof(o->host))
        return fault("--listen", o->listen, "the host is missing or too long");
    memcpy(o->host, host, n);
    o->host[n] = '\0';
    (void)snprintf(o->port, sizeof(o->port), "%d", (int)port);
    return ERR_OK;
}

static enum err read_status(struct receive_options *o, const char *value)
{
    int64_t status = 0;

    if (!parse_int64(value, strlen(value), &status) || status < 200 || status > 599)
        return fault("--status", value, "must be a number from 200 to 599");
    o->status = (int)status;
    return ERR_OK;
}

static enum err read_secrets(struct receive_options *o, const char *name, const char *text)
{
    size_t bad = 0;

    if (signature_secrets_parse(text, &o->secrets, &bad) == ERR_OK)
        return ERR_OK;
    (void)fprintf(stderr, "duepost receive: %s: secret %zu is not whsec_ and the base64 of 24 to 64 bytes\n", name,
                  bad);
    return ERR_INVALID;
}

static enum err read_secret_file(struct receive_options *o, const char *name, const char *path)
{
    FILE *file = fopen(path, "re");
    enum err err = ERR_OK;
    struct buf text;
    char chunk[4096];
    size_t n = 0;

    if (file == NULL)
        return fault(name, path, errno == ENOENT ? "does not exist" : "cannot be read");
    buf_init(&text, SECRET_FILE_MAX_BYTES);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_append(&text, chunk, n);
    if (ferror(file) != 0 || buf_status(&text) != ERR_OK || (text.len > 0 && memchr(text.data, '\0', text.len) != NULL))
        err = fault(name, path, "is not a readable text of at most 64 KiB");
    else
        err = read_secrets(o, path, text.data != NULL ? text.data : "");
    if (text.data != NULL)
        explicit_bzero(text.data, text.len);
    explicit_bzero(chunk, sizeof(chunk));
    buf_deinit(&text);
    (void)fclose(file);
    return err;
}

/* An empty variable counts as unset. */
static const char *environment(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): before the first thread */

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static enum err find_secrets(struct receive_options *o, const char *file_flag)
{
    const char *text = environment("DUEPOST_SIGNING_SECRET");
    const char *file = environment("DUEPOST_SIGNING_SECRET_FILE");

    if (file_flag != NULL)
        return read_secret_file(o, "--secret-file", file_flag);
    if (text != NULL)
        return read_secrets(o, "DUEPOST_SIGNING_SECRET", text);
    return file != NULL ? read_secret_file(o, "DUEPOST_SIGNING_SECRET_FILE", file) : ERR_OK;
}

/* A flag with a value, and where the value goes. */
struct flag {
    const char *name;
    const char **value;
};

/* Read argv[i] as "--name VALUE" or "--name=VALUE". How many words it took; 0 when it is another flag. */
static int read_flag(const struct flag *flag, int left, char **words)
{
    size_t n = strlen(flag->name);

    if (strncmp(words[0], flag->name, n) != 0)
        return 0;
    if (words[0][n] == '=') {
        *flag->value = words[0] + n + 1;
        return 1;
    }
    if (words[0][n] != '\0')
        return 0;
    *flag->value = left > 1 ? words[1] : "";
    return 2;
}

enum err receive_options_read(int argc, char **argv, struct receive_options *out)
{
    const char *secret_file = NULL, *status = "200";
    const struct flag flags[] = {{"--listen", &out->listen}, {"--secret-file", &secret_file}, {"--status", &status}};
    bool is_wrong = false;

    *out = (struct receive_options){.listen = "127.0.0.1:9000"};
    for (int i = 0; i < argc;) {
        int taken = strcmp(argv[i], "--quiet") == 0;
        out->is_quiet |= taken == 1;
        for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]) && taken == 0; k++)
            taken = read_flag(&flags[k], argc - i, &argv[i]);
        if (taken == 0)
            is_wrong |= fault("flag", argv[i], "is unknown") != ERR_OK;
        i += taken > 0 ? taken : 1;
    }
    is_wrong |= read_listen(out) != ERR_OK;
    is_wrong |= read_status(out, status) != ERR_OK;
    is_wrong |= find_secrets(out, secret_file) != ERR_OK;
    if (!is_wrong)
        return ERR_OK;
    (void)fputs(USAGE, stderr);
    receive_options_deinit(out);
    return ERR_INVALID;
}

void receive_options_deinit(struct receive_options *o)
{
    signature_secrets_deinit(&o->secrets);
}
