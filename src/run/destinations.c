#include "run/destinations.h"

#include "base/lock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* A hash table of destinations behind one lock. What happens under it is a few comparisons; names are made and lists
 * copied only for new destinations and for people who ask.
 *
 * Every destination is also in one list by the time it was last used, so those that nobody has used for long are found
 * at its head. A destination in its normal state is forgotten after ten minutes, another one after an hour, since its
 * tasks may wait that long; beyond DESTINATIONS_MAX the oldest go whatever their state.
 *
 * Backing off works in rounds, each as long as the wait it gives. What was given back within a round tells how large
 * the backlog is: with CROWD_MS for each task, a dead destination's backlog comes round a few hundred times a second,
 * whether it is ten tasks or a million. */

#define BUCKETS 1024
#define DESTINATIONS_MAX 10000
#define NORMAL_IDLE_MS ((int64_t)10 * 60 * 1000)
#define OTHER_IDLE_MS ((int64_t)60 * 60 * 1000)
#define PROBE_MAX_MS ((int64_t)60 * 1000)
#define BACK_OFF_MIN_MS 100
#define BACK_OFF_MAX_MS 30000
#define CROWD_MS 2 /* for each task of the backlog */
#define CROWD_MAX_MS ((int64_t)10 * 60 * 1000)

struct destination {
    struct destination *next; /* in its bucket */
    TAILQ_ENTRY(destination) link;
    uint64_t hash;
    char *name;
    int64_t used_mono_ms;
    int in_flight;
    int limit;    /* 0: none */
    unsigned cut; /* how often the limit was cut */

    /* The breaker. */
    bool is_open;
    int probes; /* in flight */
    int64_t failures;
    int64_t failing_since_mono_ms; /* the first of them */
    int64_t probe_begun_mono_ms;   /* the last one */
    int64_t probe_wait_ms;         /* after the next one */
    int64_t next_probe_mono_ms;
    int64_t last_success_mono_ms; /* -1: none yet */
    int64_t last_failure_mono_ms;
    enum task_error_kind last_error_kind;

    /* Tasks that were given back. */
    int64_t back_off_ms; /* 0: none was since the last success */
    int64_t round_ms;
    int64_t round_end_mono_ms;
    int64_t given_back;      /* in this round */
    int64_t given_back_last; /* in the one before */
};

TAILQ_HEAD(destination_list, destination);

struct destinations {
    struct lock *lock;
    struct destinations_opts opts;
    struct destination *buckets[BUCKETS];
    struct destination_list by_use; /* the longest unused first */
    int count;
};

/* --- the table --- */

struct destinations *destinations_create(const struct destinations_opts *opts)
{
    struct destinations *d = xcalloc(1, sizeof *d);

    d->opts = *opts;
    TAILQ_INIT(&d->by_use);
    d->lock = lock_create();
    return d;
}

static void forget(struct destinations *d, struct destination *one)
{
    struct destination **link = &d->buckets[one->hash % BUCKETS];

    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
    TAILQ_REMOVE(&d->by_use, one, link);
    d->count--;
    free(one->name);
    free(one);
}

void destinations_destroy(struct destinations **destinations)
{
    struct destinations *d = *destinations;

    if (!d)
        return;
    *destinations = NULL;
    while (!TAILQ_EMPTY(&d->by_use))
        forget(d, TAILQ_FIRST(&d->by_use));
    lock_destroy(&d->lock);
    free(d);
}

static struct destination *find(const struct destinations *d, uint64_t hash)
{
    struct destination *one = d->buckets[hash % BUCKETS];

    while (one && one->hash != hash)
        one = one->next;
    return one;
}

static bool is_forgettable(const struct destination *one, int64_t now)
{
    bool is_normal = !one->is_open && one->limit == 0;

    return one->in_flight == 0 && now - one->used_mono_ms >= (is_normal ? NORMAL_IDLE_MS : OTHER_IDLE_MS);
}

/* Make room for one more. */
static void forget_oldest(struct destinations *d, int64_t now)
{
    struct destination *oldest = TAILQ_FIRST(&d->by_use);

    if (oldest && is_forgettable(oldest, now))
        forget(d, oldest);
    if (d->count < DESTINATIONS_MAX)
        return;
    for (oldest = TAILQ_FIRST(&d->by_use); oldest && oldest->in_flight > 0;)
        oldest = TAILQ_NEXT(oldest, link);
    if (oldest)
        forget(d, oldest);
}

static struct destination *add(struct destinations *d, uint64_t hash, const char *url, int64_t now)
{
    struct destination *one = xcalloc(1, sizeof *one);
    struct target_place place;

    forget_oldest(d, now);
    target_place(url, &place);
    one->name = target_place_name(&place);
    one->hash = hash;
    one->last_success_mono_ms = one->last_failure_mono_ms = -1;
    one->next = d->buckets[hash % BUCKETS];
    d->buckets[hash % BUCKETS] = one;
    TAILQ_INSERT_TAIL(&d->by_use, one, link);
    d->count++;
    return one;
}

