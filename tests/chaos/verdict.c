#include "verdict.h"
#include "../support/plain.h"
#include "base/clock.h"
#include "task/task.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_MS 45000
#define REPAIR_MS 60000 /* orphans are found within this */
#define SHOWN_MAX 10
#define SLOWEST_ANSWER_MS 5000
/* While faults follow each other nobody may live long enough to notice who else is gone: a gateway does not judge the
 * silence of others before it has been up for claim-idle. The strict bound is that of gateways killed alone. */
#define REDELIVER_MS (4 * LONE_REDELIVER_MS)
#define LONE_REDELIVER_MS (CLAIM_IDLE_MAX_MS + 5000)
#define CONSUMERS_EACH 3 /* delivery threads, and one to spare */
#define FORGET_MS 75000  /* consumers of dead gateways go after a minute */
#define KEYS_LEFT_MAX 8
#define RUN_WITHIN_MS 2000 /* without faults */
#define KEY "duepost{0}"

/* ----------------------------------------------------------------- waiting */

static int64_t container(struct run *r, const char *command, const char *name)
{
    char line[128];

    (void)snprintf(line, sizeof(line), "%s " KEY ":%s", command, name);
    return nodes_redis_integer(r->nodes, line);
}

/* The sum over a hash of numbers, or one field of it. */
static int64_t hash_sum(struct run *r, const char *command)
{
    redisReply *reply = nodes_redis(r->nodes, command);
    int64_t sum = 0;

    if (reply && reply->type == REDIS_REPLY_STRING)
        sum = strtoll(reply->str, NULL, 10);
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        sum += strtoll(reply->element[i]->str, NULL, 10);
    if (reply)
        freeReplyObject(reply);
    return sum;
}

static int64_t record_count(struct run *r)
{
    return hash_sum(r, "HVALS " KEY ":queues");
}

static int64_t finished_count(struct run *r)
{
    return container(r, "ZCARD", "delivered") + container(r, "ZCARD", "dead") + container(r, "ZCARD", "cancelled") +
           container(r, "ZCARD", "expired");
}

/* What was taken out of a container by hand is not counted there: the records say how many tasks there are. */
static bool is_settled(struct run *r)
{
    return hash_sum(r, "HGET " KEY ":totals pending") == 0 && container(r, "ZCARD", "callbacks") == 0 &&
           record_count(r) == finished_count(r) && container(r, "HLEN", "out") == 0 &&
           container(r, "HLEN", "busy") == 0 &&
           ask_send(r->ask, "GET", nodes_port(r->nodes, 0), "/stats", NULL) == 200 &&
           ask_number(r->ask, "tasks.scheduled") == 0 && ask_number(r->ask, "tasks.ready") == 0 &&
           ask_number(r->ask, "tasks.delivering") == 0;
}

static int64_t repair_ms(const struct run *r)
{
    return faults_have_orphaned(r->faults) ? nodes_scaled_ms(REPAIR_MS) : 0;
}

bool verdict_settled(struct run *r)
{
    int64_t until = clock_mono_ms() + nodes_scaled_ms(SETTLE_MS) + repair_ms(r);

    while (!is_settled(r)) {
        if (clock_mono_ms() > until) {
            printf("not settled: pending %lld, records %lld, finished %lld, out %lld, busy %lld\n",
                   (long long)hash_sum(r, "HGET " KEY ":totals pending"), (long long)record_count(r),
                   (long long)finished_count(r), (long long)container(r, "HLEN", "out"),
                   (long long)container(r, "HLEN", "busy"));
            printf("scheduled %lld, ready %lld, delivering %lld, oldest overdue %lld ms\n",
                   (long long)ask_number(r->ask, "tasks.scheduled"), (long long)ask_number(r->ask, "tasks.ready"),
                   (long long)ask_number(r->ask, "tasks.delivering"),
                   (long long)ask_number(r->ask, "tasks.oldest_overdue_ms"));
            return false;
        }
        nodes_sleep_ms(20);
    }
    return true;
}

/* ------------------------------------------------------------------- tasks */

