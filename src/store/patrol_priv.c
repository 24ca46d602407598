#include "store/patrol_priv.h"

#include "store/reply_priv.h"

#include <stdio.h>
#include <string.h>

static void begin_round(struct patrol *p)
{
    p->is_walking = false;
    (void)snprintf(p->cursor, sizeof p->cursor, "0");
}

void patrol_init(struct patrol *p)
{
    memset(p, 0, sizeof *p);
    begin_round(p);
}

static bool has_grown(const int64_t *samples)
{
    for (int i = 1; i < PATROL_SAMPLES; i++)
        if (samples[i] <= samples[i - 1])
            return false;
    return true;
}

static void sample(struct patrol *p, int64_t delivering, int64_t overdue, int64_t now_mono_ms)
{
    const size_t kept = (PATROL_SAMPLES - 1) * sizeof(int64_t);

    if (now_mono_ms < p->next_sample_mono_ms)
        return;
    p->next_sample_mono_ms = now_mono_ms + PATROL_SAMPLE_MS;
    memmove(p->delivering, p->delivering + 1, kept);
    memmove(p->overdue, p->overdue + 1, kept);
    p->delivering[PATROL_SAMPLES - 1] = delivering;
    p->overdue[PATROL_SAMPLES - 1] = overdue;
    p->sample_count++;
    p->is_growing = p->sample_count >= PATROL_SAMPLES && (has_grown(p->delivering) || has_grown(p->overdue));
}

/* After a count: walk when it has found the same kind of difference as the one before. */
static void judge(struct patrol *p, int64_t pending, int64_t records)
{
    bool was_different = p->pending != 0 || p->records != p->known;
    bool is_different;

    if (p->was_walked && p->walk_repaired == 0)
        p->known = records;
    if (records == 0)
        p->known = 0;
    p->was_walked = false;
    is_different = pending != 0 || records != p->known;
    p->pending = pending;
    p->records = records;
    if (!is_different || !was_different)
        return;
    p->is_walking = true;
    p->walk_repaired = 0;
    p->cursor[0] = '\0';
    p->wait_ms = PATROL_STEP_MS;
}

static void after_walk(struct patrol *p)
{
    begin_round(p);
    p->was_walked = true;
}

enum err patrol_read(struct patrol *p, const redisReply *reply, int64_t now_mono_ms, int64_t *repaired)
{
    int64_t count, pending = 0, records = 0, delivering = 0, overdue = 0;
    const redisReply *next;
    bool is_last;

    p->is_growing = false;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || !reply_is_string(reply->element[0]) ||
        reply->element[0]->len >= PATROL_CURSOR_SIZE || !reply_int(reply->element[1], &count))
        return ERR_INVALID;
    next = reply->element[0];
    is_last = strcmp(next->str, p->is_walking ? "" : "0") == 0;
    if (is_last && !p->is_walking &&
        (!reply_is_array(reply, 6) || !reply_int(reply->element[2], &pending) ||
         !reply_int(reply->element[3], &records) || !reply_int(reply->element[4], &delivering) ||
         !reply_int(reply->element[5], &overdue)))
        return ERR_INVALID;
    *repaired = count;
    memcpy(p->cursor, next->str, next->len + 1);
    p->wait_ms = is_last ? PATROL_ROUND_MS : PATROL_STEP_MS;
    p->walk_repaired += p->is_walking ? count : 0;
    if (is_last && p->is_walking) {
        after_walk(p);
    } else if (is_last) {
        sample(p, delivering, overdue, now_mono_ms);
        judge(p, pending, records);
    }
    return ERR_OK;
}
