#include "run/mover.h"

#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/lanes.h"

#include <stdatomic.h>
#include <stdlib.h>

/* One tick: whatever is most urgent is asked of Redis, one call at a time, and the answer says when to come back.
 *
 *   due, or room again      move: returns the microseconds until the next due time, which is what the thread sleeps
 *   silent for PEEK_MS      peek: one plain command, so a lost wake-up costs lateness only
 *   claim-idle / 3          recover: heartbeat, and the tasks of dead workers
 *   something finished      sweep
 *   10 s                    patrol: tasks that have lost their place
 *
 * Sleeping is on the local monotonic clock; what is due is decided by Redis TIME in the script. `offset_us` relates the
 * two and is taken from every move. A sleep that ends too early just asks again, so nothing is ever sent early. */

#define MOVE_MAX 200 /* tasks a call: a millisecond of Redis */
#define PEEK_MS 500
#define AHEAD_MS 50   /* the Stream holds what this time delivers, beyond the free slots */
#define BLOCKED_MS 50 /* without room and without news of room */
#define ROOM_MS 2     /* after news of room: what waits for more of it moves in larger calls */
#define RETRY_MS 100  /* after a call that failed */
#define SWEEP_MIN_MS 1000
#define SWEEP_MAX_MS 10000
#define RECOVER_MAX_MS 5000
#define RATE_MS 250 /* the delivery rate is measured over this */
#define NEVER INT64_MAX

struct mover {
    struct mover_opts opts;
    struct loop *loop;
    struct lanes *lanes;
    struct thread *thread;
    atomic_llong offset_us; /* Redis time minus our monotonic time */
    bool has_offset;
    int64_t next_move_us; /* monotonic */
    int64_t next_peek_us, next_recover_us, next_sweep_us, next_patrol_us;
    int64_t recover_from_us; /* before this, others' silence may have been Redis's */
    int64_t rate_us, rate_count, rate_per_s;
    atomic_llong wake_ms;        /* earliest due time reported by other threads; NEVER: none */
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
    m->next_move_us = mono_us;
    atomic_store(&m->waiting_for_ms, mono_us == NEVER || !m->has_offset ? NEVER : (mono_us + m->offset_us) / 1000);
}

/* Something is due at this time of Redis; when that is earlier, it is what we wait for. */
static void note_due(struct mover *m, int64_t due_at_ms)
{
    int64_t mono_us = m->has_offset ? due_at_ms * 1000 - m->offset_us : clock_mono_us();

    if (mono_us < m->next_move_us)
        wait_until(m, mono_us);
}

static void ran(struct mover *m)
{
    atomic_store(&m->last_run_ms, clock_mono_ms());
    m->next_peek_us = clock_mono_us() + us(PEEK_MS);
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
    m->offset_us = r->now_us - now;
    m->has_offset = true;
    atomic_fetch_add(&m->moved, r->moved);
    atomic_store(&m->is_blocked, blocked);
    if (blocked)
        wait_until(m, now + us(BLOCKED_MS));
    else
        wait_until(m, r->next_us < 0 ? NEVER : now + r->next_us);
}

static void on_peeked(void *ctx, bool ok, int64_t due_at_ms)
{
    struct mover *m = ctx;

    if (!ok) {
        m->next_peek_us = clock_mono_us() + us(RETRY_MS);
        return;
    }
    ran(m);
    if (due_at_ms >= 0)
        note_due(m, due_at_ms);
}

static int64_t recover_interval_us(const struct mover *m)
{
    return us(lesser(m->opts.redis->claim_idle_ms / 3, RECOVER_MAX_MS));
}

static void on_recovered(void *ctx, bool ok, int64_t count, bool is_more)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    if (ok && count > 0)
        wait_until(m, now);
    if (!ok) /* others could not renew either */
        m->recover_from_us = now + us(m->opts.redis->claim_idle_ms);
    m->next_recover_us = now + (!ok ? us(RETRY_MS) : is_more ? 0 : recover_interval_us(m));
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
    m->next_sweep_us = clock_mono_us() + wait_ms * 1000;
}

static void on_patrolled(void *ctx, bool ok, int64_t repaired, int64_t next_ms)
{
    struct mover *m = ctx;
    int64_t now = clock_mono_us();

    if (ok && repaired > 0)
        wait_until(m, now);
    m->next_patrol_us = now + us(ok ? next_ms : RETRY_MS);
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
    m->next_recover_us = m->next_sweep_us = now;
    m->recover_from_us = m->next_patrol_us = now + us(m->opts.redis->claim_idle_ms);
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

static int64_t room(struct mover *m, int64_t now)
{
    atomic_store(&m->has_room, false); /* slots that come free after this are news */
    measure_rate(m, now);
    return m->opts.free_slots(m->opts.ctx) + m->rate_per_s * AHEAD_MS / 1000;
}

static void hear_others(struct mover *m)
{
    int64_t due = atomic_exchange(&m->wake_ms, NEVER);

    if (due != NEVER)
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
    if (now >= m->next_move_us)
        lanes_move(m->lanes, room(m, now), MOVE_MAX);
    else if (now >= m->next_recover_us)
        lanes_recover(m->lanes, now < m->recover_from_us);
    else if (now >= m->next_sweep_us)
        lanes_sweep(m->lanes);
    else if (now >= m->next_patrol_us)
        lanes_patrol(m->lanes);
    else if (now >= m->next_peek_us)
        lanes_peek(m->lanes);
}

static int64_t wait_us(struct mover *m, int64_t tick_ms)
{
    int64_t next = lesser(lesser(m->next_move_us, m->next_peek_us), lesser(m->next_recover_us, m->next_sweep_us));
    int64_t now = clock_mono_us();

    next = lesser(next, m->next_patrol_us);
    if (!lanes_is_up(m->lanes) || lanes_is_busy(m->lanes))
        return tick_ms * 1000;
    return lesser(tick_ms * 1000, next > now ? next - now : 0);
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
    m->next_move_us = NEVER;
    m->last_run_ms = -1;
    atomic_store(&m->wake_ms, NEVER);
    atomic_store(&m->waiting_for_ms, NEVER);
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
    if (due != NEVER)
        out->next_due_in_ms = due > now_ms ? due - now_ms : 0;
}
