#include "http/route_priv.h"
#include "http/batch_priv.h"
#include "http/edit_priv.h"
#include "http/list_priv.h"
#include "http/metrics_priv.h"
#include "http/ops_priv.h"
#include "http/queues_priv.h"
#include "http/query_priv.h"
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
    {"POST", "/tasks", tasks_create, ROUTE_BODY},
    {"GET", "/tasks", list_tasks, ROUTE_QUERY},
    {"GET", "/tasks/{id}", tasks_get, ROUTE_PLAIN},
    {"DELETE", "/tasks/{id}", tasks_cancel, ROUTE_PLAIN},
    {"POST", "/tasks/batch", tasks_batch, ROUTE_BODY | ROUTE_BATCH},
    {"PATCH", "/tasks/{id}", edit_patch, ROUTE_BODY},
    {"POST", "/tasks/{id}/run", edit_run, ROUTE_PLAIN},
    {"POST", "/tasks/{id}/redrive", edit_redrive, ROUTE_PLAIN},
    {"GET", "/queues", queues_list, ROUTE_PLAIN},
    {"GET", "/queues/{queue}", queues_get, ROUTE_PLAIN},
    {"PUT", "/queues/{queue}", queues_put, ROUTE_BODY},
    {"DELETE", "/queues/{queue}", queues_delete, ROUTE_PLAIN},
    {"POST", "/queues/{queue}/pause", queues_pause, ROUTE_PLAIN},
    {"POST", "/queues/{queue}/resume", queues_resume, ROUTE_PLAIN},
    {"POST", "/queues/{queue}/purge", queues_purge, ROUTE_PLAIN},
    {"POST", "/queues/{queue}/redrive", queues_redrive, ROUTE_MAYBE_BODY},
    {"GET", "/stats", ops_stats, ROUTE_PLAIN},
    {"GET", "/destinations", ops_destinations, ROUTE_PLAIN},
    {"GET", "/healthz", ops_healthz, ROUTE_PUBLIC},
    {"GET", "/readyz", ops_readyz, ROUTE_PUBLIC},
    {"GET", "/openapi.yaml", ops_openapi, ROUTE_PUBLIC},
    {"GET", "/metrics", metrics_get, ROUTE_PLAIN},
};
#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

static const struct route options_route = {"OPTIONS", "*", ops_options, ROUTE_PLAIN};

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

static bool decode_segment(const char *s, const char *end, struct segment *out)
{
    size_t n = 0;

    out->is_empty = s == end;
    while (s < end) {
        int c = query_decode_char(&s, end);

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

/* Whether the path fits the pattern; *id is the segment under the braces, when there is one. */
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
        if (*pattern == '{')
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
        out->is_public = (routes[i].flags & ROUTE_PUBLIC) != 0;
        if (strcmp(wanted, routes[i].method) != 0)
            continue;
        out->route = &routes[i];
        if (id)
            memcpy(out->id, id, strlen(id) + 1);
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
