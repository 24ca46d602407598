#ifndef RUN_AGENDA_PRIV_H
#define RUN_AGENDA_PRIV_H

#include <stdint.h>

/* What the mover does when: it asks Redis one thing at a time, and everything has its turn, even while there is always
 * something to move. Pure. */

enum chore {
    CHORE_MOVE = 0,
    CHORE_RECOVER,
    CHORE_SWEEP,
    CHORE_PATROL,
    CHORE_PEEK,
    CHORE_EXPIRE,
    CHORE_ANNOUNCE,
    CHORE_COUNT,
    CHORE_NONE
};

#define AGENDA_NEVER INT64_MAX

struct agenda {
    int64_t at_us[CHORE_COUNT]; /* monotonic: not before this */
};

/* The chore whose turn it is, CHORE_NONE when none is due. */
enum chore agenda_next(const struct agenda *a, int64_t now_us);

/* Until one is due; 0: now. AGENDA_NEVER: none is planned. */
int64_t agenda_wait_us(const struct agenda *a, int64_t now_us);

#endif
