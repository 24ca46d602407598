/* The approach: an accepting thread, and for each connection a thread that reads a request, keeps it, answers, and
 * goes on. Blocking sockets keep each thread a straight line; what must be able to end at any moment (a delay, a held
 * answer) waits on one condition variable, and destroying shuts every socket down before joining.
 *
 * One lock guards the lists; it is never held while a socket is read or written. Requests live until the sink is
 * destroyed, so a test may keep pointers to them. */
#include "sink.h"
#include "wait.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 65536
#define CONNECTIONS_MAX 4096
#define SCRIPTS_MAX 64
#define ANSWERS_MAX 16

struct script {
    char *path;
    struct sink_answer answers[ANSWERS_MAX];
    size_t count;
    size_t used; /* requests seen */
};

struct connection {
    struct sink *sink;
    int fd;
    pthread_t thread;
};

struct sink {
    int fd, port;
    pthread_t acceptor;
    bool is_listening;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping, is_released; /* these and all below: under the lock */
    struct connection connections[CONNECTIONS_MAX];
    size_t connection_count;
    struct script scripts[SCRIPTS_MAX];
    size_t script_count;
    struct sink_request **requests;
    size_t request_count;
    char **urls; /* given out by sink_url, test thread only */
    size_t url_count;
};

/* Bytes read from a connection and not used yet. */
struct input {
    int fd;
    char bytes[HEAD_MAX];
    size_t count;
};

static void *xrealloc(void *p, size_t n)
{
    p = realloc(p, n);
    if (!p)
        abort();
    return p;
}

static bool read_more(struct input *in)
{
    if (in->count == sizeof(in->bytes) - 1)
        return false;
    ssize_t n = recv(in->fd, in->bytes + in->count, sizeof(in->bytes) - 1 - in->count, 0);
    if (n <= 0)
        return false;
    in->count += (size_t)n;
    in->bytes[in->count] = '\0';
    return true;
}

