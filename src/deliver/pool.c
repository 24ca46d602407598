#include "deliver/pool.h"
#include "base/clock.h"
#include "base/mem.h"
#include "deliver/lookup_priv.h"
#include "deliver/multi_priv.h"
#include "deliver/webhook_priv.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Many attempts on one CURLM, driven by curl_multi_socket_action: the cost of a turn depends on the sockets that are
 * ready, not on the attempts that wait.
 *
 * An attempt is in exactly one list, which is its state (webhook_priv.h); attempt_move() is the only setter:
 *
 *   IDLE ─start─▶ RUNNING ─transfer ends─▶ ENDED ─reported─▶ IDLE
 *     │             ▲  └─2xx head─▶ ANSWERED ─transfer ends─▶ ENDED
 *     └─▶ WAITING ──┘                  └─reported─▶ LINGERING ─transfer ends, or cut─▶ IDLE
 *
 * libcurl's callbacks only move attempts between lists. Handles are removed and owners called from pool_run() alone,
 * and an owner may start attempts from there: reports take the head of a list until it is empty, so nothing walks a
 * list that changes.
 *
 * LINGERING is for a receiver that answers 200 and then takes its time with the body. The success is reported at once;
 * the rest is read as long as the task's timeout lasts, since cutting the connection would cancel the request in many
 * a web framework. There are few of them at a time, and the oldest gives way.
 *
 * A pool without work for IDLE_US gives everything back: handles, connections, CURLM. The next attempt makes them. */

#define LINGERING_MAX 64
#define IDLE_US ((int64_t)30 * 1000 * 1000)
#define CONNECTIONS_MIN 32

TAILQ_HEAD(attempt_list, attempt);

struct pool {
    struct pool_opts opts;
    struct webhook_env env;
    struct multi multi; /* closed while there was nothing to do for long */
    struct attempt_list lists[ATTEMPT_STATE_COUNT];
    int counts[ATTEMPT_STATE_COUNT];
    struct lookup_gate gate;
    bool gate_has_opened;    /* a lookup ended since the waiting were looked at */
    int64_t waiting_look_us; /* when they are looked at anyway; -1 never */
    int64_t idle_since_us;
    bool is_aborting;
    bool has_run; /* pool_run() has told when to be called again, and nothing changed since */
};

static void attempt_move(struct pool *p, struct attempt *a, enum attempt_state to)
{
    TAILQ_REMOVE(&p->lists[a->state], a, link);
    p->counts[a->state]--;
    a->state = to;
    TAILQ_INSERT_TAIL(&p->lists[to], a, link);
    p->counts[to]++;
}

static struct attempt *first_of(const struct pool *p, enum attempt_state state)
{
    return TAILQ_FIRST(&p->lists[state]);
}

/* --- what happens inside libcurl --- */

static void leave_lookup(struct pool *p, struct attempt *a, enum lookup_end end)
{
    if (!a->holds_lookup)
        return;
    a->holds_lookup = false;
    lookup_leave(&p->gate, a->host, end, clock_mono_us());
    p->gate_has_opened = true;
}

static void on_found(void *ctx, struct attempt *a)
{
    leave_lookup(ctx, a, LOOKUP_FOUND);
}

static void on_success(void *ctx, struct attempt *a)
{
    attempt_move(ctx, a, ATTEMPT_ANSWERED);
}

/* --- making and freeing --- */

enum err pool_global_init(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? ERR_OK : ERR_NOMEM;
}

static char *make_agent_line(const char *version)
{
    size_t size = sizeof("User-Agent: duepost/") + strlen(version);
    char *line = xcalloc(1, size);

    (void)snprintf(line, size, "User-Agent: duepost/%s", version);
    return line;
}

enum err pool_create(const struct pool_opts *opts, struct pool **out)
{
    struct pool *p = xcalloc(1, sizeof(*p));

