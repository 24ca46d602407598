#include "run/agenda_priv.h"

/* How late a chore may be before a move that is due waits for it. A move is due again with the answer to the last one
 * as long as there is a backlog, so without this the heartbeat would stop, and tasks of dead workers would never come
 * back. One call takes about a millisecond: moving loses next to nothing. */
static const int64_t PATIENCE_US[CHORE_COUNT] = {
    [CHORE_RECOVER] = 50000,
    [CHORE_SWEEP] = 50000,
    [CHORE_PATROL] = 200000,
};

enum chore agenda_next(const struct agenda *a, int64_t now_us)
{
    enum chore best = CHORE_NONE;
    int64_t best_us = 0;

    for (int c = 0; c < CHORE_COUNT; c++) {
        if (a->at_us[c] > now_us)
            continue;
        int64_t latest_us = a->at_us[c] + PATIENCE_US[c];
        if (best == CHORE_NONE || latest_us < best_us) {
            best = (enum chore)c;
            best_us = latest_us;
        }
    }
    return best;
}

int64_t agenda_wait_us(const struct agenda *a, int64_t now_us)
{
    int64_t first = AGENDA_NEVER;

    for (int c = 0; c < CHORE_COUNT; c++)
        first = a->at_us[c] < first ? a->at_us[c] : first;
    if (first == AGENDA_NEVER)
        return AGENDA_NEVER;
    return first > now_us ? first - now_us : 0;
}
