#ifndef CHAOS_LEDGER_H
#define CHAOS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was said to clients and what the receiver saw, task by task: the two sides that must agree in the end.
 *
 * A task is known by a serial number that stands in the path of its URL, so that a request can be laid to its task even
 * when the answer to the POST, and with it the id, was lost. Threads: any. */

/* How the receiver answers a task; the n-th request to it gets the n-th answer, the last one repeats. */
enum behaviour {
    BEHAVE_OK = 0,
    BEHAVE_FAIL_ONCE,
    BEHAVE_FAIL_TWICE,
    BEHAVE_SLOW,       /* up to 3 s, longer than claim-idle */
    BEHAVE_HANG_ONCE,  /* no answer until the gateway gives up */
    BEHAVE_RESET_ONCE, /* a reset instead of an answer */
    BEHAVE_BUSY_ONCE,  /* 429 with Retry-After: 1 */
    BEHAVE_GONE,       /* 410: dead at once */
    BEHAVE_GONE_ONCE,  /* 410, and good when it is redriven */
    BEHAVE_FAIL_ALWAYS,
    BEHAVE_COUNT
};

/* What makes a repeated POST the same task. */
enum identity {
    IDENTITY_OWN_ID = 0, /* the client chose the id */
    IDENTITY_KEY,        /* it came with an Idempotency-Key */
    IDENTITY_NONE,       /* nothing: it is posted once */
    IDENTITY_COUNT
};

/* What else is done to a task. */
enum custom {
    CUSTOM_NONE = 0,
    CUSTOM_PATCHED,  /* a PATCH near its due time: another payload */
    CUSTOM_RUN,      /* due much later, and run before */
    CUSTOM_REDRIVEN, /* redriven when it is dead */
    CUSTOM_LIMITED,  /* in a queue with few slots */
    CUSTOM_HELD,     /* in a paused queue, until it expires */
    CUSTOM_COUNT
};

/* How a task ends, as its callback tells. */
enum end { END_DELIVERED = 0, END_DEAD, END_EXPIRED, END_COUNT };

enum phase { PHASE_CALM_FIRST = 0, PHASE_ALWAYS, PHASE_LONE_KILLS, PHASE_EVERYSEC, PHASE_CALM_LAST, PHASE_COUNT };

struct entry {
    char id[40];      /* as chosen or answered; "" when neither */
    char seen_id[40]; /* the webhook-id of the first request */
    enum behaviour behaviour;
    enum phase phase;
    enum identity identity;
    bool was_deleted;          /* a DELETE was sent */
    bool came_early;           /* a request before the due time */
    bool came_after_cancel;    /* a request after DELETE was answered with 204 */
    bool changed_id;           /* two requests or answers of it disagree on the id */
    int64_t not_before_ms;     /* Unix time: what the due time is at least */
    int64_t accepted_mono_ms;  /* first 201 or 200; 0: never */
    int64_t cancelled_mono_ms; /* first 204; 0: never */
    int64_t missed_mono_ms;    /* first GET or DELETE that found nothing after it was accepted; 0: never */
    int64_t first_seen_ms;     /* Unix time of the first request; 0: none */
    int64_t cut_mono_ms;       /* its gateway went away during the last request; 0: no */
    int64_t redelivery_ms;     /* the longest time from that to the next request */
    bool is_watched;           /* that was while the ledger watched, and no next request came yet */
    enum custom custom;
    bool calls_back;
    bool came_unpatched;      /* a request with the old payload after PATCH was answered with 200 */
    int64_t patched_mono_ms;  /* first 200; 0: never */
    int64_t run_ms;           /* Unix time of the first 200; 0: never */
    int64_t redriven_mono_ms; /* first 200; 0: never */
    int told[END_COUNT];      /* callbacks that came */
    int requests, successes;  /* requests seen, and those answered with 200 */
};

struct ledger;

struct ledger *ledger_create(size_t capacity);
void ledger_destroy(struct ledger **l);

/* Opens a task; gives its serial number, or -1 when the ledger is full. An own id is "c-SERIAL". */
long ledger_open(struct ledger *l, enum phase phase, enum behaviour behaviour, enum identity identity,
                 int64_t not_before_ms);

/* To be told before it is posted. */
void ledger_customize(struct ledger *l, long serial, enum custom custom, bool calls_back);

/* A POST was answered with 201 or 200 and this id. */
void ledger_accept(struct ledger *l, long serial, const char *id);

void ledger_delete_sent(struct ledger *l, long serial);
void ledger_cancelled(struct ledger *l, long serial);
void ledger_missed(struct ledger *l, long serial);
void ledger_patched(struct ledger *l, long serial);
void ledger_run_sent(struct ledger *l, long serial); /* from now on it may come */
void ledger_run(struct ledger *l, long serial);
void ledger_redriven(struct ledger *l, long serial);

/* A request arrived, with the payload of the PATCH or without; returns which one of its task it is, from 1; 0 when
 * there is no such task. */
int ledger_request(struct ledger *l, long serial, const char *webhook_id, bool is_patched);

/* A callback arrived; false when there is no such task. */
bool ledger_told(struct ledger *l, long serial, enum end end);
void ledger_success(struct ledger *l, long serial);
void ledger_cut(struct ledger *l, long serial);

/* Watch, from now on for so many ms, whose requests are cut: the tasks of a gateway that is killed now. */
void ledger_watch(struct ledger *l, int64_t ms);

struct watched {
    int waiting;        /* tasks cut meanwhile that must still be sent again; one that is deleted need not be */
    int redelivered;    /* those that were, since the beginning */
    int64_t slowest_ms; /* the longest time that took */
};
struct watched ledger_watched(struct ledger *l);

size_t ledger_count(struct ledger *l);
struct entry ledger_read(struct ledger *l, long serial);

#endif
