#ifndef CHAOS_VERDICT_H
#define CHAOS_VERDICT_H

#include "ask.h"
#include "faults.h"
#include "hooks.h"
#include "ledger.h"
#include "nodes.h"
#include "traffic.h"

/* What the run must have kept, checked sentence by sentence; each is one of the tests that the run counts. */

struct run {
    struct nodes *nodes;
    struct ledger *ledger;
    struct hooks *hooks;
    struct traffic *traffic;
    struct faults *faults;
    struct ask *ask;
    int64_t memory_before; /* Redis' used_memory before the first task */
    struct usage usage_before;
    int busiest_in_calm, busiest;       /* of the limited queue */
    int duplicates, lost, lost_excused; /* these and below: filled by verdict_tasks */
    int worn_out;                       /* dead as TASK_TAKEOVERS_MAX says */
    int64_t slowest_redelivery_ms;      /* from the end of a request whose gateway went away to the next request */
    int64_t latest_ms;                  /* the latest first request, from the due time */
};

/* Wait until nothing is scheduled, ready or delivering; whether that came in time. */
bool verdict_settled(struct run *r);

/* Every task of the ledger, against what GET says now. */
void verdict_tasks(struct run *r);

/* Counters, containers, consumers, clients, gateways. */
void verdict_state(struct run *r);

/* After all tasks were removed: memory and keys are back. */
void verdict_empty(struct run *r);

#endif
