#include "store/stats_priv.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "store/reply_priv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The answer of stats.lua, and what scripts tell of one queue. Nothing in it is believed before its form was looked at:
 * an answer of another form is ERR_INVALID as a whole. Only what a person may have broken by hand is passed over: a
 * total that is no number, or that this version does not know, and settings that cannot be read; the rest is worth
 * showing all the same. */

#define QUEUE_FIELDS 9 /* of one queue in the answer of stats.lua */

static const struct {
    const char *name;
    size_t offset;
} TOTALS[STORE_TOTALS] = {
    {"created", offsetof(struct store_stats, created)},
    {"duplicates", offsetof(struct store_stats, duplicates)},
    {"attempts", offsetof(struct store_stats, attempts)},
    {"delivered", offsetof(struct store_stats, delivered)},
    {"failed_attempts", offsetof(struct store_stats, failed_attempts)},
    {"retried", offsetof(struct store_stats, retried)},
    {"dead", offsetof(struct store_stats, dead)},
    {"cancelled", offsetof(struct store_stats, cancelled)},
    {"expired", offsetof(struct store_stats, expired)},
    {"redriven", offsetof(struct store_stats, redriven)},
    {"recovered", offsetof(struct store_stats, recovered)},
    {"orphans", offsetof(struct store_stats, orphans)},
    {"trimmed", offsetof(struct store_stats, trimmed)},
    {"purged", offsetof(struct store_stats, purged)},
    {"callbacks", offsetof(struct store_stats, callbacks)},
};

const char *store_total_name(size_t i)
{
    return TOTALS[i].name;
}

int64_t store_total(const struct store_stats *s, size_t i)
{
    int64_t n;

    memcpy(&n, (const char *)s + TOTALS[i].offset, sizeof n);
    return n;
}

static void read_totals(const redisReply *r, struct store_stats *s)
{
    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        const redisReply *name = r->element[i], *value = r->element[i + 1];
        int64_t n;
        if (!reply_is_string(name) || !reply_is_string(value) || !parse_int64(value->str, value->len, &n))
            continue;
        for (size_t t = 0; t < STORE_TOTALS; t++)
            if (strcmp(name->str, TOTALS[t].name) == 0)
                memcpy((char *)s + TOTALS[t].offset, &n, sizeof n);
    }
}

/* Empty: it has none. What somebody broke by hand is shown as none, too. */
static void read_settings(const redisReply *text, struct store_queue_stats *q)
{
    if (text->len == 0 || queue_settings_decode(text->str, text->len, &q->settings))
        return;
    LOG_ERROR("settings.unreadable", "queue=%s", q->name);
    queue_settings_deinit(&q->settings);
}

bool stats_read_queue(redisReply *const *fields, size_t count, struct store_queue_stats *q)
{
    int64_t *const numbers[QUEUE_FIELDS - 2] = {&q->scheduled, &q->overdue,    &q->oldest_overdue_ms,
                                                &q->ready,     &q->delivering, &q->oldest_delivering_ms,
                                                &q->dead};

    if (count != QUEUE_FIELDS || !reply_is_string(fields[0]) || !reply_is_string(fields[QUEUE_FIELDS - 1]))
        return false;
    for (size_t i = 0; i < QUEUE_FIELDS - 2; i++)
        if (!reply_int(fields[i + 1], numbers[i]))
            return false;
    q->name = xstrdup(fields[0]->str);
    read_settings(fields[QUEUE_FIELDS - 1], q);
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
        const redisReply *q = r->element[i];

        s->queue_count++;
        if (q->type != REDIS_REPLY_ARRAY || !stats_read_queue(q->element, q->elements, &s->queues[i]))
            return false;
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

void stats_read_memory(const redisReply *reply, int64_t *used_bytes)
{
    const char *at = reply_is_string(reply) ? strstr(reply->str, "used_memory:") : NULL;
    int64_t bytes;

    if (!at)
        return;
    at += strlen("used_memory:");
    if (parse_int64(at, strspn(at, "0123456789"), &bytes))
        *used_bytes = bytes;
}

static void queue_deinit(struct store_queue_stats *q)
{
    free(q->name);
    queue_settings_deinit(&q->settings);
}

void store_queue_stats_destroy(struct store_queue_stats **q)
{
    if (*q)
        queue_deinit(*q);
    free(*q);
    *q = NULL;
}

void store_stats_destroy(struct store_stats **s)
{
    if (!*s)
        return;
    for (size_t i = 0; i < (*s)->queue_count; i++)
        queue_deinit(&(*s)->queues[i]);
    free((*s)->queues);
    free(*s);
    *s = NULL;
}