    p->opts = *opts;
    p->env.opts = &p->opts;
    p->env.multi = &p->multi;
    p->env.libcurl = curl_version_info(CURLVERSION_NOW);
    p->env.agent_line = make_agent_line(opts->version);
    p->env.ctx = p;
    p->env.on_found = on_found;
    p->env.on_success = on_success;
    multi_init(&p->multi, opts->loop);
    p->waiting_look_us = -1;
    for (int i = 0; i < ATTEMPT_STATE_COUNT; i++)
        TAILQ_INIT(&p->lists[i]);
    *out = p;
    return ERR_OK;
}

static void attempt_free(struct pool *p, struct attempt *a)
{
    TAILQ_REMOVE(&p->lists[a->state], a, link);
    p->counts[a->state]--;
    attempt_destroy(&a);
}

static void give_everything_back(struct pool *p)
{
    while (first_of(p, ATTEMPT_IDLE) != NULL)
        attempt_free(p, first_of(p, ATTEMPT_IDLE));
    multi_close(&p->multi);
}

static bool state_is_curls(enum attempt_state state)
{
    return state == ATTEMPT_RUNNING || state == ATTEMPT_ANSWERED || state == ATTEMPT_LINGERING;
}

/* Take an attempt back from libcurl. Unless the answer was read to its end, that closes its connection, or resets its
 * HTTP/2 stream. */
static void take_back(struct pool *p, struct attempt *a, enum attempt_state to)
{
    if (state_is_curls(a->state))
        multi_remove(&p->multi, a->easy);
    leave_lookup(p, a, LOOKUP_LET_GO);
    attempt_move(p, a, to);
    if (to == ATTEMPT_IDLE)
        attempt_recycle(a);
}

void pool_destroy(struct pool **p)
{
    if (*p == NULL)
        return;
    for (int state = 0; state < ATTEMPT_STATE_COUNT; state++)
        while (state != ATTEMPT_IDLE && first_of(*p, (enum attempt_state)state) != NULL)
            take_back(*p, first_of(*p, (enum attempt_state)state), ATTEMPT_IDLE);
    give_everything_back(*p);
    free((*p)->env.agent_line);
    free(*p);
    *p = NULL;
}

/* --- starting --- */

/* The owner sleeps by what pool_run() told: not now. */
static void wake_owner(struct pool *p)
{
    if (p->has_run)
        loop_wake(p->opts.loop);
    p->has_run = false;
}

static void end_attempt(struct pool *p, struct attempt *a, CURLcode code, const char *local_reason)
{
    a->code = code;
    a->local_reason = local_reason;
    a->ended_mono_us = clock_mono_us();
    take_back(p, a, ATTEMPT_ENDED);
}

/* An idle attempt, or a new one; it is in the IDLE list. NULL when out of memory. */
static struct attempt *get_attempt(struct pool *p)
{
    struct attempt *a = TAILQ_LAST(&p->lists[ATTEMPT_IDLE], attempt_list); /* the warmest */

    if (a != NULL)
        return a;
    a = attempt_create(&p->env);
    if (a == NULL)
        return NULL;
    TAILQ_INSERT_TAIL(&p->lists[ATTEMPT_IDLE], a, link);
    p->counts[ATTEMPT_IDLE]++;
    return a;
}

/* Hand it to libcurl, with what is left of the task's timeout. */
static enum err launch(struct pool *p, struct attempt *a, int64_t now_us)
{
    int64_t left_ms = a->task->timeout_ms - (now_us - a->started_mono_us) / 1000;

    if (curl_easy_setopt(a->easy, CURLOPT_TIMEOUT_MS, (long)(left_ms > 0 ? left_ms : 1)) != CURLE_OK ||
        multi_add(&p->multi, a->easy) != ERR_OK)
        return ERR_NOMEM;
    a->launched_mono_us = now_us;
    attempt_move(p, a, ATTEMPT_RUNNING);
    return ERR_OK;
}

/* Begin, or wait for a name lookup of others. */
static enum err launch_or_wait(struct pool *p, struct attempt *a, int64_t now_us)
{
    switch (lookup_enter(&p->gate, a->host, now_us)) {
    case LOOKUP_NOT_NEEDED:
        return launch(p, a, now_us);
    case LOOKUP_MAY_BEGIN:
        a->holds_lookup = true;
        return launch(p, a, now_us);
    case LOOKUP_MUST_WAIT:
        break;
    }
    if (a->state != ATTEMPT_WAITING) {
        attempt_move(p, a, ATTEMPT_WAITING);
        p->gate_has_opened = true; /* so that the next look notes its deadline */
    }
    return ERR_OK;
}