static void note_use(struct destinations *d, struct destination *one, int64_t now)
{
    one->used_mono_ms = now;
    TAILQ_REMOVE(&d->by_use, one, link);
    TAILQ_INSERT_TAIL(&d->by_use, one, link);
}

/* --- decisions --- */

/* A probe that gets no answer for long does not keep the next one from being sent. */
static void begin_probe(const struct destinations *d, struct destination *one, int64_t now)
{
    int64_t longest = d->opts.breaker_probe_ms > PROBE_MAX_MS ? d->opts.breaker_probe_ms : PROBE_MAX_MS;

    one->probes++;
    one->probe_begun_mono_ms = now;
    one->next_probe_mono_ms = now + one->probe_wait_ms;
    one->probe_wait_ms = 2 * one->probe_wait_ms < longest ? 2 * one->probe_wait_ms : longest;
}

static enum destination_answer decide(const struct destinations *d, struct destination *one, int64_t now,
                                      struct destination_ticket *ticket)
{
    *ticket = (struct destination_ticket){.cut = one->cut};
    if (one->is_open && now < one->next_probe_mono_ms)
        return DESTINATION_CLOSED;
    if (one->is_open) {
        ticket->is_probe = true;
        begin_probe(d, one, now);
    } else if (one->limit > 0 && one->in_flight >= one->limit) {
        return one->back_off_ms > BACK_OFF_MIN_MS ? DESTINATION_CLOSED : DESTINATION_FULL;
    }
    one->in_flight++;
    return DESTINATION_GO;
}

static enum destination_change note_success(const struct destinations *d, struct destination *one, int64_t now)
{
    bool was_open = one->is_open;

    one->last_success_mono_ms = now;
    one->failures = 0;
    one->is_open = false;
    one->back_off_ms = 0;
    if (one->limit > 0 && ++one->limit >= d->opts.capacity)
        one->limit = 0;
    return was_open ? DESTINATION_HAS_CLOSED : DESTINATION_SAME;
}

static enum destination_change note_failure(const struct destinations *d, struct destination *one,
                                            enum task_error_kind kind, int64_t now)
{
    one->last_failure_mono_ms = now;
    one->last_error_kind = kind;
    if (one->failures++ == 0)
        one->failing_since_mono_ms = now;
    if (one->is_open || d->opts.breaker_failures == 0 || one->failures < d->opts.breaker_failures ||
        now - one->failing_since_mono_ms < d->opts.breaker_after_ms)
        return DESTINATION_SAME;
    one->is_open = true;
    one->next_probe_mono_ms = now + d->opts.breaker_probe_ms;
    one->probe_wait_ms = d->opts.breaker_probe_ms;
    return DESTINATION_HAS_OPENED;
}

/* Half of what is in flight, this attempt included; answers to what was sent before the cut do not cut again. */
static void cut_limit(struct destination *one, unsigned cut)
{
    if (cut != one->cut)
        return;
    one->limit = one->in_flight / 2 > 1 ? one->in_flight / 2 : 1;
    one->cut++;
}

enum destination_answer destinations_start(struct destinations *d, uint64_t hash, const char *url, int64_t now_mono_ms,
                                           struct destination_ticket *ticket)
{
    struct destination *one;
    enum destination_answer answer;

    lock_take(d->lock);
    one = find(d, hash);
    if (!one)
        one = add(d, hash, url, now_mono_ms);
    note_use(d, one, now_mono_ms);
    answer = decide(d, one, now_mono_ms, ticket);
    lock_give(d->lock);
    return answer;
}

static enum destination_change note_end(struct destinations *d, struct destination *one,
                                        const struct destination_end *end, int64_t now)
{
    enum destination_change change = DESTINATION_SAME;

    note_use(d, one, now);
    switch (end->health) {
    case OUTCOME_ALIVE:
        change = note_success(d, one, now);
        break;
    case OUTCOME_BUSY:
        cut_limit(one, end->ticket.cut);
        change = note_failure(d, one, end->error_kind, now);
        break;
    case OUTCOME_FAILING:
        change = note_failure(d, one, end->error_kind, now);
        break;
    case OUTCOME_UNKNOWN:
        break;
    }
    one->in_flight--;
    one->probes -= end->ticket.is_probe;
    return change;
}

enum destination_change destinations_end(struct destinations *d, uint64_t hash, const struct destination_end *end,
                                         int64_t now_mono_ms)
{
    struct destination *one;
    enum destination_change change = DESTINATION_SAME;

    lock_take(d->lock);
    one = find(d, hash); /* never forgotten while something is in flight */
    if (one)
        change = note_end(d, one, end, now_mono_ms);
    lock_give(d->lock);
    return change;
}

/* --- backing off --- */

