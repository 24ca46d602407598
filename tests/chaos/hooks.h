#ifndef CHAOS_HOOKS_H
#define CHAOS_HOOKS_H

#include "ledger.h"

/* The receiver of the chaos run: enters every webhook in the ledger and answers as its task's behaviour says. Tasks go
 * to http://127.0.0.1:PORT/SERIAL, and those that are answered with 429 to 127.0.0.2: a gateway sends less to a
 * receiver that asks for less, and the tasks of the others must not wait for that. Callbacks go to /cb/SERIAL. */

#define LIMITED_QUEUE "limited"
#define LIMITED_SLOTS 3

struct hooks;

/* Keeps `ledger`. */
struct hooks *hooks_create(struct ledger *ledger);
void hooks_destroy(struct hooks **h);
int hooks_port(const struct hooks *h);

/* Requests that belong to no task. */
int hooks_strange(struct hooks *h);

/* The most requests of LIMITED_QUEUE that were under way at once, since the last time this was asked. */
int hooks_take_busiest(struct hooks *h);

#endif