enum err pool_start(struct pool *p, const struct task *t, int attempt_number, int64_t wall_offset_us, bool is_last,
                    void *owner)
{
    long connections = p->opts.capacity > CONNECTIONS_MIN ? p->opts.capacity : CONNECTIONS_MIN;
    struct attempt *a = NULL;
    enum err err = ERR_OK;

    if (pool_in_flight(p) >= p->opts.capacity)
        return ERR_TOO_BIG;
    if (multi_open(&p->multi, connections) != ERR_OK)
        return ERR_NOMEM;
    a = get_attempt(p);
    if (a == NULL)
        return ERR_NOMEM;
    a->owner = owner;
    a->wall_offset_us = wall_offset_us;
    a->started_mono_us = clock_mono_us();
    a->host = lookup_host(t->url);
    err = attempt_prepare(a, t, attempt_number, is_last);
    if (err == ERR_OK)
        err = launch_or_wait(p, a, a->started_mono_us);
    wake_owner(p);
    if (err != ERR_OK) {
        leave_lookup(p, a, LOOKUP_FAILED);
        attempt_recycle(a);
    }
    return err;
}

int pool_in_flight(const struct pool *p)
{
    return p->counts[ATTEMPT_WAITING] + p->counts[ATTEMPT_RUNNING] + p->counts[ATTEMPT_ANSWERED] +
           p->counts[ATTEMPT_ENDED];
}

/* --- a turn --- */

static void attempt_linger(struct pool *p, struct attempt *a)
{
    a->task = NULL;
    a->owner = NULL;
    attempt_move(p, a, ATTEMPT_LINGERING);
    if (p->counts[ATTEMPT_LINGERING] > LINGERING_MAX)
        take_back(p, first_of(p, ATTEMPT_LINGERING), ATTEMPT_IDLE);
}

/* The name has no address: whoever waits for the same lookup has its answer, too. */
static void fail_same_host(struct pool *p, uint64_t host)
{
    struct attempt *next = NULL;

    for (struct attempt *a = first_of(p, ATTEMPT_WAITING); a != NULL; a = next) {
        next = TAILQ_NEXT(a, link);
        if (a->host == host)
            end_attempt(p, a, CURLE_COULDNT_RESOLVE_HOST, NULL);
    }
}

static void collect_one(struct pool *p, struct attempt *a, CURLcode code)
{
    if (a->state == ATTEMPT_LINGERING) {
        take_back(p, a, ATTEMPT_IDLE);
        return;
    }
    if (code == CURLE_COULDNT_RESOLVE_HOST && a->holds_lookup) {
        leave_lookup(p, a, LOOKUP_FAILED);
        fail_same_host(p, a->host);
    }
    end_attempt(p, a, code, NULL);
}

static void collect(struct pool *p)
{
    void *attempt = NULL;
    CURLcode code = CURLE_OK;

    while (multi_next_done(&p->multi, &attempt, &code))
        collect_one(p, attempt, code);
}

/* Its time has passed: because of its own name, which is a failed attempt, or because others had all the places. */
static void end_waiting(struct pool *p, struct attempt *a)
{
    bool is_own = lookup_has_place(&p->gate, a->host);

    end_attempt(p, a, CURLE_OPERATION_TIMEDOUT, is_own ? NULL : "waited too long for name lookups of others");
}

