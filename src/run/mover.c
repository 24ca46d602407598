#include "run/mover.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/thread.h"
#include "run/agenda_priv.h"
#include "store/lanes.h"

#include <stdatomic.h>
#include <stdlib.h>

/* One tick: whatever is most urgent is asked of Redis, one call at a time, and the answer says when to come back. The
 * agenda decides what is most urgent: what is due, unless something else has waited for too long.
 *
 *   due, or room again      move: returns the microseconds until the next due time, which is what the thread sleeps
 *   silent for PEEK_MS      peek: one plain command, so a lost wake-up costs lateness only
 *   claim-idle / 3          recover: heartbeat, and the tasks of dead workers
 *   a task has expired      expire: returns when the next one does
 *   a task calls back       announce
 *   something finished      sweep
 *   10 s                    patrol: tasks that have lost their place
 *
 * Sleeping is on the local monotonic clock; what is due is decided by Redis TIME in the script. `offset_us` relates the
 * two and is taken from every move. A sleep that ends too early just asks again, so nothing is ever sent early. */

#define MOVE_MAX 200 /* tasks a call: a millisecond of Redis */
#define PEEK_MS 500
#define AHEAD_MS 50       /* the Stream holds what this time delivers, beyond the free slots */
#define BEHIND_AHEAD_MS 3 /* the same of lanes that are behind, so that others come through, */
#define BEHIND_MIN 32     /* and at least so many */
#define BLOCKED_MS 50     /* without room and without news of room */
#define ROOM_MS 2         /* after news of room: what waits for more of it moves in larger calls */
#define RETRY_MS 100      /* after a call that failed */
#define SWEEP_MIN_MS 1000
#define SWEEP_MAX_MS 10000
#define RECOVER_MAX_MS 5000
#define CLOCK_STEP_MS 1000 /* less is drift, or an answer that was under way */
#define RATE_MS 250        /* the delivery rate is measured over this */

struct mover {
    struct mover_opts opts;
    struct loop *loop;
    struct lanes *lanes;
    struct thread *thread;
    atomic_llong offset_us; /* Redis time minus our monotonic time, at least */
    int64_t offset_max_us;  /* and at most */
    int64_t asked_us;       /* when the call that is under way was made */
    bool has_offset;
    struct agenda agenda;
    int64_t recover_from_us; /* before this, others' silence may have been Redis's */
    int64_t rate_us, rate_count, rate_per_s;
    atomic_llong wake_ms;        /* earliest due time reported by other threads; AGENDA_NEVER: none */
    atomic_llong waiting_for_ms; /* what the mover sleeps for, Unix ms by Redis; lets mover_wake be cheap */
    atomic_bool is_blocked;      /* due tasks wait for room */
    atomic_bool has_room;
    atomic_bool is_stopping, is_up;
    atomic_llong last_run_ms, moved;
};

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t us(int64_t ms)
{
    return ms * 1000;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : lesser(v, high);
}

/* --------------------------------------------------------------- answers */

static void wait_until(struct mover *m, int64_t mono_us)
{
    m->agenda.at_us[CHORE_MOVE] = mono_us;
    atomic_store(&m->waiting_for_ms,
                 mono_us == AGENDA_NEVER || !m->has_offset ? AGENDA_NEVER : (mono_us + m->offset_us) / 1000);
}

/* Something is due at this time of Redis; when that is earlier, it is what we wait for. */
static void note_due(struct mover *m, int64_t due_at_ms)
{
    int64_t mono_us = m->has_offset ? due_at_ms * 1000 - m->offset_us : clock_mono_us();

    if (mono_us < m->agenda.at_us[CHORE_MOVE])
        wait_until(m, mono_us);
}

static void ran(struct mover *m)
{
    atomic_store(&m->last_run_ms, clock_mono_ms());
    m->agenda.at_us[CHORE_PEEK] = clock_mono_us() + us(PEEK_MS);
}

/* Others can renew nothing before they know: for claim-idle their silence says nothing. */
static void distrust_silence(struct mover *m)
{
    m->recover_from_us = clock_mono_us() + us(m->opts.redis->claim_idle_ms);
}

/* Redis says what time it is. A step of its clock makes everybody seem silent for as long. It is one only when nothing
 * else explains it: Redis took the time after it was asked and before it was heard, and each may have been long ago. */
static void note_time(struct mover *m, int64_t redis_now_us, int64_t heard_us)
{
    int64_t offset_us = redis_now_us - heard_us, step_us = offset_us - m->offset_max_us;

    if (m->has_offset && step_us > us(CLOCK_STEP_MS)) {
        LOG_WARN("redis.clock_stepped", "ms=%lld", (long long)step_us / 1000);
        distrust_silence(m);
    }
    m->offset_us = offset_us;
    m->offset_max_us = redis_now_us - m->asked_us;
    m->has_offset = true;
}