enum flaw {
    LOST = 0,
    UNFINISHED,
    AFTER_CANCEL,
    EARLY,
    OTHER_ID,
    UNSEEN_DELIVERY,
    UNASKED_CANCEL,
    UNEXPECTED_DEATH,
    TWICE_IN_CALM,
    ATTEMPTS_IN_CALM,
    MISSED,
    UNPATCHED,
    NOT_REDRIVEN,
    NOT_RUN,
    HELD_SEEN,
    UNASKED_EXPIRY,
    UNTOLD,
    TOLD_TWICE_IN_CALM,
    FLAW_COUNT
};

static const char *const SENTENCES[FLAW_COUNT] = {
    [LOST] = "every accepted task is found",
    [UNFINISHED] = "every accepted task came to an end",
    [AFTER_CANCEL] = "no task was seen after its DELETE was answered with 204",
    [EARLY] = "no task came before its due time",
    [OTHER_ID] = "every answer and every request of a task has its id",
    [UNSEEN_DELIVERY] = "every task called delivered was answered with 200 by the receiver",
    [UNASKED_CANCEL] = "every task called cancelled was cancelled by a client, and one cancelled stays so",
    [UNEXPECTED_DEATH] = "only tasks whose receiver refused them are dead",
    [TWICE_IN_CALM] = "without faults every task is delivered once",
    [ATTEMPTS_IN_CALM] = "without faults the attempts recorded are the requests seen",
    [MISSED] = "no accepted task was missing in between",
    [UNPATCHED] = "no task came with its old payload after its PATCH was answered with 200",
    [NOT_REDRIVEN] = "every task that was redriven is delivered",
    [NOT_RUN] = "without faults every task that was run came at once",
    [HELD_SEEN] = "no task of a paused queue was seen",
    [UNASKED_EXPIRY] = "only tasks that expire are expired, and those of a paused queue all are",
    [UNTOLD] = "every end was told to its callback",
    [TOLD_TWICE_IN_CALM] = "without faults every end was told once",
};

struct finding {
    int counts[FLAW_COUNT];
};

static bool is_calm(enum phase p)
{
    return p == PHASE_CALM_FIRST || p == PHASE_CALM_LAST;
}

static bool ends_dead(enum behaviour b)
{
    return b == BEHAVE_GONE || b == BEHAVE_FAIL_ALWAYS;
}

static void flaw(struct finding *f, enum flaw kind, long serial, const struct entry *e, const char *state)
{
    if (f->counts[kind]++ < SHOWN_MAX)
        printf("not so: %s: task %ld id=%s state=%s phase=%d behaviour=%d custom=%d accepted=%lld cancelled=%lld "
               "patched=%lld redriven=%lld requests=%d successes=%d\n",
               SENTENCES[kind], serial, e->id, state, (int)e->phase, (int)e->behaviour, (int)e->custom,
               (long long)e->accepted_mono_ms, (long long)e->cancelled_mono_ms, (long long)e->patched_mono_ms,
               (long long)e->redriven_mono_ms, e->requests, e->successes);
}

/* A task that is not there: lost, unless the answer was given in the last moment before a lossy kill. */
static void check_missing(struct run *r, struct finding *f, long serial, const struct entry *e)
{
    if (e->requests > 0)
        return; /* it was sent; that Redis forgot it since is not a loss */
    if (faults_excuse(r->faults, e->accepted_mono_ms)) {
        r->lost_excused++;
        return;
    }
    r->lost++;
    flaw(f, LOST, serial, e, "none");
}

/* A task that takes TASK_TAKEOVERS_MAX gateways with it is dead, and says so: with many kills that is nobody's fault.
 */
static bool is_worn_out(struct run *r)
{
    const char *error = ask_text(r->ask, "last_attempt.error");

    return error && strcmp(error, "worker_lost") == 0 && faults_gateway_kills(r->faults) >= TASK_TAKEOVERS_MAX;
}

static void check_death(struct run *r, struct finding *f, long serial, const struct entry *e)
{
    if (ends_dead(e->behaviour) || (e->behaviour == BEHAVE_GONE_ONCE && e->redriven_mono_ms == 0))
        return;
    if (is_worn_out(r))
        r->worn_out++;
    else if (e->behaviour == BEHAVE_GONE_ONCE)
        flaw(f, NOT_REDRIVEN, serial, e, "dead");
    else
        flaw(f, UNEXPECTED_DEATH, serial, e, "dead");
}

