#include "run/share.h"

#include "base/mem.h"
#include "task/target.h"

#include <stddef.h>
#include <stdlib.h>

#define BUCKETS 256

struct share_host {
    struct share_host *next; /* in its bucket */
    uint64_t hash;
    int users; /* who entered and has not left */
    int held;  /* slots */
    bool is_stuck;
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

struct share_host *share_enter(struct share *s, const char *url)
{
    struct target_place place;
    uint64_t hash;
    struct share_host **bucket, *h;

    target_place(url, &place);
    hash = target_place_hash(&place);
    bucket = &s->buckets[hash % BUCKETS];
    h = *bucket;

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
        h->is_stuck = false;
}

void share_set_stuck(struct share_host *h, bool is_stuck)
{
    h->is_stuck = is_stuck;
}

bool share_is_stuck(const struct share_host *h)
{
    return h->is_stuck;
}

uint64_t share_hash(const struct share_host *h)
{
    return h->hash;
}
