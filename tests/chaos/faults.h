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

/* Take only these faults from now on, names separated by commas, `_` for a blank: "gateway_killed,Redis_killed". False,
 * with a line that says which, when one of them is unknown. */
bool faults_choose(struct faults *f, const char *names);

/* The longest pause between faults; 0 unless set. */
void faults_pause_ms(struct faults *f, int64_t ms);

/* Until that moment, one fault after another, at random; between them mostly a pause until all has recovered. */
void faults_storm(struct faults *f, enum phase phase, int64_t until_mono_ms);

/* Until that moment, one gateway after another is killed, and nothing else happens until what it was delivering has
 * been sent again by the other: within claim-idle and 5 s each time. */
void faults_lone_kills(struct faults *f, int64_t until_mono_ms);

/* Whether something answered at this moment may be gone: Redis was killed within 2 s after it, while the append-only
 * file was not written before each answer. */
bool faults_excuse(const struct faults *f, int64_t answered_mono_ms);

/* Whether everything was itself again in time after every fault, and each gateway ended as it should. */
int faults_broken(const struct faults *f);

/* Whether something was taken out of Redis by hand, which is repaired within a minute. */
bool faults_have_orphaned(const struct faults *f);

/* How many gateways were killed. */
int faults_gateway_kills(const struct faults *f);

/* Gateways started within the last so many ms. */
int faults_recent_starts(const struct faults *f, int64_t within_ms);

void faults_print(const struct faults *f);
void faults_print_names(void);

#endif
