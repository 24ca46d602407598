#include "run/share.h"

#include "base/mem.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256
#define BACK_OFF_MIN_MS 100
#define BACK_OFF_MAX_MS 30000

struct share_host {
    struct share_host *next; /* in its bucket */
    uint64_t hash;
    int users;           /* who entered and has not left */
    int held;            /* slots */
    int64_t back_off_ms; /* 0: not stuck */
    int64_t next_growth_mono_ms;
};

struct share {
    struct share_host *buckets[BUCKETS];
};

struct share *share_create(void)
{
    return xcalloc(1, sizeof(struct share));
}

void share_destroy(struct share **share)
{
    struct share *s = *share;

    *share = NULL;
    for (size_t i = 0; s && i < BUCKETS; i++) {
        for (struct share_host *h = s->buckets[i], *next; h; h = next) {
            next = h->next;
            free(h);
        }
    }
    free(s);
}

static uint64_t mix(uint64_t hash, unsigned char c)
{
    return (hash ^ c) * UINT64_C(1099511628211); /* FNV-1a */
}

/* Scheme, host and port, as 64 bits. That two receivers have the same ones is as good as impossible, and would only
 * make them share a share. */
static uint64_t hash_receiver(const char *url)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    const char *host = strstr(url, "://");
    const char *end = host ? host + 3 + strcspn(host + 3, "/?#") : url + strlen(url);

    for (const char *p = url; p < end; p++)
        hash = mix(hash, (unsigned char)tolower((unsigned char)*p));
    return hash;
}

struct share_host *share_enter(struct share *s, const char *url)
{
    uint64_t hash = hash_receiver(url);
    struct share_host **bucket = &s->buckets[hash % BUCKETS];
    struct share_host *h = *bucket;

    while (h && h->hash != hash)
        h = h->next;
    if (!h) {
        h = xcalloc(1, sizeof *h);
        h->hash = hash;
        h->next = *bucket;
        *bucket = h;
    }
    h->users++;
    return h;
}

void share_leave(struct share *s, struct share_host *h)
{
    struct share_host **link = &s->buckets[h->hash % BUCKETS];

    if (--h->users > 0)
        return;
    while (*link != h)
        link = &(*link)->next;
    *link = h->next;
    free(h);
}

bool share_may_start(const struct share_host *h, int free_slots)
{
    return h->held < SHARE_FACTOR * free_slots;
}

void share_start(struct share_host *h)
{
    h->held++;
}

void share_end(struct share_host *h, bool is_success)
{
    h->held--;
    if (is_success)
        h->back_off_ms = 0;
}

bool share_is_stuck(const struct share_host *h)
{
    return h->back_off_ms > BACK_OFF_MIN_MS;
}

int64_t share_back_off_ms(struct share_host *h, int64_t now_mono_ms, double random)
{
    if (h->back_off_ms == 0) {
        h->back_off_ms = BACK_OFF_MIN_MS;
        h->next_growth_mono_ms = now_mono_ms + h->back_off_ms;
    } else if (now_mono_ms >= h->next_growth_mono_ms) {
        h->back_off_ms = h->back_off_ms * 2 > BACK_OFF_MAX_MS ? BACK_OFF_MAX_MS : h->back_off_ms * 2;
        h->next_growth_mono_ms = now_mono_ms + h->back_off_ms;
    }
    return h->back_off_ms + (int64_t)((double)h->back_off_ms * random);
}
