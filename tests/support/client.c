#include "client.h"
#include "json_expect.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_TIMEOUT_MS 20000

struct client {
    CURL *easy;
    char *base_url;
    char *token;
    char *ca;
    struct reply **replies; /* all there ever were: they live as long as the client */
    size_t reply_count;
};

struct client *client_create(const char *base_url)
{
    struct client *c = calloc(1, sizeof(*c));

    cr_assert_not_null(c);
    c->easy = curl_easy_init();
    c->base_url = strdup(base_url);
    cr_assert(c->easy && c->base_url);
    return c;
}

void client_destroy(struct client **c)
{
    if (!*c)
        return;
    for (size_t i = 0; i < (*c)->reply_count; i++) {
        struct reply *r = (*c)->replies[i];
        json_decref(r->json);
        json_decref(r->headers);
        free(r->body);
        free(r);
    }
    curl_easy_cleanup((*c)->easy);
    free((*c)->replies);
    free((*c)->base_url);
    free((*c)->token);
    free((*c)->ca);
    free(*c);
    *c = NULL;
}

void client_set_token(struct client *c, const char *token)
{
    free(c->token);
    c->token = token ? strdup(token) : NULL;
}

void client_set_ca(struct client *c, const char *path)
{
    free(c->ca);
    c->ca = strdup(path);
}

static struct reply *new_reply(struct client *c)
{
    struct reply *r = calloc(1, sizeof(*r));
    struct reply **grown = realloc(c->replies, (c->reply_count + 1) * sizeof(struct reply *));

    cr_assert(r && grown);
    c->replies = grown;
    c->replies[c->reply_count++] = r;
    r->body = calloc(1, 1);
    r->headers = json_object();
    return r;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct reply *r = arg;
    size_t n = size * count;
    char *grown = realloc(r->body, r->body_bytes + n + 1);

    if (!grown)
        return 0;
    r->body = grown;
    memcpy(r->body + r->body_bytes, data, n);
    r->body_bytes += n;
    r->body[r->body_bytes] = '\0';
    return n;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct reply *r = arg;
    size_t n = size * count;
    const char *colon = memchr(data, ':', n);

    if (colon) {
        char *name = strndup(data, (size_t)(colon - data));
        const char *value = colon + 1, *end = data + n;
        while (value < end && isspace((unsigned char)*value))
            value++;
        while (end > value && isspace((unsigned char)end[-1]))
            end--;
        for (char *p = name; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        json_object_set_new(r->headers, name, json_stringn(value, (size_t)(end - value)));
        free(name);
    }
    return n;
}

static struct curl_slist *append_header(struct curl_slist *list, const char *name, const char *value)
{
    char *line = NULL;

    cr_assert(asprintf(&line, "%s: %s", name, value) > 0);
    list = curl_slist_append(list, line);
    free(line);
    return list;
}

static struct curl_slist *build_headers(const struct client *c, const struct client_request *request)
{
    struct curl_slist *list = append_header(NULL, "X-Test", "1"); /* the list is never empty */
    const char *type = request->content_type;

    if (request->body)
        list = append_header(list, "Content-Type", type ? type : "application/json");
    if (c->token) {
        char *bearer = NULL;
        cr_assert(asprintf(&bearer, "Bearer %s", c->token) > 0);
        list = append_header(list, "Authorization", bearer);
        free(bearer);
    }
    bool has_expect = false;
    for (size_t i = 0; request->headers && request->headers[i]; i++) {
        list = curl_slist_append(list, request->headers[i]);
        has_expect = has_expect || strncmp(request->headers[i], "Expect:", strlen("Expect:")) == 0;
    }
    return has_expect ? list : curl_slist_append(list, "Expect:"); /* libcurl would add one to a large body */
}

struct reply *client_request(struct client *c, const struct client_request *request)
{
    struct reply *r = new_reply(c);
    struct curl_slist *headers = build_headers(c, request);
    int64_t start_mono_ms = wait_mono_ms();
    char *url = NULL;
    long status = 0;

    cr_assert(asprintf(&url, "%s%s", c->base_url, request->path) > 0);
    curl_easy_reset(c->easy);
    curl_easy_setopt(c->easy, CURLOPT_URL, url);
    curl_easy_setopt(c->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, headers);
    if (c->ca)
        curl_easy_setopt(c->easy, CURLOPT_CAINFO, c->ca);
    if (request->body) {
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(request->body));
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, request->body);
    }
    if (strcmp(request->method, "HEAD") == 0)
        curl_easy_setopt(c->easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)wait_scaled_ms(REQUEST_TIMEOUT_MS));
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, r);
    if (curl_easy_perform(c->easy) == CURLE_OK)
        curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    r->status = (int)status;
    r->duration_ms = (long)(wait_mono_ms() - start_mono_ms);
    r->json = json_loadb(r->body, r->body_bytes, JSON_DECODE_ANY, NULL);
    curl_slist_free_all(headers);
    free(url);
    return r;
}

struct reply *client_get(struct client *c, const char *path)
{
    return client_request(c, &(struct client_request){.method = "GET", .path = path});
}

struct reply *client_delete(struct client *c, const char *path)
{
    return client_request(c, &(struct client_request){.method = "DELETE", .path = path});
}

struct reply *client_post(struct client *c, const char *path, const char *body)
{
    return client_request(c, &(struct client_request){.method = "POST", .path = path, .body = body});
}

struct reply *client_post_task(struct client *c, const char *format, ...)
{
    char *body = NULL;
    va_list args;

    va_start(args, format);
    cr_assert(vasprintf(&body, format, args) >= 0);
    va_end(args);
    struct reply *r = client_post(c, "/tasks", body);
    free(body);
    return r;
}

static struct reply *call_task(struct client *c, const char *method, const char *id)
{
    char *path = NULL;

    cr_assert(asprintf(&path, "/tasks/%s", id) > 0);
    struct reply *r = client_request(c, &(struct client_request){.method = method, .path = path});
    free(path);
    return r;
}

struct reply *client_get_task(struct client *c, const char *id)
{
    return call_task(c, "GET", id);
}

struct reply *client_delete_task(struct client *c, const char *id)
{
    return call_task(c, "DELETE", id);
}

int64_t client_time_for(struct client *c, int requests)
{
    enum { SAMPLES = 20, LEAST_MS = 3000, ROOM = 8 };
    int64_t began_us = wait_wall_us();

    for (int i = 0; i < SAMPLES; i++)
        client_get_task(c, "none");
    int64_t enough_ms = (wait_wall_us() - began_us) * requests / SAMPLES * ROOM / 1000;
    return enough_ms > LEAST_MS ? enough_ms : LEAST_MS;
}

const char *reply_header(const struct reply *r, const char *name)
{
    return json_string_value(json_object_get(r->headers, name));
}

void reply_expect_problem(const struct reply *r, int status, const char *code)
{
    cr_assert_eq(r->status, status, "%d %s", r->status, r->body);
    cr_assert_str_eq(reply_header(r, "content-type"), "application/problem+json");
    cr_expect_str_eq(json_text_at(r->json, "code"), code);
    cr_expect_eq(json_integer_at(r->json, "status"), status);
    (void)json_text_at(r->json, "type");
    (void)json_text_at(r->json, "title");
    (void)json_text_at(r->json, "detail");
}
