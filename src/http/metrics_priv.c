#include "http/metrics_priv.h"
#include "base/clock.h"
#include "base/exposition.h"
#include "base/process.h"
#include "http/request_priv.h"
#include <assert.h>
#include <string.h>

/* GET /metrics: what GET /stats says, for Prometheus.
 *
 * What Redis counts is the same from every gateway of a system, so it is to be taken from one of them (max, not sum);
 * what this process counts is its own. Without Redis only the latter is given, and duepost_redis_up is 0. Labels are
 * few: states, and the names of the queues that /stats lists. */

#define METRICS_WAIT_MS 700
#define MS 1e3

/* By the names of store_total_name(). */
static const struct {
    const char *total;
    const char *name;
    const char *help;
} totals[STORE_TOTALS] = {
    {"created", "duepost_tasks_created_total", "Tasks accepted."},
    {"duplicates", "duepost_tasks_duplicate_total", "Requests that were a repeat of an earlier one."},
    {"attempts", "duepost_attempts_total", "Attempts that ended."},
    {"failed_attempts", "duepost_attempts_failed_total", "Attempts that ended without success."},
    {"delivered", "duepost_tasks_delivered_total", "Tasks delivered."},
    {"retried", "duepost_tasks_retried_total", "Failed attempts after which another was scheduled."},
    {"dead", "duepost_tasks_dead_total", "Tasks given up."},
    {"cancelled", "duepost_tasks_cancelled_total", "Tasks cancelled."},
    {"expired", "duepost_tasks_expired_total", "Tasks that expired before they were delivered."},
    {"redriven", "duepost_tasks_redriven_total", "Finished tasks that were given a new life."},
    {"recovered", "duepost_tasks_recovered_total", "Tasks taken back from workers that died."},
    {"orphans", "duepost_tasks_orphaned_total", "Tasks that had lost their place and were put back."},
    {"trimmed", "duepost_tasks_trimmed_total", "Finished tasks removed before their time by max-finished."},
    {"purged", "duepost_tasks_purged_total", "Pending tasks that a purge dropped."},
    {"callbacks", "duepost_callbacks_created_total", "Tasks made to tell of the end of others."},
};

static void put_totals(struct buf *out, const struct store_stats *s)
{
    for (size_t i = 0; i < STORE_TOTALS; i++) {
        size_t row = 0;

        while (row < STORE_TOTALS && strcmp(totals[row].total, store_total_name(i)) != 0)
            row++;
        assert(row < STORE_TOTALS && "each total has its metric");
        exposition_counter(out, totals[row].name, totals[row].help, store_total(s, i));
    }
}

/* An age of which -1 means that there is none. */
static double age_s(int64_t ms)
{
    return ms < 0 ? 0 : (double)ms / MS;
}

static void put_tasks(struct buf *out, const struct store_queue_stats *all)
{
    static const char *const name = "duepost_tasks";
    const struct {
        const char *state;
        int64_t count;
    } rows[] = {
        {"scheduled", all->scheduled}, {"ready", all->ready}, {"delivering", all->delivering}, {"dead", all->dead}};

    exposition_head(out, name, EXPOSITION_GAUGE, "Tasks by state.");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        exposition_int(out, name, (const struct exposition_label[]){{"state", rows[i].state}, {0}}, rows[i].count);
    exposition_gauge(out, "duepost_tasks_overdue", "Scheduled tasks past their due time, held by no limit or pause.",
                     (double)all->overdue);
    exposition_gauge(out, "duepost_oldest_overdue_seconds", "How long the most overdue task is overdue.",
                     age_s(all->oldest_overdue_ms));
    exposition_gauge(out, "duepost_oldest_delivering_seconds",
                     "Age of the oldest entry of the pending entries list: of the longest delivery, or of a lost one.",
                     age_s(all->oldest_delivering_ms));
}

