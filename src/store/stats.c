#include "store/stats_priv.h"

#include "base/mem.h"
#include "base/parse.h"
#include "store/reply_priv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_FIELDS 8 /* of one queue in the answer of stats.lua */

static void read_totals(const redisReply *r, struct store_stats *s)
{
    static const struct {
        const char *name;
        size_t offset;
    } FIELDS[] = {
        {"created", offsetof(struct store_stats, created)},
        {"duplicates", offsetof(struct store_stats, duplicates)},
        {"attempts", offsetof(struct store_stats, attempts)},
        {"delivered", offsetof(struct store_stats, delivered)},
        {"failed_attempts", offsetof(struct store_stats, failed_attempts)},
        {"retried", offsetof(struct store_stats, retried)},
        {"dead", offsetof(struct store_stats, dead)},
        {"cancelled", offsetof(struct store_stats, cancelled)},
        {"expired", offsetof(struct store_stats, expired)},
        {"recovered", offsetof(struct store_stats, recovered)},
        {"orphans", offsetof(struct store_stats, orphans)},
        {"trimmed", offsetof(struct store_stats, trimmed)},
    };

    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        const redisReply *name = r->element[i], *value = r->element[i + 1];
        int64_t n;
        if (!reply_is_string(name) || !reply_is_string(value) || !parse_int64(value->str, value->len, &n))
            continue;
        for (size_t f = 0; f < sizeof FIELDS / sizeof *FIELDS; f++)
            if (strcmp(name->str, FIELDS[f].name) == 0)
                memcpy((char *)s + FIELDS[f].offset, &n, sizeof n);
    }
}

static bool read_queue(const redisReply *r, struct store_queue_stats *q)
{
    int64_t *const fields[QUEUE_FIELDS - 1] = {&q->scheduled, &q->overdue,    &q->oldest_overdue_ms,
                                               &q->ready,     &q->delivering, &q->oldest_delivering_ms,
                                               &q->dead};

    if (!reply_is_array(r, QUEUE_FIELDS) || !reply_is_string(r->element[0]))
        return false;
    for (size_t i = 0; i < QUEUE_FIELDS - 1; i++)
        if (!reply_int(r->element[i + 1], fields[i]))
            return false;
    q->name = xstrdup(r->element[0]->str);
    return true;
}

/* Of all queues, also of those that are not listed. */
static bool read_sums(const redisReply *r, struct store_queue_stats *all)
{
    return reply_is_array(r, 4) && reply_int(r->element[0], &all->scheduled) &&
           reply_int(r->element[1], &all->overdue) && reply_int(r->element[2], &all->oldest_overdue_ms) &&
           reply_int(r->element[3], &all->dead);
}

static bool read_queues(const redisReply *r, struct store_stats *s)
{
    if (r->type != REDIS_REPLY_ARRAY)
        return false;
    s->queues = xcalloc(r->elements, sizeof *s->queues);
    for (size_t i = 0; i < r->elements; i++) {
        if (!read_queue(r->element[i], &s->queues[i]))
            return false;
        s->queue_count++;
    }
    return true;
}

enum err stats_read(const redisReply *reply, struct store_stats **out)
{
    struct store_stats *s = xcalloc(1, sizeof *s);

    *out = NULL;
    if (!reply_is_array(reply, 8) || !reply_int(reply->element[0], &s->now_ms) ||
        !reply_int(reply->element[1], &s->next_due_in_ms) || !reply_int(reply->element[2], &s->all.ready) ||
        !reply_int(reply->element[3], &s->all.delivering) ||
        !reply_int(reply->element[4], &s->all.oldest_delivering_ms) || reply->element[5]->type != REDIS_REPLY_ARRAY ||
        !read_queues(reply->element[6], s) || !read_sums(reply->element[7], &s->all)) {
        store_stats_destroy(&s);
        return ERR_INVALID;
    }
    read_totals(reply->element[5], s);
    *out = s;
    return ERR_OK;
}

void store_stats_destroy(struct store_stats **s)
{
    if (!*s)
        return;
    for (size_t i = 0; i < (*s)->queue_count; i++)
        free((*s)->queues[i].name);
    free((*s)->queues);
    free(*s);
    *s = NULL;
}