static enum end end_of(const char *state)
{
    if (strcmp(state, "delivered") == 0)
        return END_DELIVERED;
    return strcmp(state, "dead") == 0 ? END_DEAD : strcmp(state, "expired") == 0 ? END_EXPIRED : END_COUNT;
}

static void check_custom(struct run *r, struct finding *f, long serial, const struct entry *e, const char *state)
{
    bool is_expired = strcmp(state, "expired") == 0;
    enum end end = end_of(state);

    if (e->came_unpatched && !faults_excuse(r->faults, e->patched_mono_ms))
        flaw(f, UNPATCHED, serial, e, state);
    if (e->custom == CUSTOM_HELD && e->requests > 0)
        flaw(f, HELD_SEEN, serial, e, state);
    if (is_expired != (e->custom == CUSTOM_HELD))
        flaw(f, UNASKED_EXPIRY, serial, e, state);
    if (e->calls_back && end != END_COUNT && e->told[end] == 0)
        flaw(f, UNTOLD, serial, e, state);
}

static void check_state(struct run *r, struct finding *f, long serial, const struct entry *e, const char *state,
                        bool is_cancel_kept)
{
    bool is_finished = strcmp(state, "delivered") == 0 || strcmp(state, "dead") == 0 ||
                       strcmp(state, "cancelled") == 0 || strcmp(state, "expired") == 0;

    if (!is_finished)
        flaw(f, UNFINISHED, serial, e, state);
    if (strcmp(state, "delivered") == 0 && e->successes == 0)
        flaw(f, UNSEEN_DELIVERY, serial, e, state);
    if (strcmp(state, "dead") == 0)
        check_death(r, f, serial, e);
    check_custom(r, f, serial, e, state);
    if (strcmp(state, "cancelled") == 0 ? !e->was_deleted : is_cancel_kept)
        flaw(f, UNASKED_CANCEL, serial, e, state);
}

static void check_calm(struct run *r, struct finding *f, long serial, const struct entry *e, const char *state)
{
    int expected = strcmp(state, "delivered") == 0 ? 1 : 0;
    /* A new life counts its attempts anew. */
    int before = e->redriven_mono_ms > 0 && expected == 1 ? 1 : 0;
    enum end end = end_of(state);

    if (e->calls_back && end != END_COUNT && e->told[end] != 1)
        flaw(f, TOLD_TWICE_IN_CALM, serial, e, state);
    if (e->run_ms > 0 && e->first_seen_ms > e->run_ms + nodes_scaled_ms(RUN_WITHIN_MS))
        flaw(f, NOT_RUN, serial, e, state);
    if (e->successes != expected)
        flaw(f, TWICE_IN_CALM, serial, e, state);
    if (e->requests - before != ask_number(r->ask, "attempts"))
        flaw(f, ATTEMPTS_IN_CALM, serial, e, state);
}

static void check_task(struct run *r, struct finding *f, long serial)
{
    const struct entry e = ledger_read(r->ledger, serial);
    bool is_excused = e.cancelled_mono_ms > 0 && faults_excuse(r->faults, e.cancelled_mono_ms);
    char path[64];

    if (e.redelivery_ms > r->slowest_redelivery_ms)
        r->slowest_redelivery_ms = e.redelivery_ms;
    if (e.first_seen_ms - e.not_before_ms > r->latest_ms)
        r->latest_ms = e.first_seen_ms - e.not_before_ms;
    if (e.successes > 1)
        r->duplicates += e.successes - 1;
    if (e.came_early)
        flaw(f, EARLY, serial, &e, "");
    bool has_two_ids = e.changed_id || (e.id[0] && e.seen_id[0] && strcmp(e.id, e.seen_id) != 0);
    if (has_two_ids && !faults_excuse(r->faults, e.accepted_mono_ms))
        flaw(f, OTHER_ID, serial, &e, e.seen_id);
    if (e.came_after_cancel && !is_excused)
        flaw(f, AFTER_CANCEL, serial, &e, "");
    if (e.missed_mono_ms > 0 && !faults_excuse(r->faults, e.accepted_mono_ms))
        flaw(f, MISSED, serial, &e, "");
    if (e.accepted_mono_ms == 0)
        return;
    (void)snprintf(path, sizeof(path), "/tasks/%s", e.id);
    int status = ask_send(r->ask, "GET", nodes_port(r->nodes, (int)(serial % GATEWAYS)), path, NULL);
    const char *state = ask_text(r->ask, "state");
    if (status != 200 || !state) {
        check_missing(r, f, serial, &e);
        return;
    }
    check_state(r, f, serial, &e, state, e.cancelled_mono_ms > 0 && !is_excused);
    if (is_calm(e.phase))
        check_calm(r, f, serial, &e, state);
}