/* Take `n` bytes out of the input into `out`, reading what is missing. */
static bool take(struct input *in, char *out, size_t n)
{
    size_t have = n < in->count ? n : in->count;

    memcpy(out, in->bytes, have);
    memmove(in->bytes, in->bytes + have, in->count - have + 1);
    in->count -= have;
    while (have < n) {
        ssize_t got = recv(in->fd, out + have, n - have, 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

static void keep_header(struct sink_request *r, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n);

    if (!colon)
        return;
    char *name = strndup(line, (size_t)(colon - line));
    const char *value = colon + 1, *end = line + n;
    while (value < end && *value == ' ')
        value++;
    json_array_append_new(r->raw_names, json_string(name));
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    json_object_set_new(r->headers, name, json_stringn(value, (size_t)(end - value)));
    free(name);
}

static void parse_head(struct sink_request *r)
{
    size_t method = strcspn(r->head, " ");
    size_t target = strcspn(r->head + method + 1, " \r");

    r->method = strndup(r->head, method);
    r->target = strndup(r->head + method + 1, target);
    for (const char *line = strstr(r->head, "\r\n") + 2; *line && *line != '\r';) {
        const char *end = strstr(line, "\r\n");
        keep_header(r, line, (size_t)(end - line));
        line = end + 2;
    }
}

static void free_request(struct sink_request *r)
{
    free(r->method);
    free(r->target);
    free(r->head);
    free(r->body);
    json_decref(r->headers);
    json_decref(r->raw_names);
    free(r);
}

/* The next request, or NULL when the connection ended. */
static struct sink_request *read_request(struct input *in)
{
    if (in->count == 0 && !read_more(in))
        return NULL;
    struct sink_request *r = xrealloc(NULL, sizeof(*r));
    *r = (struct sink_request){.arrived_us = wait_wall_us(), .headers = json_object(), .raw_names = json_array()};
    const char *end;
    while ((end = strstr(in->bytes, "\r\n\r\n")) == NULL) {
        if (!read_more(in))
            goto broken;
    }
    size_t head_bytes = (size_t)(end - in->bytes) + 4;
    r->head = xrealloc(NULL, head_bytes + 1);
    r->head[head_bytes] = '\0';
    if (!take(in, r->head, head_bytes))
        goto broken;
    parse_head(r);
    const char *length = sink_header(r, "content-length");
    r->body_bytes = length ? strtoul(length, NULL, 10) : 0;
    r->body = xrealloc(NULL, r->body_bytes + 1);
    r->body[r->body_bytes] = '\0';
    if (!take(in, r->body, r->body_bytes))
        goto broken;
    return r;
broken:
    free_request(r);
    return NULL;
}

/* Keep the request and choose its answer. Takes the request. */
static struct sink_answer record(struct sink *s, struct sink_request *r)
{
    struct sink_answer answer = {.status = 200};

    pthread_mutex_lock(&s->lock);
    s->requests = xrealloc(s->requests, (s->request_count + 1) * sizeof(struct sink_request *));
    s->requests[s->request_count++] = r;
    for (size_t i = 0; i < s->script_count; i++) {
        struct script *script = &s->scripts[i];
        if (strcmp(script->path, r->target) == 0) {
            size_t n = script->used < script->count ? script->used : script->count - 1;
            script->used++;
            answer = script->answers[n];
        }
    }
    pthread_mutex_unlock(&s->lock);
    return answer;
}

/* Wait as the answer says; false when the sink is being destroyed. */
static bool wait_turn(struct sink *s, const struct sink_answer *answer)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += answer->delay_ms / 1000;
    until.tv_nsec += answer->delay_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&s->lock);
    while (answer->is_held && !s->is_released && !s->is_stopping)
        pthread_cond_wait(&s->changed, &s->lock);
    while (answer->delay_ms > 0 && !s->is_stopping) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) != 0)
            break;
    }
    bool go_on = !s->is_stopping;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static bool send_answer(int fd, const struct sink_answer *answer)
{
    const char *body = answer->body ? answer->body : "";
    char *text = NULL;
    bool has_body = answer->status != 204 && answer->status != 304;
    int n = asprintf(&text, "HTTP/1.1 %d Scripted\r\nContent-Length: %zu\r\n%s\r\n%s", answer->status,
                     has_body ? strlen(body) : 0, answer->headers ? answer->headers : "", has_body ? body : "");

    if (n < 0)
        abort();
    ssize_t sent = send(fd, text, (size_t)n, MSG_NOSIGNAL);
    free(text);
    return sent == n;
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    struct input *in = xrealloc(NULL, sizeof(*in));
    struct sink_request *r;

    in->fd = c->fd;
    in->count = 0;
    in->bytes[0] = '\0';
    while ((r = read_request(in)) != NULL) {
        struct sink_answer answer = record(c->sink, r);
        if (!wait_turn(c->sink, &answer) || answer.status == 0 || !send_answer(c->fd, &answer))
            break;
    }
    shutdown(c->fd, SHUT_RDWR); /* closed by sink_destroy, which may be using the number */
    free(in);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct sink *s = arg;
    int fd;

    while ((fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_mutex_lock(&s->lock);
        if (s->connection_count == CONNECTIONS_MAX)
            abort();
        struct connection *c = &s->connections[s->connection_count];
        *c = (struct connection){.sink = s, .fd = fd};
        if (pthread_create(&c->thread, NULL, serve, c) == 0)
            s->connection_count++;
        else
            close(fd);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

struct sink *sink_create_deaf(void)
{
    struct sink *s = calloc(1, sizeof(*s));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    pthread_condattr_t monotonic;

    cr_assert_not_null(s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_neq(s->fd, -1);
    cr_assert_eq(bind(s->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(getsockname(s->fd, (struct sockaddr *)&address, &length), 0);
    s->port = ntohs(address.sin_port);
    return s;
}

void sink_listen(struct sink *s)
{
    cr_assert_eq(listen(s->fd, 1024), 0);
    cr_assert_eq(pthread_create(&s->acceptor, NULL, accept_all, s), 0);
    s->is_listening = true;
}

struct sink *sink_create(void)
{
    struct sink *s = sink_create_deaf();

    sink_listen(s);
    return s;
}

void sink_destroy(struct sink **sink)
{
    struct sink *s = *sink;

    if (!s)
        return;
    shutdown(s->fd, SHUT_RDWR); /* ends accept() */
    if (s->is_listening)
        pthread_join(s->acceptor, NULL);
    pthread_mutex_lock(&s->lock);
    s->is_stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->connection_count; i++) {
        shutdown(s->connections[i].fd, SHUT_RDWR);
        pthread_join(s->connections[i].thread, NULL);
        close(s->connections[i].fd);
    }
    close(s->fd);
    for (size_t i = 0; i < s->request_count; i++)
        free_request(s->requests[i]);
    for (size_t i = 0; i < s->script_count; i++)
        free(s->scripts[i].path);
    for (size_t i = 0; i < s->url_count; i++)
        free(s->urls[i]);
    free(s->requests);
    free(s->urls);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *sink = NULL;
}

int sink_port(const struct sink *s)
{
    return s->port;
}

const char *sink_url(struct sink *s, const char *path)
{
    char *url = NULL;

    cr_assert(asprintf(&url, "http://127.0.0.1:%d%s", s->port, path) > 0);
    s->urls = xrealloc(s->urls, (s->url_count + 1) * sizeof(char *));
    s->urls[s->url_count++] = url;
    return url;
}

void sink_script(struct sink *s, const char *path, const struct sink_answer *answers, size_t count)
{
    cr_assert(count > 0 && count <= ANSWERS_MAX && s->script_count < SCRIPTS_MAX);
    pthread_mutex_lock(&s->lock);
    struct script *script = &s->scripts[s->script_count++];
    script->path = strdup(path);
    script->count = count;
    memcpy(script->answers, answers, count * sizeof(*answers));
    pthread_mutex_unlock(&s->lock);
}

void sink_release(struct sink *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_released = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The n-th request to `path` (NULL: any), or NULL; how many there are goes to *count. */
static const struct sink_request *find(struct sink *s, const char *path, size_t n, size_t *count)
{
    const struct sink_request *found = NULL;

    *count = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->request_count; i++) {
        if (path && strcmp(s->requests[i]->target, path) != 0)
            continue;
        if (++*count == n)
            found = s->requests[i];
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

size_t sink_count(struct sink *s, const char *path)
{
    size_t count;

    (void)find(s, path, 0, &count);
    return count;
}

const struct sink_request *sink_wait(struct sink *s, const char *path, size_t n, int ms)
{
    int64_t deadline = wait_mono_ms() + wait_scaled_ms(ms);
    const struct sink_request *found;
    size_t count;

    while ((found = find(s, path, n, &count)) == NULL) {
        if (wait_mono_ms() > deadline)
            cr_assert_fail("only %zu of %zu requests came to %s within %d ms", count, n, path ? path : "the sink", ms);
        wait_tick(deadline, "sink_wait", path ? path : "any path");
    }
    return found;
}

const char *sink_header(const struct sink_request *r, const char *name)
{
    return json_string_value(json_object_get(r->headers, name));
}
