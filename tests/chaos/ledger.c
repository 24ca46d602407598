#include "ledger.h"
#include "base/clock.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ledger {
    pthread_mutex_t lock;
    size_t capacity, count;
    struct entry *entries;
    struct watched watched;
    int64_t watch_until_mono_ms;
};

struct ledger *ledger_create(size_t capacity)
{
    struct ledger *l = calloc(1, sizeof(*l));

    if (!l)
        abort();
    l->entries = calloc(capacity, sizeof(*l->entries));
    if (!l->entries || pthread_mutex_init(&l->lock, NULL) != 0)
        abort();
    l->capacity = capacity;
    return l;
}

void ledger_destroy(struct ledger **l)
{
    if (!*l)
        return;
    pthread_mutex_destroy(&(*l)->lock);
    free((*l)->entries);
    free(*l);
    *l = NULL;
}

/* The entry, with the lock held; NULL (and not locked) when there is none. */
static struct entry *lock_entry(struct ledger *l, long serial)
{
    pthread_mutex_lock(&l->lock);
    if (serial >= 0 && (size_t)serial < l->count)
        return &l->entries[serial];
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void set_once(int64_t *when)
{
    if (*when == 0)
        *when = clock_mono_ms();
}

/* The first id told stays; every later one must be the same. */
static void tell_id(struct entry *e, char *known, size_t size, const char *id)
{
    if (known[0] == '\0')
        (void)snprintf(known, size, "%s", id);
    if (strcmp(known, id) != 0)
        e->changed_id = true;
}

long ledger_open(struct ledger *l, enum phase phase, enum behaviour behaviour, enum identity identity,
                 int64_t not_before_ms)
{
    long serial = -1;

    pthread_mutex_lock(&l->lock);
    if (l->count < l->capacity) {
        serial = (long)l->count++;
        struct entry *e = &l->entries[serial];
        e->phase = phase;
        e->behaviour = behaviour;
        e->identity = identity;
        e->not_before_ms = not_before_ms;
        if (identity == IDENTITY_OWN_ID)
            (void)snprintf(e->id, sizeof(e->id), "c-%ld", serial);
    }
    pthread_mutex_unlock(&l->lock);
    return serial;
}

void ledger_customize(struct ledger *l, long serial, enum custom custom, bool calls_back)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    e->custom = custom;
    e->calls_back = calls_back;
    pthread_mutex_unlock(&l->lock);
}

void ledger_accept(struct ledger *l, long serial, const char *id)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    tell_id(e, e->id, sizeof(e->id), id);
    set_once(&e->accepted_mono_ms);
    pthread_mutex_unlock(&l->lock);
}

static void stop_watching(struct ledger *l, struct entry *e)
{
    l->watched.waiting -= e->is_watched;
    e->is_watched = false;
}

void ledger_delete_sent(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    e->was_deleted = true;
    stop_watching(l, e);
    pthread_mutex_unlock(&l->lock);
}

void ledger_cancelled(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    set_once(&e->cancelled_mono_ms);
    pthread_mutex_unlock(&l->lock);
}

void ledger_missed(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    set_once(&e->missed_mono_ms);
    pthread_mutex_unlock(&l->lock);
}

void ledger_patched(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    set_once(&e->patched_mono_ms);
    pthread_mutex_unlock(&l->lock);
}

void ledger_run_sent(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    e->not_before_ms = clock_wall_ms();
    pthread_mutex_unlock(&l->lock);
}

void ledger_run(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    if (e->run_ms == 0)
        e->run_ms = clock_wall_ms();
    pthread_mutex_unlock(&l->lock);
}

void ledger_redriven(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    set_once(&e->redriven_mono_ms);
    pthread_mutex_unlock(&l->lock);
}

bool ledger_told(struct ledger *l, long serial, enum end end)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return false;
    e->told[end]++;
    pthread_mutex_unlock(&l->lock);
    return true;
}

/* A request came after one that was cut. */
static void note_redelivery(struct ledger *l, struct entry *e)
{
    int64_t took_ms = clock_mono_ms() - e->cut_mono_ms;

    if (took_ms > e->redelivery_ms)
        e->redelivery_ms = took_ms;
    if (e->is_watched) {
        l->watched.redelivered++;
        if (took_ms > l->watched.slowest_ms)
            l->watched.slowest_ms = took_ms;
    }
    stop_watching(l, e);
}

int ledger_request(struct ledger *l, long serial, const char *webhook_id, bool is_patched)
{
    int64_t now_ms = clock_wall_ms();
    struct entry *e = lock_entry(l, serial);
    int n;

    if (!e)
        return 0;
    n = ++e->requests;
    tell_id(e, e->seen_id, sizeof(e->seen_id), webhook_id);
    if (n == 1)
        e->first_seen_ms = now_ms;
    if (e->cut_mono_ms > 0)
        note_redelivery(l, e);
    e->cut_mono_ms = 0;
    if (now_ms < e->not_before_ms)
        e->came_early = true;
    if (e->cancelled_mono_ms > 0)
        e->came_after_cancel = true;
    if (e->patched_mono_ms > 0 && !is_patched)
        e->came_unpatched = true;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void ledger_success(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    e->successes++;
    pthread_mutex_unlock(&l->lock);
}

void ledger_cut(struct ledger *l, long serial)
{
    struct entry *e = lock_entry(l, serial);

    if (!e)
        return;
    e->cut_mono_ms = clock_mono_ms();
    if (e->cut_mono_ms <= l->watch_until_mono_ms && !e->was_deleted && !e->is_watched) {
        e->is_watched = true;
        l->watched.waiting++;
    }
    pthread_mutex_unlock(&l->lock);
}

void ledger_watch(struct ledger *l, int64_t ms)
{
    pthread_mutex_lock(&l->lock);
    l->watch_until_mono_ms = clock_mono_ms() + ms;
    pthread_mutex_unlock(&l->lock);
}

struct watched ledger_watched(struct ledger *l)
{
    pthread_mutex_lock(&l->lock);
    struct watched copy = l->watched;
    pthread_mutex_unlock(&l->lock);
    return copy;
}

size_t ledger_count(struct ledger *l)
{
    pthread_mutex_lock(&l->lock);
    size_t n = l->count;
    pthread_mutex_unlock(&l->lock);
    return n;
}

struct entry ledger_read(struct ledger *l, long serial)
{
    struct entry copy = {0};
    const struct entry *e = lock_entry(l, serial);

    if (!e)
        return copy;
    copy = *e;
    pthread_mutex_unlock(&l->lock);
    return copy;
}
