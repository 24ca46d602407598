#include "store/redis_opts.h"

#include "base/mem.h"
#include "base/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT 6379
#define DB_MAX 1000000

static enum err fault(char *detail, const char *text)
{
    (void)snprintf(detail, REDIS_OPTS_DETAIL_SIZE, "%s", text);
    return ERR_INVALID;
}

/* Percent-decode user info (RFC 3986): passwords may hold '@' and ':'. NULL for a bad escape or a NUL. */
static char *decode(const char *s, size_t n)
{
    char *out = xcalloc(n + 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%') {
            char hex[3] = {0};
            memcpy(hex, s + i + 1, n - i - 1 < 2 ? n - i - 1 : 2);
            c = (char)strtol(hex, NULL, 16);
            if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]) || c == '\0') {
                free(out);
                return NULL;
            }
            i += 2;
        }
        out[len++] = c;
    }
    return out;
}

/* user:password, or :password. */
static enum err parse_user_info(const char *s, size_t n, struct redis_opts *out, char *detail)
{
    const char *colon = memchr(s, ':', n);

    if (!colon)
        return fault(detail, "the part before '@' must be user:password or :password");
    if (colon > s) {
        out->username = decode(s, (size_t)(colon - s));
        if (!out->username)
            return fault(detail, "the user name has a bad percent escape");
    }
    out->password = decode(colon + 1, n - (size_t)(colon - s) - 1);
    if (!out->password)
        return fault(detail, "the password has a bad percent escape");
    return ERR_OK;
}

static enum err parse_host_port(const char *s, size_t n, struct redis_opts *out, char *detail)
{
    const char *port = NULL;
    const char *host_end = s + n;
    int64_t value = PORT_DEFAULT;

    if (n > 0 && s[0] == '[') {
        const char *close = memchr(s, ']', n);
        if (!close)
            return fault(detail, "the IPv6 address lacks its ']'");
        out->host = xstrndup(s + 1, (size_t)(close - s) - 1);
        if (close + 1 < s + n)
            port = close + 1;
    } else {
        port = memchr(s, ':', n);
        if (port)
            host_end = port;
        out->host = xstrndup(s, (size_t)(host_end - s));
    }
    if (out->host[0] == '\0')
        return fault(detail, "the host is empty");
    if (port &&
        (*port != ':' || !parse_int64(port + 1, (size_t)(s + n - port) - 1, &value) || value < 1 || value > 65535))
        return fault(detail, "the port must be a number from 1 to 65535");
    out->port = (int)value;
    return ERR_OK;
}

static enum err parse_tcp(const char *rest, struct redis_opts *out, char *detail)
{
    enum err err;
    int64_t db = 0;
    const char *slash = strchr(rest, '/');
    const char *end = slash ? slash : rest + strlen(rest);
    const char *at = memrchr(rest, '@', (size_t)(end - rest));

    if (at) {
        err = parse_user_info(rest, (size_t)(at - rest), out, detail);
        if (err != ERR_OK)
            return err;
        rest = at + 1;
    }
    err = parse_host_port(rest, (size_t)(end - rest), out, detail);
    if (err != ERR_OK)
        return err;
    if (slash && slash[1] != '\0' && (!parse_int64(slash + 1, strlen(slash + 1), &db) || db < 0 || db > DB_MAX))
        return fault(detail, "the database after '/' must be a number");
    out->db = (int)db;
    return ERR_OK;
}

enum err redis_opts_parse(const char *url, struct redis_opts *out, char detail[REDIS_OPTS_DETAIL_SIZE])
{
    enum err err;

    out->host = out->socket_path = out->username = out->password = NULL;
    out->port = out->db = 0;
    if (strncmp(url, "redis://", 8) == 0) {
        err = parse_tcp(url + 8, out, detail);
    } else if (strncmp(url, "unix://", 7) == 0 && url[7] == '/') {
        out->socket_path = xstrdup(url + 7);
        err = ERR_OK;
    } else {
        err = fault(detail, "must be embedded, redis://[user:pass@]host:port[/db] or unix:///path");
    }
    if (err != ERR_OK)
        redis_opts_deinit(out);
    return err;
}

void redis_opts_deinit(struct redis_opts *o)
{
    free(o->host);
    free(o->socket_path);
    free(o->username);
    if (o->password)
        explicit_bzero(o->password, strlen(o->password));
    free(o->password);
    o->host = o->socket_path = o->username = o->password = NULL;
}