static void on_moved(void *ctx, bool ok, const struct lanes_moved *r)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();
    bool blocked = ok && r->moved == 0 && r->next_us == 0;

    if (!ok) {
        wait_until(m, now + us(RETRY_MS));
        return;
    }
    ran(m);
    if (r->has_expired)
        m->agenda.at_us[CHORE_EXPIRE] = now;
    if (r->has_callbacks)
        m->agenda.at_us[CHORE_ANNOUNCE] = now;
    note_time(m, r->now_us, now);
    atomic_fetch_add(&m->moved, r->moved);
    atomic_store(&m->is_blocked, blocked);
    if (blocked)
        wait_until(m, now + (r->later_us < 0 ? us(BLOCKED_MS) : lesser(us(BLOCKED_MS), r->later_us)));
    else
        wait_until(m, r->next_us < 0 ? AGENDA_NEVER : now + r->next_us);
}

static void on_peeked(void *ctx, bool ok, int64_t due_at_ms)
{
    struct mover *m = ctx;

    if (!ok) {
        m->agenda.at_us[CHORE_PEEK] = clock_mono_us() + us(RETRY_MS);
        return;
    }
    ran(m);
    if (due_at_ms >= 0)
        note_due(m, due_at_ms);
}

static void on_expired(void *ctx, bool ok, int64_t count, int64_t next_us)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    if (count > 0)
        wait_until(m, now); /* their callbacks */
    if (ok)
        m->agenda.at_us[CHORE_EXPIRE] = next_us < 0 ? AGENDA_NEVER : now + next_us;
    else
        m->agenda.at_us[CHORE_EXPIRE] = now + us(RETRY_MS);
}

static void on_announced(void *ctx, bool ok, int64_t count, bool is_more)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    if (count > 0)
        wait_until(m, now); /* what was created is due */
    if (ok)
        m->agenda.at_us[CHORE_ANNOUNCE] = is_more ? now : AGENDA_NEVER;
    else
        m->agenda.at_us[CHORE_ANNOUNCE] = now + us(RETRY_MS);
}

static int64_t recover_interval_us(const struct mover *m)
{
    return us(lesser(m->opts.redis->claim_idle_ms / 3, RECOVER_MAX_MS));
}

static void on_recovered(void *ctx, bool ok, int64_t count, bool is_more)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    if (ok && count != 0) /* a move tells the time, too */
        wait_until(m, now);
    if (!ok || count < 0) /* others could not renew either */
        distrust_silence(m);
    m->agenda.at_us[CHORE_RECOVER] = now + (!ok ? us(RETRY_MS) : is_more ? 0 : recover_interval_us(m));
}

static int64_t shortest_retention_ms(const struct redis_opts *r)
{
    return lesser(lesser(r->retention_delivered_ms, r->retention_dead_ms),
                  lesser(r->retention_cancelled_ms, r->retention_expired_ms));
}

static void on_swept(void *ctx, bool ok, int64_t removed, int64_t next_ms)
{
    struct mover *m = ctx;
    int64_t wait_ms = next_ms < 0 ? shortest_retention_ms(m->opts.redis) / 2 : next_ms;

    wait_ms = clamp(wait_ms, SWEEP_MIN_MS, SWEEP_MAX_MS);
    if (!ok)
        wait_ms = RETRY_MS;
    else if (removed > 0)
        wait_ms = next_ms == 0 ? 0 : SWEEP_MIN_MS;
    m->agenda.at_us[CHORE_SWEEP] = clock_mono_us() + wait_ms * 1000;
}

static void on_patrolled(void *ctx, bool ok, int64_t repaired, int64_t next_ms)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    if (ok && repaired > 0)
        wait_until(m, now);
    m->agenda.at_us[CHORE_PATROL] = now + us(ok ? next_ms : RETRY_MS);
}

static void on_wake(void *ctx, int64_t due_at_ms)
{
    note_due(ctx, due_at_ms);
}

static void on_up(void *ctx)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    wait_until(m, now);
    m->agenda.at_us[CHORE_RECOVER] = m->agenda.at_us[CHORE_SWEEP] = now;
    m->agenda.at_us[CHORE_PEEK] = now + us(PEEK_MS);
    m->recover_from_us = m->agenda.at_us[CHORE_PATROL] = now + us(m->opts.redis->claim_idle_ms);
}

/* ------------------------------------------------------------------- tick */

static void measure_rate(struct mover *m, int64_t now)
{
    int64_t count = m->opts.ended_count(m->opts.ctx);

    if (now - m->rate_us < us(RATE_MS))
        return;
    m->rate_per_s = (count - m->rate_count) * 1000000 / (now - m->rate_us);
    m->rate_count = count;
    m->rate_us = now;
}

static void move(struct mover *m, int64_t now)
{
    int64_t room, behind_room;

    atomic_store(&m->has_room, false); /* slots that come free after this are news */
    measure_rate(m, now);
    room = m->opts.free_slots(m->opts.ctx) + m->rate_per_s * AHEAD_MS / 1000;
    behind_room = m->rate_per_s * BEHIND_AHEAD_MS / 1000;
    behind_room = lesser(room, behind_room > BEHIND_MIN ? behind_room : BEHIND_MIN);
    lanes_move(m->lanes, room, behind_room, MOVE_MAX);
}