static void put_queue_samples(struct buf *out, const struct store_queue_stats *q)
{
    const struct {
        const char *state;
        int64_t count;
    } rows[] = {{"scheduled", q->scheduled}, {"ready", q->ready}, {"delivering", q->delivering}, {"dead", q->dead}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        exposition_int(out, "duepost_queue_tasks",
                       (const struct exposition_label[]){{"queue", q->name}, {"state", rows[i].state}, {0}},
                       rows[i].count);
}

static void put_queues(struct buf *out, const struct store_stats *s)
{
    static const char *const overdue = "duepost_queue_overdue";
    static const char *const oldest = "duepost_queue_oldest_overdue_seconds";
    static const char *const paused = "duepost_queue_paused";

    exposition_head(out, "duepost_queue_tasks", EXPOSITION_GAUGE, "Tasks of a queue by state.");
    for (size_t i = 0; i < s->queue_count; i++)
        put_queue_samples(out, &s->queues[i]);
    exposition_head(out, overdue, EXPOSITION_GAUGE, "Tasks of a queue that are overdue.");
    for (size_t i = 0; i < s->queue_count; i++)
        exposition_int(out, overdue, (const struct exposition_label[]){{"queue", s->queues[i].name}, {0}},
                       s->queues[i].overdue);
    exposition_head(out, oldest, EXPOSITION_GAUGE, "How long the most overdue task of a queue is overdue.");
    for (size_t i = 0; i < s->queue_count; i++)
        exposition_real(out, oldest, (const struct exposition_label[]){{"queue", s->queues[i].name}, {0}},
                        age_s(s->queues[i].oldest_overdue_ms));
    exposition_head(out, paused, EXPOSITION_GAUGE, "1 when a queue is paused.");
    for (size_t i = 0; i < s->queue_count; i++)
        exposition_int(out, paused, (const struct exposition_label[]){{"queue", s->queues[i].name}, {0}},
                       s->queues[i].settings.is_paused);
}

static void put_redis(struct buf *out, const struct store_stats *s)
{
    static const char *const info = "duepost_redis_info";

    exposition_gauge(out, "duepost_redis_up", "1 when Redis answers.", s ? 1 : 0);
    if (!s)
        return;
    exposition_gauge(out, "duepost_redis_latency_seconds", "How long Redis took for the counts of this page.",
                     (double)s->rtt_us / 1e6);
    exposition_gauge(out, "duepost_redis_used_memory_bytes", "Memory that Redis uses.", (double)s->used_memory_bytes);
    exposition_head(out, info, EXPOSITION_GAUGE, "The version of Redis.");
    exposition_int(out, info, (const struct exposition_label[]){{"version", s->redis_version}, {0}}, 1);
}

static void put_process(struct buf *out)
{
    struct process_usage u;

    process_read_usage(&u);
    exposition_head(out, "process_cpu_seconds_total", EXPOSITION_COUNTER, "User and system time.");
    exposition_real(out, "process_cpu_seconds_total", NULL, u.cpu_s);
    exposition_gauge(out, "process_start_time_seconds", "Unix time of the start.", u.started_at_s);
    if (u.resident_bytes >= 0)
        exposition_gauge(out, "process_resident_memory_bytes", "Resident memory.", (double)u.resident_bytes);
    if (u.virtual_bytes >= 0)
        exposition_gauge(out, "process_virtual_memory_bytes", "Virtual memory.", (double)u.virtual_bytes);
    if (u.open_fds >= 0)
        exposition_gauge(out, "process_open_fds", "Open file descriptors.", (double)u.open_fds);
    exposition_gauge(out, "process_max_fds", "The limit of open file descriptors.", (double)u.max_fds);
}

static void finish_metrics(struct request *r)
{
    struct store_stats *s = r->op.err == ERR_OK ? r->op.stats : NULL;
    struct buf *out = reply_begin(&r->reply, 200, EXPOSITION_CONTENT_TYPE);

    exposition_head(out, "duepost_build_info", EXPOSITION_GAUGE, "The version of this gateway.");
    exposition_int(out, "duepost_build_info", (const struct exposition_label[]){{"version", r->env->opts.version}, {0}},
                   1);
    put_redis(out, s);
    if (s) {
        put_totals(out, s);
        put_tasks(out, &s->all);
        put_queues(out, s);
    }
    if (r->env->opts.write_metrics)
        r->env->opts.write_metrics(r->env->opts.ctx, out);
    put_process(out);
    store_stats_destroy(&r->op.stats);
}

void metrics_get(struct request *r)
{
    request_submit(r, STORE_STATS, METRICS_WAIT_MS, finish_metrics);
}
