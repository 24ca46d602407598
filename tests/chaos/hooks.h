#ifndef CHAOS_HOOKS_H
#define CHAOS_HOOKS_H

#include "ledger.h"

/* The receiver of the chaos run: enters every webhook in the ledger and answers as its task's behaviour says. Tasks go
 * to http://127.0.0.1:PORT/SERIAL. */

struct hooks;

/* Keeps `ledger`. */
struct hooks *hooks_create(struct ledger *ledger);
void hooks_destroy(struct hooks **h);
int hooks_port(const struct hooks *h);

/* Requests that belong to no task. */
int hooks_strange(struct hooks *h);

#endif