static void hear_others(struct mover *m)
{
    int64_t due = atomic_exchange(&m->wake_ms, AGENDA_NEVER);

    if (due != AGENDA_NEVER)
        note_due(m, due);
    if (atomic_load(&m->is_blocked) && atomic_exchange(&m->has_room, false)) {
        atomic_store(&m->is_blocked, false);
        wait_until(m, clock_mono_us() + us(ROOM_MS));
    }
}

static void ask(struct mover *m)
{
    int64_t now = clock_mono_us();

    if (!lanes_is_up(m->lanes) || lanes_is_busy(m->lanes))
        return;
    m->asked_us = now;
    switch (agenda_next(&m->agenda, now)) {
    case CHORE_MOVE:
        move(m, now);
        break;
    case CHORE_RECOVER:
        lanes_recover(m->lanes, now < m->recover_from_us, m->has_offset ? (now + m->offset_max_us) / 1000 : 0);
        break;
    case CHORE_SWEEP:
        lanes_sweep(m->lanes);
        break;
    case CHORE_PATROL:
        lanes_patrol(m->lanes);
        break;
    case CHORE_PEEK:
        lanes_peek(m->lanes);
        break;
    case CHORE_EXPIRE:
        lanes_expire(m->lanes);
        break;
    case CHORE_ANNOUNCE:
        lanes_announce(m->lanes);
        break;
    case CHORE_COUNT:
    case CHORE_NONE:
        break;
    }
}

static int64_t wait_us(struct mover *m, int64_t tick_ms)
{
    if (!lanes_is_up(m->lanes) || lanes_is_busy(m->lanes))
        return tick_ms * 1000;
    return lesser(tick_ms * 1000, agenda_wait_us(&m->agenda, clock_mono_us()));
}

static void run(void *ctx)
{
    struct mover *m = ctx;

    while (!atomic_load(&m->is_stopping)) {
        hear_others(m);
        ask(m);
        int64_t tick_ms = lanes_tick(m->lanes);
        atomic_store(&m->is_up, lanes_is_up(m->lanes));
        loop_turn(m->loop, wait_us(m, tick_ms));
    }
}

/* ------------------------------------------------------------------- life */

struct mover *mover_create(const struct mover_opts *opts)
{
    struct mover *m = xcalloc(1, sizeof *m);

    m->opts = *opts;
    m->loop = loop_create();
    m->agenda.at_us[CHORE_MOVE] = AGENDA_NEVER;
    m->agenda.at_us[CHORE_EXPIRE] = m->agenda.at_us[CHORE_ANNOUNCE] = AGENDA_NEVER;
    m->last_run_ms = -1;
    atomic_store(&m->wake_ms, AGENDA_NEVER);
    atomic_store(&m->waiting_for_ms, AGENDA_NEVER);
    return m;
}

enum err mover_begin(struct mover *m)
{
    const struct lanes_opts lanes = {.redis = m->opts.redis,
                                     .loop = m->loop,
                                     .on_moved = on_moved,
                                     .on_peeked = on_peeked,
                                     .on_recovered = on_recovered,
                                     .on_swept = on_swept,
                                     .on_expired = on_expired,
                                     .on_announced = on_announced,
                                     .on_patrolled = on_patrolled,
                                     .on_wake = on_wake,
                                     .on_up = on_up,
                                     .ctx = m};
    enum err err = lanes_create(&lanes, &m->lanes);

    return err == ERR_OK ? thread_start("mover", run, m, &m->thread) : err;
}

void mover_stop(struct mover *m)
{
    if (!m)
        return;
    atomic_store(&m->is_stopping, true);
    loop_wake(m->loop);
    thread_join(&m->thread);
}

void mover_destroy(struct mover **mover)
{
    struct mover *m = *mover;

    if (!m)
        return;
    *mover = NULL;
    mover_stop(m);
    lanes_destroy(&m->lanes);
    loop_destroy(&m->loop);
    free(m);
}

void mover_wake(struct mover *m, int64_t due_at_ms)
{
    long long seen = atomic_load(&m->wake_ms);

    while (due_at_ms < seen && !atomic_compare_exchange_weak(&m->wake_ms, &seen, due_at_ms))
        ;
    if (due_at_ms < seen && due_at_ms < atomic_load(&m->waiting_for_ms))
        loop_wake(m->loop);
}

void mover_room(struct mover *m)
{
    /* Noted also while a move is under way, which may come back without room. */
    if (!atomic_exchange(&m->has_room, true) && atomic_load(&m->is_blocked))
        loop_wake(m->loop);
}

bool mover_is_up(const struct mover *m)
{
    return atomic_load(&m->is_up);
}

void mover_read_stats(const struct mover *m, struct mover_stats *out)
{
    int64_t last = atomic_load(&m->last_run_ms);
    int64_t due = atomic_load(&m->waiting_for_ms);
    int64_t now_ms = (clock_mono_us() + atomic_load(&m->offset_us)) / 1000;

    out->last_run_ms_ago = last < 0 ? -1 : clock_mono_ms() - last;
    out->moved = atomic_load(&m->moved);
    out->next_due_in_ms = -1;
    if (due != AGENDA_NEVER)
        out->next_due_in_ms = due > now_ms ? due - now_ms : 0;
}
