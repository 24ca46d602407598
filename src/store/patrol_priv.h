#ifndef STORE_PATROL_PRIV_H
#define STORE_PATROL_PRIV_H

#include "base/err.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The round of orphans.lua and mend.lua: which of the two is next, from where, and when; and whether what is under way
 * or overdue keeps growing. No I/O here.
 *
 * A round goes through the tasks in the Stream and ends with a count. Two counts in a row that find tasks or records in
 * no container begin a walk through the whole keyspace. When that repaired nothing, the counters were wrong rather than
 * the containers: the next count puts `pending` right, and only a new difference begins another walk. */

#define PATROL_STEP_MS 5      /* between steps of a round or a walk */
#define PATROL_ROUND_MS 10000 /* between rounds */
#define PATROL_CURSOR_SIZE 48
#define PATROL_SAMPLES 7 /* one a round: a minute */
#define PATROL_SAMPLE_MS 9000

struct patrol {
    bool is_walking;                 /* mend.lua is next, else orphans.lua */
    bool was_walked;                 /* all records were just looked at */
    char cursor[PATROL_CURSOR_SIZE]; /* of the next step */
    int64_t pending, records;        /* the difference counted last */
    int64_t known;                   /* the difference in records that a walk could not repair */
    int64_t walk_repaired;
    int64_t wait_ms; /* before the next step */

    int64_t delivering[PATROL_SAMPLES], overdue[PATROL_SAMPLES]; /* newest last */
    int sample_count;
    int64_t next_sample_mono_ms;
    bool is_growing; /* set by a step: something has grown in each sample of the last minute */
};

void patrol_init(struct patrol *p);

/* Take the answer of the step that was due; *repaired becomes the tasks it put right. ERR_INVALID when it has not the
 * form of the script's answer; nothing is changed then. */
enum err patrol_read(struct patrol *p, const redisReply *reply, int64_t now_mono_ms, int64_t *repaired) NODISCARD;

#endif