void verdict_tasks(struct run *r)
{
    struct finding f = {{0}};
    size_t count = ledger_count(r->ledger);

    for (size_t i = 0; i < count; i++)
        check_task(r, &f, (long)i);
    for (int k = 0; k < FLAW_COUNT; k++)
        plain_result(f.counts[k] == 0, SENTENCES[k]);
    plain_result(count > 0 && traffic_counts(r->traffic).accepted > 0, "tasks were accepted");
}

/* ------------------------------------------------------------------- state */

static void check(bool is_good, const char *sentence, int64_t found, int64_t limit)
{
    if (!is_good)
        printf("not so: %s: %lld, %lld\n", sentence, (long long)found, (long long)limit);
    plain_result(is_good, sentence);
}

static void check_counters(struct run *r)
{
    static const char *const FINISHED[] = {"delivered", "dead", "cancelled", "expired"};
    int64_t ended = 0, kept = 0, created = 0, redriven = 0, callbacks = 0;
    char path[64];

    (void)ask_send(r->ask, "GET", nodes_port(r->nodes, 0), "/stats", NULL);
    created = ask_number(r->ask, "totals.created");
    redriven = ask_number(r->ask, "totals.redriven");
    callbacks = ask_number(r->ask, "totals.callbacks");
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "totals.%s", FINISHED[i]);
        int64_t total = ask_number(r->ask, path), size = container(r, "ZCARD", FINISHED[i]);
        if (strcmp(FINISHED[i], "dead") == 0)
            total -= redriven; /* no client redrives another */
        check(total == size, "a total equals its container", total, size);
        ended += total;
        kept += size;
    }
    check(created == ended, "tasks created are tasks that ended", created, ended);
    check(record_count(r) == kept, "every record is in one container", record_count(r), kept);
    int64_t accepted = traffic_counts(r->traffic).accepted, opened = (int64_t)ledger_count(r->ledger);
    created -= callbacks;
    check(created >= accepted - r->lost_excused && created <= opened, "as many were created as were accepted", created,
          accepted);
    int64_t attempts = ask_number(r->ask, "totals.attempts"), failed = ask_number(r->ask, "totals.failed_attempts");
    int64_t delivered = ask_number(r->ask, "totals.delivered");
    check(attempts - failed == delivered, "an attempt failed or delivered", attempts - failed, delivered);
}

static void check_containers(struct run *r)
{
    static const struct {
        const char *command, *name;
    } EMPTY[] = {{"ZCARD", "lanes"}, {"XLEN", "ready"},   {"HLEN", "out"},
                 {"HLEN", "busy"},   {"ZCARD", "expiry"}, {"ZCARD", "callbacks"}};
    int64_t pending = -1;

    for (size_t i = 0; i < sizeof(EMPTY) / sizeof(EMPTY[0]); i++) {
        int64_t left = container(r, EMPTY[i].command, EMPTY[i].name);
        check(left == 0, "nothing is left in a container of pending tasks", left, (int64_t)i);
    }
    redisReply *reply = nodes_redis(r->nodes, "XPENDING " KEY ":ready workers");
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        pending = reply->element[0]->integer;
    if (reply)
        freeReplyObject(reply);
    check(pending == 0, "no entry is pending", pending, 0);
    reply = nodes_redis(r->nodes, "XINFO CONSUMERS " KEY ":ready workers");
    int64_t consumers = reply && reply->type == REDIS_REPLY_ARRAY ? (int64_t)reply->elements : -1;
    if (reply)
        freeReplyObject(reply);
    int64_t gateways = GATEWAYS + faults_recent_starts(r->faults, FORGET_MS);
    check(consumers >= 0 && consumers <= gateways * CONSUMERS_EACH, "consumers of dead gateways are forgotten",
          consumers, gateways);
}

