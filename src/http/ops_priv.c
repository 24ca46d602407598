#include "http/ops_priv.h"
#include "base/clock.h"
#include "base/parse.h"
#include "http/request_priv.h"
#include <string.h>

/* The calls for operators. GET /stats joins what Redis counts with what this process knows, and answers also without
 * Redis, since that is when it is needed most: within a second, with null for what only Redis knows. */

#define STATS_WAIT_MS 700
#define PROBE_WAIT_MS 1000

void ops_healthz(struct request *r)
{
    buf_puts(reply_json(&r->reply, 200), "{\"status\":\"ok\"}\n");
}

void ops_openapi(struct request *r)
{
    reply_text(&r->reply, "application/yaml", r->env->opts.openapi, r->env->opts.openapi_bytes);
}

void ops_destinations(struct request *r)
{
    struct buf *out = reply_json(&r->reply, 200);

    buf_puts(out, "{\"destinations\":[");
    if (r->env->opts.write_destinations)
        r->env->opts.write_destinations(r->env->opts.ctx, out);
    buf_puts(out, "]}\n");
}

void ops_options(struct request *r)
{
    reply_empty(&r->reply, 204);
    r->reply.allow = r->match.allow;
}

static void finish_readyz(struct request *r)
{
    struct buf reasons;

    buf_init(&reasons, r->env->reply_max_bytes);
    if (r->op.err != ERR_OK)
        buf_puts(&reasons, "\"The task store cannot be reached or does not take writes\"");
    if (r->env->opts.write_unready) {
        struct buf more;

        buf_init(&more, r->env->reply_max_bytes);
        r->env->opts.write_unready(r->env->opts.ctx, &more);
        if (reasons.len > 0 && more.len > 0)
            buf_putc(&reasons, ',');
        buf_append(&reasons, more.data, more.len);
        buf_deinit(&more);
    }
    if (reasons.len == 0) {
        buf_puts(reply_json(&r->reply, 200), "{\"status\":\"ready\"}\n");
    } else {
        struct buf *out = reply_json(&r->reply, 503);

        r->reply.has_retry_after = true;
        buf_puts(out, "{\"status\":\"unready\",\"reasons\":[");
        buf_append(out, reasons.data, reasons.len);
        buf_puts(out, "]}\n");
    }
    buf_deinit(&reasons);
}

void ops_readyz(struct request *r)
{
    request_submit(r, STORE_PROBE, PROBE_WAIT_MS, finish_readyz);
}

/* Append ,"name":value; null when the value is negative. The first member of an object is written by hand. */
static void put_member(struct buf *out, const char *name, int64_t value)
{
    buf_puts(out, ",\"");
    buf_puts(out, name);
    buf_puts(out, "\":");
    if (value < 0)
        buf_puts(out, "null");
    else
        buf_put_int(out, value);
}

void ops_put_tasks(struct buf *out, const struct store_queue_stats *q)
{
    buf_puts(out, "\"scheduled\":");
    buf_put_int(out, q->scheduled);
    put_member(out, "overdue", q->overdue);
    put_member(out, "oldest_overdue_ms", q->oldest_overdue_ms);
    put_member(out, "ready", q->ready);
    put_member(out, "delivering", q->delivering);
    put_member(out, "oldest_delivering_ms", q->oldest_delivering_ms);
    put_member(out, "dead", q->dead);
}

static void put_totals(struct buf *out, const struct store_stats *s)
{
    for (size_t i = 0; i < STORE_TOTALS; i++) {
        buf_puts(out, i > 0 ? ",\"" : "\"");
        buf_puts(out, store_total_name(i));
        buf_puts(out, "\":");
        buf_put_int(out, store_total(s, i));
    }
}

static void put_redis(struct buf *out, const struct store_stats *s)
{
    if (!s) {
        buf_puts(out, "{\"up\":false,\"mode\":null,\"version\":null,\"rtt_ms\":null,\"used_memory_bytes\":null}");
        return;
    }
    buf_puts(out, "{\"up\":true,\"mode\":\"standalone\",\"version\":");
    buf_put_json_lossy(out, s->redis_version, strlen(s->redis_version));
    buf_printf(out, ",\"rtt_ms\":%.3f", (double)s->rtt_us / 1000.0);
    put_member(out, "used_memory_bytes", s->used_memory_bytes);
    buf_putc(out, '}');
}

static void put_queues(struct buf *out, const struct store_stats *s)
{
    buf_putc(out, '{');
    for (size_t i = 0; i < s->queue_count; i++) {
        const struct store_queue_stats *q = &s->queues[i];

        if (i > 0)
            buf_putc(out, ',');
        buf_put_json_lossy(out, q->name, strlen(q->name));
        buf_puts(out, ":{");
        ops_put_tasks(out, q);
        buf_putc(out, ',');
        queue_settings_write_limits(out, &q->settings);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

static void put_process(struct buf *out, const struct request_env *env, int64_t now_ms)
{
    char now[PARSE_RFC3339_SIZE];

    parse_format_rfc3339(now_ms, now);
    buf_puts(out, "{\"version\":");
    buf_put_json_lossy(out, env->opts.version, strlen(env->opts.version));
    buf_puts(out, ",\"now\":\"");
    buf_puts(out, now);
    buf_puts(out, "\",\"uptime_ms\":");
    buf_put_int(out, clock_mono_ms() - env->started_mono_ms);
}

static void finish_stats(struct request *r)
{
    struct store_stats *s = r->op.err == ERR_OK ? r->op.stats : NULL;
    struct buf *out = reply_json(&r->reply, 200);

    put_process(out, r->env, s ? s->now_ms : clock_wall_ms());
    if (s) {
        buf_puts(out, ",\"tasks\":{");
        ops_put_tasks(out, &s->all);
        buf_puts(out, "},\"totals\":{");
        put_totals(out, s);
        buf_puts(out, "},");
    } else {
        buf_puts(out, ",\"tasks\":null,\"totals\":null,");
    }
    if (r->env->opts.write_stats)
        r->env->opts.write_stats(r->env->opts.ctx, out);
    buf_puts(out, "\"redis\":");
    put_redis(out, s);
    buf_puts(out, ",\"queues\":");
    if (s)
        put_queues(out, s);
    else
        buf_puts(out, "null");
    buf_puts(out, "}\n");
    store_stats_destroy(&r->op.stats);
}

void ops_stats(struct request *r)
{
    request_submit(r, STORE_STATS, STATS_WAIT_MS, finish_stats);
}
