#ifndef CHAOS_HARM_H
#define CHAOS_HARM_H

#include "../support/random.h"
#include "ledger.h"
#include "nodes.h"

/* What can be done to gateways and Redis, as a table, and a diary of what was done. Threads: the main thread. */

#define HARM_DIARY_MAX 4096

struct harm {
    struct nodes *nodes;
    struct random random;
    enum phase phase;
    int64_t lossy_kills[HARM_DIARY_MAX]; /* when Redis was killed with its file written every second only */
    int64_t starts[HARM_DIARY_MAX];      /* when gateways were started */
    int lossy_kill_count, start_count, gateway_kills;
    int broken; /* what went wrong; each was printed */
};

struct fault {
    const char *name;
    void (*inject)(struct harm *h);
    int phases, weight;
    bool is_orphaning; /* what it takes away is repaired by the patrol, within a minute */
};

extern const struct fault FAULTS[];
extern const size_t FAULT_COUNT;

int64_t harm_between(struct harm *h, int64_t low, int64_t high); /* at random */
void harm_broken(struct harm *h, const char *what, int64_t value);

int harm_pick_gateway(struct harm *h);
void harm_kill_gateway(struct harm *h, int i);
void harm_start_gateway(struct harm *h, int i);

#endif