static void check_gateways(struct run *r)
{
    struct usage now = nodes_usage(r->nodes, 0), before = r->usage_before;
    struct traffic_counts c = traffic_counts(r->traffic);

    check(c.wrong == 0, "no client was answered wrongly", c.wrong, 0);
    check(c.slowest_ms <= nodes_scaled_ms(SLOWEST_ANSWER_MS), "every answer came in bounded time", c.slowest_ms,
          SLOWEST_ANSWER_MS);
    check(faults_broken(r->faults) == 0, "after every fault all was itself again in time", faults_broken(r->faults), 0);
    check(r->slowest_redelivery_ms <= nodes_scaled_ms(REDELIVER_MS) + repair_ms(r),
          "tasks of a lost gateway were sent again in time", r->slowest_redelivery_ms, REDELIVER_MS);
    struct watched w = ledger_watched(r->ledger);
    check(w.waiting == 0 && w.slowest_ms <= nodes_scaled_ms(LONE_REDELIVER_MS),
          "tasks of a gateway killed alone were sent again within claim-idle + 5 s", w.slowest_ms, w.waiting);
    check(r->busiest_in_calm <= LIMITED_SLOTS, "without faults a limited queue keeps its limit", r->busiest_in_calm,
          LIMITED_SLOTS);
    check(r->busiest_in_calm >= 2, "a limited queue uses its slots", r->busiest_in_calm, 2);
    check(hooks_strange(r->hooks) == 0, "every request belonged to a task", hooks_strange(r->hooks), 0);
    check(now.threads <= before.threads + 2, "threads are level", now.threads, before.threads);
    check(now.descriptors <= before.descriptors + 64, "descriptors are level", now.descriptors, before.descriptors);
    if (nodes_scaled_ms(1) == 1) /* sanitizers keep what was freed */
        check(now.rss_kb <= before.rss_kb + before.rss_kb / 2 + 16384, "resident memory is level (kB)", now.rss_kb,
              before.rss_kb);
    check(nodes_log_lines(r->nodes, "record.unreadable") == 0, "no record was unreadable", 0, 0);
}

void verdict_state(struct run *r)
{
    check_counters(r);
    check_containers(r);
    check_gateways(r);
}

/* An Idempotency-Key is kept for a day, whatever becomes of its task. */
static void forget_keys(struct run *r)
{
    redisReply *reply = nodes_redis(r->nodes, "KEYS " KEY ":k:*");

    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        (void)nodes_redis_do(r->nodes, "DEL %s", reply->element[i]->str);
    if (reply)
        freeReplyObject(reply);
}

/* What is kept for a queue goes with it. */
static void forget_queues(struct run *r)
{
    static const char *const PATHS[] = {"/queues/" LIMITED_QUEUE, "/queues/" HELD_QUEUE};

    for (size_t i = 0; i < 2; i++) {
        int status = ask_send(r->ask, "DELETE", nodes_port(r->nodes, 0), PATHS[i], NULL);
        check(status == 204 || status == 200, "an empty queue can be deleted", status, 204);
    }
    check(container(r, "EXISTS", "rates") == 0, "no bucket is left", container(r, "HLEN", "rates"), 0);
    int64_t settings = container(r, "HLEN", "settings") - nodes_redis_integer(r->nodes, "HEXISTS " KEY ":settings :");
    check(settings == 0, "no settings are left", settings, 0);
}

void verdict_empty(struct run *r)
{
    int64_t until = clock_mono_ms() + nodes_scaled_ms(SETTLE_MS), keys;

    forget_keys(r);
    forget_queues(r);
    while ((keys = nodes_redis_integer(r->nodes, "DBSIZE")) > KEYS_LEFT_MAX && clock_mono_ms() < until)
        nodes_sleep_ms(20);
    check(keys >= 0 && keys <= KEYS_LEFT_MAX, "records and containers vanish after their retention", keys,
          KEYS_LEFT_MAX);
    int64_t memory, allowed = r->memory_before + r->memory_before / 20 + 1048576;
    (void)nodes_redis_do(r->nodes, "SCRIPT FLUSH");
    while ((memory = nodes_redis_info(r->nodes, "used_memory")) > allowed && clock_mono_ms() < until)
        nodes_sleep_ms(50);
    check(memory > 0 && memory <= allowed, "the memory of Redis is back", memory, r->memory_before);
}
