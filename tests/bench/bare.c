/* The limit of delivery: libcurl's multi interface alone, with requests of the very shape of Duepost's, a task's JSON
 * body, and no Redis, no retries, no checks.
 *
 *   bare RECEIVER_URL COUNT THREADS IN_FLIGHT
 *
 * Each thread has a CURLM and its share of the requests and of those in flight; handles and connections are used again.
 * Prints {"per_s", "failed"}. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 16

static const char body[] = "{\"order\":4711,\"note\":\"close the unpaid order\"}";

struct sender {
    pthread_t thread;
    const char *url;
    int index, in_flight;
    long count; /* to be sent */
    long started, ended;
    long failed;
};

/* One request that is sent again and again. */
struct slot {
    CURL *easy;
    struct curl_slist *headers;
};

static size_t ignore(char *data, size_t size, size_t count, void *ctx)
{
    (void)data;
    (void)ctx;
    return size * count;
}

static struct curl_slist *make_headers(const struct sender *s)
{
    char id[48], timestamp[48];
    struct curl_slist *list = NULL;

    snprintf(id, sizeof(id), "webhook-id: %d-%012ld", s->index, s->started);
    snprintf(timestamp, sizeof(timestamp), "webhook-timestamp: %lld", (long long)time(NULL));
    const char *lines[] = {id,
                           timestamp,
                           "Duepost-Attempt: 1",
                           "Duepost-Queue: default",
                           "Duepost-Due: 2026-11-30T10:20:30.123Z",
                           "User-Agent: duepost/0.1.0",
                           "Content-Type: application/json",
                           "Expect:"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        list = curl_slist_append(list, lines[i]);
    return list;
}

static void start(struct sender *s, CURLM *multi, struct slot *slot)
{
    curl_slist_free_all(slot->headers);
    slot->headers = make_headers(s);
    curl_easy_setopt(slot->easy, CURLOPT_URL, s->url);
    curl_easy_setopt(slot->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(slot->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(slot->easy, CURLOPT_TIMEOUT_MS, 10000L);
    curl_easy_setopt(slot->easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(slot->easy, CURLOPT_POSTFIELDSIZE, (long)sizeof(body) - 1);
    curl_easy_setopt(slot->easy, CURLOPT_HTTPHEADER, slot->headers);
    curl_easy_setopt(slot->easy, CURLOPT_PRIVATE, slot);
    curl_multi_add_handle(multi, slot->easy);
    s->started++;
}

static void collect(struct sender *s, CURLM *multi)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        CURL *easy = message->easy_handle;
        struct slot *slot = NULL;
        bool is_good = message->data.result == CURLE_OK;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&slot);
        curl_multi_remove_handle(multi, easy);
        s->ended++;
        if (!is_good)
            s->failed++;
        if (s->started < s->count)
            start(s, multi, slot);
    }
}

static void *run(void *ctx)
{
    struct sender *s = ctx;
    CURLM *multi = curl_multi_init();
    struct slot *slots = calloc((size_t)s->in_flight, sizeof(*slots));
    int running;

    if (!multi || !slots)
        exit(1);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)s->in_flight * 2);
    for (int i = 0; i < s->in_flight && s->started < s->count; i++) {
        slots[i].easy = curl_easy_init();
        start(s, multi, &slots[i]);
    }
    while (s->ended < s->count) {
        curl_multi_perform(multi, &running);
        collect(s, multi);
        if (s->ended < s->count)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    for (int i = 0; i < s->in_flight; i++) {
        curl_easy_cleanup(slots[i].easy);
        curl_slist_free_all(slots[i].headers);
    }
    curl_multi_cleanup(multi);
    free(slots);
    return NULL;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static struct sender senders[THREADS_MAX];
    int threads = argc == 5 ? (int)strtol(argv[3], NULL, 10) : 0;
    long count = 0, ended = 0, failed = 0;

    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: bare RECEIVER_URL COUNT THREADS IN_FLIGHT\n");
        return 2;
    }
    count = strtol(argv[2], NULL, 10) / threads;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    double start_s = now_s();
    for (int i = 0; i < threads; i++) {
        senders[i] = (struct sender){
            .url = argv[1], .index = i, .count = count, .in_flight = (int)strtol(argv[4], NULL, 10) / threads};
        if (pthread_create(&senders[i].thread, NULL, run, &senders[i]) != 0)
            return 1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(senders[i].thread, NULL);
        ended += senders[i].ended;
        failed += senders[i].failed;
    }
    printf("{\"per_s\":%.0f,\"failed\":%ld}\n", (double)ended / (now_s() - start_s), failed);
    return 0;
}
