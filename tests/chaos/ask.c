#include "ask.h"
#include "base/clock.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 20000L
#define ANSWER_MAX 262144

struct ask {
    CURL *easy;
    struct curl_slist *headers;
    char body[ANSWER_MAX];
    size_t used;
    json_t *json;
    int64_t duration_ms;
};

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct ask *a = arg;
    size_t n = size * count;

    if (n > sizeof(a->body) - a->used)
        return 0;
    memcpy(a->body + a->used, data, n);
    a->used += n;
    return n;
}

void ask_set_key(struct ask *a, const char *key)
{
    char line[128];

    curl_slist_free_all(a->headers);
    a->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (key) {
        (void)snprintf(line, sizeof(line), "Idempotency-Key: %s", key);
        a->headers = curl_slist_append(a->headers, line);
    }
    curl_easy_setopt(a->easy, CURLOPT_HTTPHEADER, a->headers);
}

struct ask *ask_create(void)
{
    struct ask *a = calloc(1, sizeof(*a));

    if (!a || (a->easy = curl_easy_init()) == NULL)
        abort();
    curl_easy_setopt(a->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(a->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(a->easy, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
    curl_easy_setopt(a->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(a->easy, CURLOPT_WRITEDATA, a);
    ask_set_key(a, NULL);
    return a;
}

void ask_destroy(struct ask **a)
{
    if (!*a)
        return;
    json_decref((*a)->json);
    curl_slist_free_all((*a)->headers);
    curl_easy_cleanup((*a)->easy);
    free(*a);
    *a = NULL;
}

int ask_send(struct ask *a, const char *method, int port, const char *path, const char *body)
{
    char url[256];
    long status = 0;
    int64_t began = clock_mono_ms();

    json_decref(a->json);
    a->json = NULL;
    a->used = 0;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", port, path);
    curl_easy_setopt(a->easy, CURLOPT_URL, url);
    curl_easy_setopt(a->easy, CURLOPT_HTTPGET, 1L);
    if (body)
        curl_easy_setopt(a->easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(a->easy, CURLOPT_CUSTOMREQUEST, method);
    if (curl_easy_perform(a->easy) == CURLE_OK)
        curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
    a->duration_ms = clock_mono_ms() - began;
    a->json = json_loadb(a->body, a->used, 0, NULL);
    return (int)status;
}

static const json_t *find(const struct ask *a, const char *path)
{
    const json_t *at = a->json;
    char name[64];

    while (at && *path) {
        size_t n = strcspn(path, ".");
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, path);
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
        path += n + (path[n] == '.' ? 1 : 0);
    }
    return at;
}

const char *ask_text(const struct ask *a, const char *path)
{
    return json_string_value(find(a, path));
}

int64_t ask_number(const struct ask *a, const char *path)
{
    const json_t *found = find(a, path);

    return json_is_integer(found) ? json_integer_value(found) : -1;
}

int64_t ask_duration_ms(const struct ask *a)
{
    return a->duration_ms;
}
