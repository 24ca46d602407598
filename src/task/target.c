#include "task/target.h"

#include "base/mem.h"
#include "task/task.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <curl/urlapi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* One parser decides about a URL: libcurl's, which also dials. Whatever libcurl accepts but another parser could read
 * differently (user info, backslashes, one or three slashes, percent-encoding in the host) is refused before, so what
 * is checked here, what an operator reads and what is dialled are the same host.
 *
 * Addresses are checked here only as far as the text alone is certain: literals in every spelling that libcurl or the
 * resolver understands, and localhost. This is a courtesy, so that a mistake is a 400 at once; the check that protects
 * is made on the connected address, on every attempt. */

#define HOST_NAME_MAX_BYTES 253
#define ALLOW_NET_HINT "the setting allow-net can allow its network"

/* The parts of a URL that decide where it leads. */
struct parts {
    CURLU *handle;
    char *host; /* as libcurl normalised it, IPv6 in brackets */
    char *port; /* NULL when none is given */
};

static bool refuse(char detail[TARGET_DETAIL_SIZE], const char *why)
{
    (void)snprintf(detail, TARGET_DETAIL_SIZE, "%s", why);
    return false;
}

static bool check_bytes(const char *url, size_t n, char detail[TARGET_DETAIL_SIZE])
{
    if (n == 0)
        return refuse(detail, "must not be empty");
    if (n > TASK_URL_MAX) {
        (void)snprintf(detail, TARGET_DETAIL_SIZE, "must be at most %d bytes", TASK_URL_MAX);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)url[i];

        if (c <= 0x20 || c == 0x7f)
            return refuse(detail, "must not hold blanks or control characters");
        if (c > 0x7f)
            return refuse(detail, "must be ASCII: write names in punycode and other characters percent-encoded");
        if (c == '\\')
            return refuse(detail, "must not hold backslashes");
    }
    return true;
}

/* The authority's text must mean the same to every parser. `url` is NUL-terminated. */
static bool check_authority(const char *url, char detail[TARGET_DETAIL_SIZE])
{
    const char *authority = NULL;

    if (strncasecmp(url, "http://", 7) == 0)
        authority = url + 7;
    else if (strncasecmp(url, "https://", 8) == 0)
        authority = url + 8;
    if (!authority)
        return refuse(detail, "must begin with http:// or https://");

    /* '#' does not end it here: in "http://a#@b/" some parsers see the host b. */
    size_t n = strcspn(authority, "/?");

    if (memchr(authority, '@', n))
        return refuse(detail, "must not hold a user name or password");
    n = strcspn(authority, "/?#");
    if (n == 0)
        return refuse(detail, "must have a host");
    if (memchr(authority, '%', n))
        return refuse(detail, "must not have percent-encoding or a zone in its host");
    if (authority[n - 1] == ':')
        return refuse(detail, "must have a port from 1 to 65535, or none and no colon");
    return true;
}

static bool parse(const char *url, struct parts *out, char detail[TARGET_DETAIL_SIZE])
{
    CURLUcode rc = CURLUE_OUT_OF_MEMORY;

    out->handle = curl_url();
    if (out->handle)
        rc = curl_url_set(out->handle, CURLUPART_URL, url, CURLU_PATH_AS_IS | CURLU_DISALLOW_USER);
    if (rc == CURLUE_OK)
        rc = curl_url_get(out->handle, CURLUPART_HOST, &out->host, 0);
    if (rc == CURLUE_OK) {
        rc = curl_url_get(out->handle, CURLUPART_PORT, &out->port, 0);
        rc = rc == CURLUE_NO_PORT ? CURLUE_OK : rc;
    }
    if (rc == CURLUE_OK)
        return true;
    if (rc == CURLUE_BAD_PORT_NUMBER)
        return refuse(detail, "must have a port from 1 to 65535");
    (void)snprintf(detail, TARGET_DETAIL_SIZE, "is not a valid URL: %s", curl_url_strerror(rc));
    return false;
}

/* libcurl has seen to it that the port is a number of at most 65535. */
static bool check_port(const char *port, char detail[TARGET_DETAIL_SIZE])
{
    if (port && strspn(port, "0") == strlen(port))
        return refuse(detail, "must have a port from 1 to 65535");
    return true;
}

static bool check_address(const struct netaddr *a, const char *shown, const struct cidr_list *allow_net,
                          char detail[TARGET_DETAIL_SIZE])
{
    if (netaddr_is_allowed(a, allow_net))
        return true;
    (void)snprintf(detail, TARGET_DETAIL_SIZE, "must not lead to %.64s, which is not a public address; %s", shown,
                   ALLOW_NET_HINT);
    return false;
}

static bool check_localhost(const struct cidr_list *allow_net, char detail[TARGET_DETAIL_SIZE])
{
    struct netaddr four, six;

    if (netaddr_parse("127.0.0.1", 9, &four) && netaddr_is_allowed(&four, allow_net))
        return true;
    if (netaddr_parse("::1", 3, &six) && netaddr_is_allowed(&six, allow_net))
        return true;
    return refuse(detail, "must not lead to localhost, which is not a public address; " ALLOW_NET_HINT);
}

/* Whether the name is "localhost" or one below it (RFC 6761). */
static bool is_localhost(const char *host)
{
    static const char name[] = "localhost";
    size_t n = strlen(host);
    size_t name_bytes = strlen(name);

    if (n < name_bytes || strcasecmp(host + n - name_bytes, name) != 0)
        return false;
    return n == name_bytes || host[n - name_bytes - 1] == '.';
}

