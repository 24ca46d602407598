#ifndef CHAOS_FAULTS_H
#define CHAOS_FAULTS_H

#include "../support/random.h"
#include "ledger.h"
#include "nodes.h"

/* The faults of the chaos run, each a row: what it does, how often it was done, how long recovery took. Threads: the
 * main thread. */

struct faults;

/* Keeps all. */
struct faults *faults_create(struct nodes *nodes, struct ledger *ledger, int hooks_port, struct random random);
void faults_destroy(struct faults **f);

/* Until that moment, one fault after another, at random; between them mostly a pause until all has recovered. */
void faults_storm(struct faults *f, enum phase phase, int64_t until_mono_ms);

/* Whether something answered at this moment may be gone: Redis was killed within 2 s after it, while the append-only
 * file was not written before each answer. */
bool faults_excuse(const struct faults *f, int64_t answered_mono_ms);

/* Whether everything was itself again in time after every fault, and each gateway ended as it should. */
int faults_broken(const struct faults *f);

/* Whether something was taken out of Redis by hand, which is repaired within a minute. */
bool faults_have_orphaned(const struct faults *f);

/* Gateways started within the last so many ms. */
int faults_recent_starts(const struct faults *f, int64_t within_ms);

void faults_print(const struct faults *f);

#endif
