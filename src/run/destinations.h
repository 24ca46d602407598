#ifndef RUN_DESTINATIONS_H
#define RUN_DESTINATIONS_H

#include "base/err.h"
#include "task/outcome.h"
#include "task/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The care for each destination, a scheme, host and port, in this process (DESIGN section 3): how many attempts it may
 * have in flight, and whether it is worth sending to at all. No I/O, and the time is given. Threads: any; each call
 * takes one short lock.
 *
 * Limit. None at first. A destination that asks for less (OUTCOME_BUSY) gets half of what is in flight, once for all
 * that was on the way at that moment, and never less than one; each success adds one, until there is no limit again.
 *
 * Circuit breaker. Opens when `breaker_failures` attempts have failed without a success between, over `breaker_after`
 * at least. Then nothing is sent but one probe at a time, after `breaker_probe`, twice that, and so on up to a minute.
 * Any answer that shows the destination alive (OUTCOME_ALIVE) closes it. */

struct destinations;

struct destinations_opts {
    int capacity;         /* attempts in flight of all: a limit as high is none */
    int breaker_failures; /* 0: it never opens */
    int64_t breaker_after_ms;
    int64_t breaker_probe_ms;
};

struct destinations *destinations_create(const struct destinations_opts *opts);
void destinations_destroy(struct destinations **d); /* NULL-safe */

enum destination_answer {
    DESTINATION_GO = 0, /* an attempt has begun: destinations_end() ends it */
    DESTINATION_FULL,   /* not now: as many are in flight as it may have */
    DESTINATION_CLOSED, /* not soon: waiting for it here is of no use */
};

/* What an attempt has to bring back. */
struct destination_ticket {
    unsigned cut; /* how often the limit had been cut when it began */
    bool is_probe;
};

/* May an attempt begin? `hash` is target_place_hash() of the URL. */
enum destination_answer destinations_start(struct destinations *d, uint64_t hash, const char *url, int64_t now_mono_ms,
                                           struct destination_ticket *ticket);

/* It has ended, or did not begin after all (OUTCOME_UNKNOWN). Says what became of the breaker by it. */
struct destination_end {
    enum outcome_health health;
    enum task_error_kind error_kind;
    struct destination_ticket ticket;
};
enum destination_change { DESTINATION_SAME = 0, DESTINATION_HAS_OPENED, DESTINATION_HAS_CLOSED };
enum destination_change destinations_end(struct destinations *d, uint64_t hash, const struct destination_end *end,
                                         int64_t now_mono_ms);

/* How long a task that may not begin should stay in its lane: longer and longer while nothing succeeds, until the next
 * probe when there is one, and so that the tasks of a large backlog come back a few hundred a second and not all at
 * once. `random` in [0, 1) spreads them. *is_stuck: waiting here for a moment will be of no use to the next one. */
int64_t destinations_back_off_ms(struct destinations *d, uint64_t hash, int64_t now_mono_ms, double random,
                                 bool *is_stuck);

/* --- for people --- */

enum destination_state { DESTINATION_STATE_CLOSED = 0, DESTINATION_STATE_HALF_OPEN, DESTINATION_STATE_OPEN };

struct destination_view {
    char *name; /* "https://example.com:443" */
    enum destination_state state;
    int in_flight;
    int limit; /* 0: none */
    int64_t failures_in_a_row;
    int64_t last_success_mono_ms; /* -1: none yet; also the next two */
    int64_t last_failure_mono_ms;
    int64_t next_probe_mono_ms;
    enum task_error_kind last_error_kind;
};

struct destinations_summary {
    int count, limited, open; /* open: half-open ones too */
};

void destinations_summarize(struct destinations *d, int64_t now_mono_ms, struct destinations_summary *out);

/* The worst first, at most `max`. Gives an array; destinations_free_list(). */
struct destination_view *destinations_list(struct destinations *d, int64_t now_mono_ms, size_t max, size_t *count);
void destinations_free_list(struct destination_view *list, size_t count);

#endif
