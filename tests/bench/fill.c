/* Put tasks into a gateway as fast as it takes them, by batches:
 *
 *   fill GATEWAY RECEIVER_URL COUNT FIRST_DUE_MS PER_S PAYLOAD_BYTES
 *
 * The n-th task is due at FIRST_DUE_MS (Unix ms) + n / PER_S seconds; PER_S 0: all are due in that one millisecond.
 * Prints {"accepted", "failed", "per_s"}. */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 500
#define TASK_MAX 640 /* bytes, without the payload */
#define PAYLOAD_MAX 65536

struct plan {
    const char *gateway, *url;
    long count, per_s;
    long long first_due_ms;
    int payload_bytes;
    char payload[PAYLOAD_MAX];
};

struct answer {
    size_t bytes, size;
    char *text;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    fprintf(stderr, "fill: %s\n", what);
    exit(1);
}

/* {"text":"xxx"} of the size that was asked for. */
static void make_payload(struct plan *p)
{
    static const char head[] = "{\"text\":\"", tail[] = "\"}";
    int fill = p->payload_bytes - (int)(sizeof(head) + sizeof(tail) - 2);

    if (fill < 0 || p->payload_bytes >= PAYLOAD_MAX)
        die("PAYLOAD_BYTES is out of range");
    memcpy(p->payload, head, sizeof(head) - 1);
    memset(p->payload + sizeof(head) - 1, 'x', (size_t)fill);
    memcpy(p->payload + sizeof(head) - 1 + fill, tail, sizeof(tail));
}

static size_t make_batch(const struct plan *p, long first, long count, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "{\"tasks\":[");

    for (long i = first; i < first + count; i++) {
        long long due_ms = p->first_due_ms + (p->per_s > 0 ? i * 1000LL / p->per_s : 0);
        n += (size_t)snprintf(out + n, size - n, "%s{\"url\":\"%s\",\"run_at\":%lld,\"payload\":%s}",
                              i > first ? "," : "", p->url, due_ms, p->payload);
    }
    return n + (size_t)snprintf(out + n, size - n, "]}");
}

static size_t keep(char *data, size_t size, size_t count, void *ctx)
{
    struct answer *a = ctx;
    size_t bytes = size * count;

    if (a->bytes + bytes + 1 > a->size) {
        a->size = (a->bytes + bytes + 1) * 2;
        a->text = realloc(a->text, a->size);
        if (!a->text)
            die("out of memory");
    }
    memcpy(a->text + a->bytes, data, bytes);
    a->bytes += bytes;
    a->text[a->bytes] = '\0';
    return bytes;
}

static long count_accepted(const struct answer *a)
{
    static const char sign[] = "\"status\":201";
    long n = 0;

    for (const char *at = a->text; at && (at = strstr(at, sign)) != NULL; at += sizeof(sign) - 1)
        n++;
    return n;
}

static long fill(const struct plan *p, CURL *curl)
{
    size_t size = (size_t)BATCH * (size_t)(TASK_MAX + p->payload_bytes);
    char *body = malloc(size);
    struct answer answer = {0};
    long accepted = 0;

    if (!body)
        die("out of memory");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    for (long first = 0; first < p->count; first += BATCH) {
        long count = p->count - first < BATCH ? p->count - first : BATCH;
        answer.bytes = 0;
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)make_batch(p, first, count, body, size));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        CURLcode code = curl_easy_perform(curl);
        if (code != CURLE_OK)
            die(curl_easy_strerror(code));
        if (count_accepted(&answer) < count && accepted == first)
            fprintf(stderr, "fill: %.300s\n",
                    answer.text ? answer.text : ""); /* the first that is not as it should be */
        accepted += count_accepted(&answer);
    }
    free(answer.text);
    free(body);
    return accepted;
}

int main(int argc, char **argv)
{
    static struct plan p;
    char url[256];
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    CURL *curl = curl_easy_init();

    if (argc != 7 || !curl || !headers || strlen(argv[2]) > 256) {
        fprintf(stderr, "usage: fill GATEWAY RECEIVER_URL COUNT FIRST_DUE_MS PER_S PAYLOAD_BYTES\n");
        return 2;
    }
    p.gateway = argv[1];
    p.url = argv[2];
    p.count = strtol(argv[3], NULL, 10);
    p.first_due_ms = strtoll(argv[4], NULL, 10);
    p.per_s = strtol(argv[5], NULL, 10);
    p.payload_bytes = (int)strtol(argv[6], NULL, 10);
    make_payload(&p);
    snprintf(url, sizeof(url), "%s/tasks/batch", p.gateway);
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    double start_s = now_s();
    long accepted = fill(&p, curl);
    printf("{\"accepted\":%ld,\"failed\":%ld,\"per_s\":%.0f}\n", accepted, p.count - accepted,
           (double)accepted / (now_s() - start_s));
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    return 0;
}
