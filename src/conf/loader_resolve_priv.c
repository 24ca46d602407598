/* What follows from several settings together.
 *
 * A secret has two doors, itself and a file; one of them may be used. A rule across settings is only tested when the
 * settings it looks at are right by themselves, so that one mistake gives one line. */
#include "conf/loader_priv.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/textfile_priv.h"
#include "conf/value_priv.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define SECRET_FILE_MAX ((size_t)64 << 10)
#define PEM_FILE_MAX ((size_t)1 << 20)

static size_t index_of(const char *key)
{
    return option_find(key, strlen(key));
}

static void wipe_buf(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->capacity);
    buf_deinit(b);
}

/* Set `target` to the text in the file, without the line end at its end. */
static void read_secret(struct loader *l, size_t target, const char *path, const char *where)
{
    struct buf text;
    struct buf why;

    buf_init(&text, SECRET_FILE_MAX);
    buf_init(&why, SIZE_MAX - 1);
    if (textfile_read(path, &text, &why) != ERR_OK) {
        loader_fault(l, where, "the file %s %s", log_quote(path), why.data);
        goto out;
    }
    while (text.len > 0 && strchr("\r\n", text.data[text.len - 1]))
        text.data[--text.len] = '\0';
    if (text.len == 0)
        loader_fault(l, where, "the file %s is empty", log_quote(path));
    else if (value_set(option_at(target), l->config, text.data, &why) != ERR_OK)
        loader_fault(l, where, "the text in %s %s", log_quote(path), why.data);
    l->is_given[target] = true;
out:
    wipe_buf(&text);
    buf_deinit(&why);
}

static void resolve_secret(struct loader *l, const char *key, const char *file_key, const char *path)
{
    size_t target = index_of(key);

    if (!path)
        return;
    if (l->is_given[target])
        loader_fault(l, file_key, "cannot be used together with %s: set one of them", key);
    else
        read_secret(l, target, path, file_key);
}

/* Set *out to the text of the file. */
static void read_pem(struct loader *l, const char *key, const char *path, char **out)
{
    struct buf text;
    struct buf why;

    buf_init(&text, PEM_FILE_MAX);
    buf_init(&why, SIZE_MAX - 1);
    if (textfile_read(path, &text, &why) != ERR_OK)
        loader_fault(l, key, "the file %s %s", log_quote(path), why.data);
    else
        *out = xstrndup(text.data ? text.data : "", text.len);
    wipe_buf(&text);
    buf_deinit(&why);
}

static void resolve_tls(struct loader *l)
{
    struct config *c = l->config;

    if (c->tls_cert && !c->tls_key)
        loader_fault(l, "tls-cert", "needs tls-key beside it");
    if (c->tls_key && !c->tls_cert)
        loader_fault(l, "tls-key", "needs tls-cert beside it");
    if (c->tls_cert)
        read_pem(l, "tls-cert", c->tls_cert, &c->tls_cert_pem);
    if (c->tls_key)
        read_pem(l, "tls-key", c->tls_key, &c->tls_key_pem);
}

/* "a, b" becomes {"a", "b", NULL}. */
static char **split(const char *text)
{
    const char *at = text;
    size_t bytes = 0;
    size_t count = 0;
    char **items = xcalloc(1, sizeof(*items));

    for (const char *item = value_next_item(&at, &bytes); item; item = value_next_item(&at, &bytes)) {
        items = xrealloc(items, (count + 2) * sizeof(*items));
        items[count++] = xstrndup(item, bytes);
        items[count] = NULL;
    }
    return items;
}

/* The cores that this process may run on. */
static int64_t count_cores(void)
{
    cpu_set_t set;
    int64_t max = option_at(index_of("threads"))->max;
    int64_t count = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > max ? max : count;
}

/* What was checked as text before, so nothing here can fail. */
static void take_apart(struct config *c)
{
    const char *host = NULL;
    const char *bad = NULL;
    size_t bytes = 0;
    struct buf why;

    buf_init(&why, SIZE_MAX - 1);
    if (value_split_listen(c->listen, &host, &bytes, &c->port, &why) == ERR_OK)
        c->host = xstrndup(host, bytes);
    buf_deinit(&why);
    if (c->allow_net_text && cidr_list_parse(c->allow_net_text, &c->allow_net, &bad, &bytes) != ERR_OK)
        abort();
    if (c->token)
        c->tokens = split(c->token);
    if (c->read_token)
        c->read_tokens = split(c->read_token);
    if (c->threads == 0)
        c->threads = count_cores();
}

static bool is_loopback(const char *host)
{
    struct netaddr a;

    if (netaddr_parse(host, strlen(host), &a))
        return netaddr_is_loopback(&a);
    return strcasecmp(host, "localhost") == 0;
}

static void check_open_door(struct loader *l)
{
    const struct config *c = l->config;

    if (c->no_auth || l->is_given[index_of("token")] || l->is_given[index_of("token-file")] || is_loopback(c->host))
        return;
    loader_fault(l, "listen",
                 "%s is not a loopback address and no token is set: set DUEPOST_TOKEN or token-file, or give --no-auth "
                 "to let everyone in",
                 log_quote(c->listen));
}

/* Without a token everything is open to everyone, and a token of both kinds would leave open what it may do. */
static void check_read_tokens(struct loader *l)
{
    const struct config *c = l->config;

    if (!c->read_tokens)
        return;
    if (!l->is_given[index_of("token")] && !l->is_given[index_of("token-file")])
        loader_fault(l, "read-token", "limits nothing while no token is set: set DUEPOST_TOKEN or token-file too");
    for (char **read = c->read_tokens; *read; read++) {
        for (char **token = c->tokens; token && *token; token++) {
            if (strcmp(*read, *token) == 0) {
                loader_fault(l, "read-token", "holds a token that token holds too");
                return;
            }
        }
    }
}

static void check_ca_file(struct loader *l)
{
    const char *path = l->config->ca_file;

    if (path && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == -1)
        loader_fault(l, "ca-file", "the file %s does not exist or may not be read", log_quote(path));
}

void loader_resolve(struct loader *l)
{
    struct config *c = l->config;

    resolve_secret(l, "token", "token-file", c->token_file);
    resolve_secret(l, "read-token", "read-token-file", c->read_token_file);
    resolve_secret(l, "signing-secret", "signing-secret-file", c->signing_secret_file);
    resolve_secret(l, "redis", "redis-file", c->redis_file);
    resolve_tls(l);
    take_apart(c);
    check_open_door(l);
    check_read_tokens(l);
    check_ca_file(l);
}