/* Whether the last label is a number, so that the whole can only be meant as an IPv4 address: no top-level domain is
 * one (the rule of the WHATWG URL standard). */
static bool ends_in_number(const char *host)
{
    const char *dot = strrchr(host, '.');
    const char *label = dot ? dot + 1 : host;
    bool is_hex = label[0] == '0' && (label[1] == 'x' || label[1] == 'X');

    if (is_hex)
        return strspn(label + 2, "0123456789abcdefABCDEF") == strlen(label + 2);
    return strspn(label, "0123456789") == strlen(label);
}

static bool is_name(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t n = strlen(host);

    return n > 0 && n <= HOST_NAME_MAX_BYTES && strspn(host, allowed) == n && host[0] != '.' && host[n - 1] != '.' &&
           !strstr(host, "..");
}

static bool check_ipv6(const char *host, const struct cidr_list *allow_net, char detail[TARGET_DETAIL_SIZE])
{
    struct netaddr a;
    size_t n = strlen(host);

    if (n < 2 || host[n - 1] != ']' || !netaddr_parse(host + 1, n - 2, &a))
        return refuse(detail, "must have a valid IPv6 address between its brackets");
    return check_address(&a, host, allow_net, detail);
}

static bool check_host(const char *host, const struct cidr_list *allow_net, char detail[TARGET_DETAIL_SIZE])
{
    char name[HOST_NAME_MAX_BYTES + 2];
    size_t n = strlen(host);
    struct in_addr four;
    struct sockaddr_in sa = {.sin_family = AF_INET};
    struct netaddr a;

    if (host[0] == '[')
        return check_ipv6(host, allow_net, detail);
    if (n > 1 && host[n - 1] == '.')
        n--; /* the root's dot changes nothing about where a name leads */
    if (n > HOST_NAME_MAX_BYTES)
        return refuse(detail, "must have a host name of at most 253 bytes");
    memcpy(name, host, n);
    name[n] = '\0';
    /* inet_aton knows the spellings that the resolver knows: decimal, octal, hexadecimal, one to four parts. */
    if (inet_aton(name, &four) == 1) {
        sa.sin_addr = four;
        (void)netaddr_from_sockaddr((const struct sockaddr *)&sa, &a);
        return check_address(&a, host, allow_net, detail);
    }
    if (!is_name(name))
        return refuse(detail, "must have a host name of letters, digits, - and _, in parts between dots");
    if (ends_in_number(name))
        return refuse(detail, "must have a valid IPv4 address or a host name that does not end in a number");
    return !is_localhost(name) || check_localhost(allow_net, detail);
}

bool target_check(const char *url, size_t n, const struct cidr_list *allow_net, char **clean,
                  char detail[TARGET_DETAIL_SIZE])
{
    struct parts parts = {0};
    char *text = NULL;
    bool is_fine = false;

    *clean = NULL;
    detail[0] = '\0';
    if (!check_bytes(url, n, detail))
        return false;
    text = xstrndup(url, n);
    if (!check_authority(text, detail))
        goto out;
    text[strcspn(text, "#")] = '\0';
    if (!parse(text, &parts, detail) || !check_port(parts.port, detail) || !check_host(parts.host, allow_net, detail))
        goto out;
    *clean = text;
    text = NULL;
    is_fine = true;
out:
    curl_free(parts.host);
    curl_free(parts.port);
    curl_url_cleanup(parts.handle);
    free(text);
    return is_fine;
}

/* --- places --- */

#define HASH_SEED UINT64_C(14695981039346656037) /* FNV-1a */

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)tolower((unsigned char)c);
    return c;
}

static uint64_t mix(uint64_t hash, unsigned value)
{
    return (hash ^ value) * UINT64_C(1099511628211);
}

void target_place(const char *url, struct target_place *out)
{
    const char *host = strstr(url, "://");
    const char *end, *port;

    host = host ? host + 3 : url;
    end = host + strcspn(host, "/?#");
    port = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : host;
    port = port ? memchr(port, ':', (size_t)(end - port)) : NULL;
    out->is_https = strncasecmp(url, "https:", 6) == 0;
    out->host = host;
    out->host_bytes = (size_t)((port ? port : end) - host);
    out->port = out->is_https ? 443 : 80;
    if (port)
        out->port = (int)strtol(port + 1, NULL, 10);
}

uint64_t target_host_hash(const struct target_place *p)
{
    uint64_t hash = HASH_SEED;

    for (size_t i = 0; i < p->host_bytes; i++)
        hash = mix(hash, (unsigned char)lower(p->host[i]));
    return hash != 0 ? hash : 1;
}

uint64_t target_place_hash(const struct target_place *p)
{
    uint64_t hash = mix(target_host_hash(p), (unsigned)p->port * 2u + p->is_https);

    return hash != 0 ? hash : 1;
}

char *target_place_name(const struct target_place *p)
{
    size_t size = sizeof "https://" + p->host_bytes + sizeof ":65535";
    char *name = xcalloc(size, 1);
    int n = snprintf(name, size, "%s://%.*s:%d", p->is_https ? "https" : "http", (int)p->host_bytes, p->host, p->port);

    for (int i = 0; i < n; i++)
        name[i] = lower(name[i]);
    return name;
}
