#include "store/settings_priv.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/reply_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One HMGET takes the count of changes and the settings of the queues that are wanted, so they belong together. With
 * another count than before, what was known is forgotten. Asking for some queues takes one way to Redis however many
 * there are, and however often somebody changes one. */

#define REPLY_MS 1000
#define HOLD_MS 200   /* before they are asked for again when Redis would not say */
#define KEPT_MAX 4096 /* more than a group of calls can want */

/* ------------------------------------------------------------------- list */

static void item_deinit(struct settings_item *item)
{
    free(item->queue);
    queue_settings_deinit(&item->value);
}

/* The place of a queue, or where it would be. */
static size_t place_of(const struct settings *s, const char *queue, bool *is_there)
{
    size_t low = 0, high = s->count;

    *is_there = false;
    while (low < high && !*is_there) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(queue, s->items[middle].queue);

        *is_there = order == 0;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *is_there ? high : low;
}

static void insert(struct settings *s, size_t at, const char *queue)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 16;
        s->items = xrealloc(s->items, s->capacity * sizeof *s->items);
    }
    memmove(s->items + at + 1, s->items + at, (s->count - at) * sizeof *s->items);
    s->items[at] = (struct settings_item){.queue = xstrdup(queue)};
    s->count++;
    s->unknown_count++;
}

/* What was known under another count goes. */
static void drop_known(struct settings *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].is_known)
            item_deinit(&s->items[i]);
        else
            s->items[kept++] = s->items[i];
    }
    s->count = kept;
}

/* ---------------------------------------------------------------- loading */

/* As settings_count() in lua/common.lua judges it. */
static bool is_digits(const char *s, size_t n)
{
    return n > 0 && n <= 20 && strspn(s, "0123456789") == n;
}

static void read_version(struct settings *s, const redisReply *r)
{
    const char *version = reply_is_string(r) && is_digits(r->str, r->len) ? r->str : "0";

    if (strcmp(version, s->version) == 0)
        return;
    drop_known(s);
    (void)snprintf(s->version, sizeof s->version, "%s", version);
}

static void read_item(struct settings_item *item, const redisReply *r)
{
    item->is_known = true;
    item->is_asked = false;
    if (!reply_is_string(r))
        return;
    item->is_set = queue_settings_decode(r->str, r->len, &item->value);
    if (!item->is_set) {
        LOG_ERROR("settings.unreadable", "queue=%s", item->queue);
        queue_settings_deinit(&item->value);
    }
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct settings *s = ctx;
    size_t next = 1;

    enum conn_verdict verdict = reply ? conn_judge(s->conn, reply) : CONN_REPEAT;

    s->is_loading = false;
    if (verdict == CONN_WAIT || verdict == CONN_FAILED)
        s->hold_until_mono_ms = clock_mono_ms() + HOLD_MS;
    if (verdict != CONN_FINE || !reply_is_array(reply, s->asked_count + 1))
        return; /* forgotten meanwhile, or it is asked again */
    read_version(s, reply->element[0]);
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].is_asked)
            read_item(&s->items[i], reply->element[next++]);
    s->unknown_count -= s->asked_count;
    s->asked_count = 0;
}

/* Those that were asked for before and not answered are asked for again. */
static void ask(struct settings *s)
{
    call_begin(&s->call);
    call_add_str(&s->call, "HMGET");
    call_add_str(&s->call, s->keys->settings);
    call_add_str(&s->call, ":");
    s->asked_count = 0;
    for (size_t i = 0; i < s->count; i++) {
        s->items[i].is_asked = !s->items[i].is_known;
        if (!s->items[i].is_asked)
            continue;
        call_add_str(&s->call, s->items[i].queue);
        s->asked_count++;
    }
    call_seal(&s->call);
    s->is_loading = conn_send(s->conn, &s->call, REPLY_MS, on_reply, s);
}

void settings_want(struct settings *s, const char *queue)
{
    bool is_there;

    if (s->count >= KEPT_MAX && s->unknown_count == 0)
        settings_forget(s);
    size_t at = place_of(s, queue, &is_there);

    if (!is_there)
        insert(s, at, queue);
}

bool settings_are_known(struct settings *s)
{
    if (s->unknown_count == 0)
        return true;
    if (!s->is_loading && clock_mono_ms() >= s->hold_until_mono_ms)
        ask(s);
    return false;
}

void settings_forget(struct settings *s)
{
    for (size_t i = 0; i < s->count; i++)
        item_deinit(&s->items[i]);
    s->count = s->unknown_count = s->asked_count = 0;
    s->version[0] = '\0';
}

/* ------------------------------------------------------------------ asking */

const struct queue_settings *settings_of(const struct settings *s, const char *queue)
{
    bool is_there;
    size_t at = place_of(s, queue, &is_there);

    return is_there && s->items[at].is_set ? &s->items[at].value : NULL;
}

const char *settings_version(const struct settings *s)
{
    return s->version;
}

/* -------------------------------------------------------------------- life */

void settings_init(struct settings *s, struct conn *conn, const struct keys *keys)
{
    memset(s, 0, sizeof *s);
    s->conn = conn;
    s->keys = keys;
    call_init(&s->call);
}

void settings_deinit(struct settings *s)
{
    call_deinit(&s->call);
    settings_forget(s);
    free(s->items);
    s->items = NULL;
}