/* Start those whose lookup may begin now; end those that waited their whole time. */
static void look_at_waiting(struct pool *p, int64_t now_us)
{
    struct attempt *next = NULL;

    if (!p->gate_has_opened && (p->waiting_look_us == -1 || p->waiting_look_us > now_us))
        return;
    p->gate_has_opened = false;
    p->waiting_look_us = p->counts[ATTEMPT_WAITING] > 0 ? lookup_next_free_us(&p->gate) : -1;
    for (struct attempt *a = first_of(p, ATTEMPT_WAITING); a != NULL; a = next) {
        int64_t deadline_us = a->started_mono_us + a->task->timeout_ms * 1000;
        next = TAILQ_NEXT(a, link);
        if (deadline_us <= now_us)
            end_waiting(p, a);
        else if (launch_or_wait(p, a, now_us) != ERR_OK)
            end_attempt(p, a, CURLE_OUT_OF_MEMORY, NULL);
        else if (a->state == ATTEMPT_WAITING && (p->waiting_look_us == -1 || deadline_us < p->waiting_look_us))
            p->waiting_look_us = deadline_us;
    }
}

static void abort_attempts(struct pool *p)
{
    static const enum attempt_state states[] = {ATTEMPT_WAITING, ATTEMPT_RUNNING, ATTEMPT_ANSWERED};

    if (!p->is_aborting)
        return;
    p->is_aborting = false;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        while (first_of(p, states[i]) != NULL)
            end_attempt(p, first_of(p, states[i]), CURLE_OK, "ended by the gateway");
    while (first_of(p, ATTEMPT_LINGERING) != NULL)
        take_back(p, first_of(p, ATTEMPT_LINGERING), ATTEMPT_IDLE);
}

/* Tell the owner, who may start other attempts or abort all from there. */
static void report_ended(struct pool *p, struct attempt *a)
{
    struct webhook_result result;
    void *owner = a->owner;

    attempt_result(a, &result);
    take_back(p, a, ATTEMPT_IDLE);
    p->opts.on_done(p->opts.ctx, owner, &result);
}

/* A success whose answer has not ended. The task's memory goes back to its owner, so a request that is still being
 * sent is cut instead of lingering. */
static void report_answered(struct pool *p, struct attempt *a)
{
    struct webhook_result result;
    void *owner = a->owner;

    a->ended_mono_us = clock_mono_us();
    attempt_result(a, &result);
    if (attempt_is_sent(a))
        attempt_linger(p, a);
    else
        take_back(p, a, ATTEMPT_IDLE);
    p->opts.on_done(p->opts.ctx, owner, &result);
}

static void report(struct pool *p)
{
    while (first_of(p, ATTEMPT_ENDED) != NULL)
        report_ended(p, first_of(p, ATTEMPT_ENDED));
    while (first_of(p, ATTEMPT_ANSWERED) != NULL)
        report_answered(p, first_of(p, ATTEMPT_ANSWERED));
}

/* Give everything back after a while without work. Returns when to look again, -1 for never. */
static int64_t trim_when_idle(struct pool *p, int64_t now_us)
{
    if (p->multi.handle == NULL)
        return -1;
    if (pool_in_flight(p) > 0 || p->counts[ATTEMPT_LINGERING] > 0) {
        p->idle_since_us = 0;
        return -1;
    }
    if (p->idle_since_us == 0)
        p->idle_since_us = now_us;
    if (now_us - p->idle_since_us < IDLE_US)
        return p->idle_since_us + IDLE_US;
    give_everything_back(p);
    p->idle_since_us = 0;
    return -1;
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    if (a_us == -1)
        return b_us;
    return b_us == -1 || a_us < b_us ? a_us : b_us;
}

int64_t pool_run(struct pool *p)
{
    int64_t now_us = 0;
    int64_t next_us = -1;

    multi_run_timer(&p->multi);
    collect(p);
    abort_attempts(p);
    look_at_waiting(p, clock_mono_us());
    report(p);

    now_us = clock_mono_us();
    next_us = trim_when_idle(p, now_us);
    next_us = earlier(next_us, p->multi.timer_mono_us);
    next_us = earlier(next_us, p->waiting_look_us);
    if (p->gate_has_opened || p->is_aborting)
        next_us = now_us;
    p->has_run = true;
    if (next_us == -1)
        return -1;
    return next_us > now_us ? (next_us - now_us + 999) / 1000 : 0;
}

void pool_abort_all(struct pool *p)
{
    p->is_aborting = true;
    wake_owner(p);
}
