#ifndef CHAOS_TRAFFIC_H
#define CHAOS_TRAFFIC_H

#include "ledger.h"
#include "nodes.h"

/* The clients: threads that POST tasks of every behaviour, alone and in batches, read them back, DELETE and PATCH some
 * within 5 ms of their due time, run some before it and redrive some that are dead. What they are told goes into the
 * ledger, and what they must never be told is counted. */

struct traffic;

/* A queue that is paused all the time. */
#define HELD_QUEUE "held"

/* What clients saw. */
struct traffic_counts {
    long posts, accepted, refused; /* refused: 503, or no answer */
    long repeats;                  /* the same request again, answered with 200 */
    long deletes, cancelled, under_way, too_late;
    long patches, patched;
    long runs, redriven, batches, lists;
    long gets;
    long wrong;         /* answers that no fault explains: printed as they come */
    int64_t slowest_ms; /* the slowest answer of a gateway that was not itself stopped or killed meanwhile */
};

/* Keeps all. Starts paused. `per_second` is the number of tasks that are posted at most. */
struct traffic *traffic_create(struct nodes *nodes, struct ledger *ledger, int hooks_port, uint64_t seed,
                               int per_second);
void traffic_destroy(struct traffic **t); /* ends the threads */

/* Post tasks of this phase until traffic_pause(), which returns when no request is under way any more. */
void traffic_resume(struct traffic *t, enum phase phase);
void traffic_pause(struct traffic *t);

/* Post several tasks of this phase into LIMITED_QUEUE, all due at the same moment; whether all were accepted. */
bool traffic_crowd(struct traffic *t, enum phase phase);

struct traffic_counts traffic_counts(struct traffic *t);

/* The body of a POST for a task of the ledger. `due` is `"delay":N` or `"run_at":N`. */
void traffic_body(char *out, size_t size, struct ledger *l, long serial, int hooks_port, const char *due);

#endif