static int64_t crowd_ms(const struct destination *one)
{
    int64_t n = one->given_back > one->given_back_last ? one->given_back : one->given_back_last;

    return n < CROWD_MAX_MS / CROWD_MS ? n * CROWD_MS : CROWD_MAX_MS;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t grown_back_off_ms(const struct destination *one)
{
    int64_t longest = larger(BACK_OFF_MAX_MS, crowd_ms(one));

    if (one->back_off_ms == 0)
        return BACK_OFF_MIN_MS;
    return 2 * one->back_off_ms < longest ? 2 * one->back_off_ms : longest;
}

/* A round that nobody was given back in for its whole length tells that there is no backlog any more. */
static void begin_round(struct destination *one, int64_t now)
{
    one->given_back_last = now < one->round_end_mono_ms + one->round_ms ? one->given_back : 0;
    one->given_back = 0;
    one->back_off_ms = grown_back_off_ms(one);
    one->round_ms = larger(one->back_off_ms, crowd_ms(one));
    one->round_end_mono_ms = now + one->round_ms;
}

static void note_given_back(struct destination *one, int64_t now)
{
    if (now >= one->round_end_mono_ms)
        begin_round(one, now);
    else if (one->back_off_ms == 0)
        one->back_off_ms = BACK_OFF_MIN_MS;
    one->given_back++;
}

/* While a probe is on the way its end is probably near: as much longer as it already took. Else until the next one. */
static int64_t back_off_ms(struct destination *one, int64_t now, double random)
{
    int64_t base = one->back_off_ms;

    if (one->is_open && one->probes == 0)
        return larger(one->next_probe_mono_ms - now, 0) + (int64_t)((double)crowd_ms(one) * random);
    if (one->is_open)
        base = larger(now - one->probe_begun_mono_ms, BACK_OFF_MIN_MS);
    return base + (int64_t)((double)larger(base, crowd_ms(one)) * random);
}

int64_t destinations_back_off_ms(struct destinations *d, uint64_t hash, int64_t now_mono_ms, double random,
                                 bool *is_stuck)
{
    struct destination *one;
    int64_t ms = BACK_OFF_MIN_MS;

    lock_take(d->lock);
    one = find(d, hash);
    if (one) {
        note_given_back(one, now_mono_ms);
        ms = back_off_ms(one, now_mono_ms, random);
    }
    *is_stuck = one && one->back_off_ms > BACK_OFF_MIN_MS;
    lock_give(d->lock);
    return ms;
}

/* --- for people --- */

/* Forgets those that nobody has used for long. */
void destinations_summarize(struct destinations *d, int64_t now_mono_ms, struct destinations_summary *out)
{
    memset(out, 0, sizeof *out);
    lock_take(d->lock);
    for (struct destination *one = TAILQ_FIRST(&d->by_use), *next; one; one = next) {
        next = TAILQ_NEXT(one, link);
        if (is_forgettable(one, now_mono_ms)) {
            forget(d, one);
            continue;
        }
        out->count++;
        out->limited += one->limit > 0;
        out->open += one->is_open;
    }
    lock_give(d->lock);
}

static enum destination_state state_of(const struct destination *one)
{
    if (!one->is_open)
        return DESTINATION_STATE_CLOSED;
    return one->probes > 0 ? DESTINATION_STATE_HALF_OPEN : DESTINATION_STATE_OPEN;
}

static struct destination_view view_of(const struct destination *one)
{
    return (struct destination_view){.name = xstrdup(one->name),
                                     .state = state_of(one),
                                     .in_flight = one->in_flight,
                                     .limit = one->limit,
                                     .failures_in_a_row = one->failures,
                                     .last_success_mono_ms = one->last_success_mono_ms,
                                     .last_failure_mono_ms = one->last_failure_mono_ms,
                                     .next_probe_mono_ms = one->is_open ? one->next_probe_mono_ms : -1,
                                     .last_error_kind = one->last_error_kind};
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Worse is less: open before half-open before limited before failing before busy. */
static int compare_badness(const void *left, const void *right)
{
    const struct destination_view *a = left, *b = right;
    int order = compare(b->state, a->state);

    if (order == 0)
        order = compare(b->limit > 0, a->limit > 0);
    if (order == 0)
        order = compare(b->failures_in_a_row, a->failures_in_a_row);
    if (order == 0)
        order = compare(b->in_flight, a->in_flight);
    return order == 0 ? strcmp(a->name, b->name) : order;
}

void destinations_free_list(struct destination_view *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i].name);
    free(list);
}

struct destination_view *destinations_list(struct destinations *d, int64_t now_mono_ms, size_t max, size_t *count)
{
    struct destination_view *list;
    struct destination *one;
    size_t n = 0;

    lock_take(d->lock);
    list = xcalloc((size_t)d->count + 1, sizeof *list);
    TAILQ_FOREACH(one, &d->by_use, link)
    {
        if (!is_forgettable(one, now_mono_ms))
            list[n++] = view_of(one);
    }
    lock_give(d->lock);
    qsort(list, n, sizeof *list, compare_badness);
    *count = n < max ? n : max;
    for (size_t i = *count; i < n; i++)
        free(list[i].name);
    return list;
}
