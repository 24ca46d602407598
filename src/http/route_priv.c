#include "http/route_priv.h"
#include "http/ops_priv.h"
#include "http/tasks_priv.h"
#include <string.h>
#include <strings.h>

/* Routing.
 *
 * The path is split at '/' and each segment is percent-decoded on its own, so an escaped slash stays inside its
 * segment. Decoding is ours and strict: libmicrohttpd's would let %00 cut the path and pass bad escapes on. A path that
 * does not decode matches nothing. There are so few rows that they are simply tried in order. */

#define SEGMENTS_MAX 4

static const struct route routes[] = {
    {"POST", "/tasks", tasks_create, false, true},         {"GET", "/tasks/{id}", tasks_get, false, false},
    {"DELETE", "/tasks/{id}", tasks_cancel, false, false}, {"GET", "/stats", ops_stats, false, false},
    {"GET", "/healthz", ops_healthz, true, false},         {"GET", "/readyz", ops_readyz, true, false},
    {"GET", "/openapi.yaml", ops_openapi, true, false},
};
#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

static const struct route options_route = {"OPTIONS", "*", ops_options, false, false};

/* Methods in the order Allow lists them. */
static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
#define METHOD_COUNT (sizeof(methods) / sizeof(methods[0]))

struct segment {
    char text[TASK_ID_MAX + 1]; /* "" when it is longer */
    bool is_empty;
};

struct path {
    struct segment segments[SEGMENTS_MAX];
    size_t count;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decode one character at *s and move on. -1 for a bad escape or a NUL. */
static int decode_char(const char **s, const char *end)
{
    const char *p = *s;
    int high = 0;
    int low = 0;

    if (*p != '%') {
        *s = p + 1;
        return (unsigned char)*p;
    }
    if (end - p < 3)
        return -1;
    high = hex_digit(p[1]);
    low = hex_digit(p[2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0))
        return -1;
    *s = p + 3;
    return high * 16 + low;
}

static bool decode_segment(const char *s, const char *end, struct segment *out)
{
    size_t n = 0;

    out->is_empty = s == end;
    while (s < end) {
        int c = decode_char(&s, end);

        if (c < 0)
            return false;
        if (n < TASK_ID_MAX)
            out->text[n] = (char)c;
        n++;
    }
    out->text[n <= TASK_ID_MAX ? n : 0] = '\0';
    return true;
}

static bool split_path(const char *s, const char *end, struct path *out)
{
    out->count = 0;
    if (s == end || *s != '/')
        return false;
    while (s < end) {
        const char *from = s + 1;
        const char *to = memchr(from, '/', (size_t)(end - from));

        if (!to)
            to = end;
        if (out->count == SEGMENTS_MAX || !decode_segment(from, to, &out->segments[out->count]))
            return false;
        out->count++;
        s = to;
    }
    return true;
}

/* Whether the path fits the pattern; *id is the segment under {id}, when there is one. */
static bool matches(const char *pattern, const struct path *path, const char **id)
{
    *id = NULL;
    for (size_t i = 0; i < path->count; i++) {
        const struct segment *segment = &path->segments[i];
        size_t n = 0;

        if (*pattern != '/' || segment->is_empty)
            return false;
        pattern++;
        n = strcspn(pattern, "/");
        if (n == 4 && strncmp(pattern, "{id}", n) == 0)
            *id = segment->text;
        else if (strlen(segment->text) != n || strncmp(pattern, segment->text, n) != 0)
            return false;
        pattern += n;
    }
    return *pattern == '\0';
}

/* Past "http://authority" of a target in absolute form, which servers must accept (RFC 9112 section 3.2.2). */
static const char *skip_authority(const char *target)
{
    const char *authority = NULL;

    if (strncasecmp(target, "http://", 7) == 0)
        authority = target + 7;
    else if (strncasecmp(target, "https://", 8) == 0)
        authority = target + 8;
    else
        return target;
    return authority + strcspn(authority, "/?");
}

static void add_text(char *out, size_t size, const char *s)
{
    size_t used = strlen(out);
    size_t n = strlen(s);

    if (used + n < size)
        memcpy(out + used, s, n + 1);
}

/* `set` has a bit for each index of `methods`. */
static void write_allow(unsigned set, char out[ROUTE_ALLOW_SIZE])
{
    for (size_t i = 0; i < METHOD_COUNT; i++) {
        if ((set & (1U << i)) == 0)
            continue;
        if (out[0] != '\0')
            add_text(out, ROUTE_ALLOW_SIZE, ", ");
        add_text(out, ROUTE_ALLOW_SIZE, methods[i]);
    }
}

static unsigned method_bit(const char *method)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++) {
        if (strcmp(methods[i], method) == 0)
            return 1U << i;
    }
    return 0;
}

static unsigned allowed_methods(const struct route *route)
{
    unsigned set = method_bit(route->method) | method_bit("OPTIONS");

    if (strcmp(route->method, "GET") == 0)
        set |= method_bit("HEAD");
    return set;
}

/* OPTIONS * asks about the server as a whole. */
static enum err match_server(const char *method, struct route_match *out)
{
    unsigned set = 0;

    for (size_t i = 0; i < ROUTE_COUNT; i++)
        set |= allowed_methods(&routes[i]);
    write_allow(set, out->allow);
    if (strcmp(method, "OPTIONS") != 0)
        return ERR_METHOD_NOT_ALLOWED;
    out->route = &options_route;
    return ERR_OK;
}

enum err route_find(const char *method, const char *target, struct route_match *out)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    const char *path_start = skip_authority(target);
    const char *path_end = path_start + strcspn(path_start, "?");
    struct path path;
    unsigned set = 0;

    out->route = NULL;
    out->is_public = false;
    out->id[0] = '\0';
    out->allow[0] = '\0';
    out->query = *path_end == '?' ? path_end + 1 : NULL;
    if (strcmp(target, "*") == 0)
        return match_server(method, out);
    if (!split_path(path_start, path_end, &path))
        return ERR_NOT_FOUND;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const char *id = NULL;

        if (!matches(routes[i].pattern, &path, &id))
            continue;
        set |= allowed_methods(&routes[i]);
        out->is_public = routes[i].is_public;
        if (id)
            memcpy(out->id, id, strlen(id) + 1);
        if (strcmp(wanted, routes[i].method) == 0)
            out->route = &routes[i];
    }
    if (set == 0)
        return ERR_NOT_FOUND;
    if (out->route)
        return ERR_OK;
    write_allow(set, out->allow);
    if (strcmp(method, "OPTIONS") != 0)
        return ERR_METHOD_NOT_ALLOWED;
    out->route = &options_route;
    return ERR_OK;
}
