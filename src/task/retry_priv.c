#include "task/retry_priv.h"

#include "base/mem.h"
#include "base/parse.h"
#include <stdio.h>
#include <string.h>

/* The `retry` object. Like the task around it (task_json.c) it is read member by member in the order of the text, and
 * what concerns several members is checked at the end from the set of those given: `schedule` replaces the four that
 * describe an exponential backoff, and `max` must not be below `initial`. Where only one of these two is given, the
 * other comes from the queue or the contract when the task is stored, and follows if it would not fit
 * (queue_settings.h). */

#define SCHEDULE_MAX 100

static const char *const names[RETRY_MEMBER_COUNT] = {
    [RETRY_MAX_ATTEMPTS] = "max_attempts",
    [RETRY_INITIAL] = "initial",
    [RETRY_MULTIPLIER] = "multiplier",
    [RETRY_MAX] = "max",
    [RETRY_JITTER] = "jitter",
    [RETRY_SCHEDULE] = "schedule",
    [RETRY_MAX_AGE] = "max_age",
};

const char *retry_member_name(enum retry_member which)
{
    return names[which];
}

static enum retry_member find(const char *name, size_t n)
{
    int i = 0;

    while (i < RETRY_MEMBER_COUNT && !(strlen(names[i]) == n && memcmp(names[i], name, n) == 0))
        i++;
    return (enum retry_member)i;
}

static bool read_schedule(const struct member *m, struct task_retry *out)
{
    int64_t waits_ms[SCHEDULE_MAX];
    size_t count = 0;
    bool is_good = true;
    char pointer[MEMBER_POINTER_SIZE];
    struct member item = {.ctx = m->ctx, .pointer = pointer};
    struct scan scan;

    if (m->value.kind != SCAN_ARRAY) {
        faults_add(m->ctx->faults, m->pointer, "must be an array of durations");
        return false;
    }
    scan_begin(&scan, &m->value);
    while (scan_next_item(&scan, &item.value) && count <= SCHEDULE_MAX) {
        int64_t wait_ms = 0;

        (void)snprintf(pointer, sizeof(pointer), "%s/%zu", m->pointer, count);
        if (count < SCHEDULE_MAX) {
            is_good = member_duration(&item, 0, PARSE_MAX_DELAY_MS, &wait_ms) && is_good;
            waits_ms[count] = wait_ms;
        }
        count++;
    }
    if (count == 0 || count > SCHEDULE_MAX) {
        faults_add(m->ctx->faults, m->pointer, "must hold 1 to %d durations", SCHEDULE_MAX);
        return false;
    }
    if (!is_good)
        return false;
    out->schedule_ms = xcalloc(count, sizeof(*out->schedule_ms));
    memcpy(out->schedule_ms, waits_ms, count * sizeof(*waits_ms));
    out->schedule_count = count;
    return true;
}

static bool read_one(enum retry_member which, const struct member *m, struct task_retry *out)
{
    switch (which) {
    case RETRY_MAX_ATTEMPTS:
        return member_int(m, 1, 1000, &out->max_attempts);
    case RETRY_INITIAL:
        return member_duration(m, 1, PARSE_MAX_DELAY_MS, &out->initial_ms);
    case RETRY_MULTIPLIER:
        return member_real(m, 1.0, 10.0, &out->multiplier);
    case RETRY_MAX:
        return member_duration(m, 1, PARSE_MAX_DELAY_MS, &out->max_ms);
    case RETRY_JITTER:
        return member_real(m, 0.0, 1.0, &out->jitter);
    case RETRY_SCHEDULE:
        return read_schedule(m, out);
    case RETRY_MAX_AGE:
        return member_duration(m, 1, PARSE_MAX_DELAY_MS, &out->max_age_ms);
    case RETRY_MEMBER_COUNT:
        faults_add(m->ctx->faults, m->pointer, "is not a member of retry");
        break;
    }
    return false;
}

static void fault_at(const struct member *m, enum retry_member which, const char *detail)
{
    char pointer[MEMBER_POINTER_SIZE];

    faults_add(m->ctx->faults, fault_pointer(pointer, sizeof(pointer), m->pointer, names[which], strlen(names[which])),
               "%s", detail);
}

/* The rules between members. In both sets bit i stands for names[i]. */
static void check_together(const struct member *m, unsigned given, unsigned faulty, const struct task_retry *retry)
{
    static const enum retry_member not_with_schedule[] = {RETRY_INITIAL, RETRY_MULTIPLIER, RETRY_MAX, RETRY_JITTER};
    const unsigned bounds = 1u << RETRY_INITIAL | 1u << RETRY_MAX;

    if (given & 1u << RETRY_SCHEDULE) {
        for (size_t i = 0; i < sizeof(not_with_schedule) / sizeof(*not_with_schedule); i++) {
            if (given & 1u << not_with_schedule[i])
                fault_at(m, not_with_schedule[i], "cannot be given together with schedule");
        }
    } else if ((given & ~faulty & bounds) == bounds && retry->max_ms < retry->initial_ms) {
        fault_at(m, RETRY_MAX, "must not be below initial");
    }
}

void retry_read(const struct member *m, struct task_retry *out)
{
    char pointer[MEMBER_POINTER_SIZE];
    struct member inner = {.ctx = m->ctx, .pointer = pointer};
    struct scan_value name;
    struct scan scan;
    unsigned given = 0;
    unsigned faulty = 0;

    if (!member_is_object(m))
        return;
    scan_begin(&scan, &m->value);
    while (scan_next_member(&scan, &name, &inner.value)) {
        const char *s = NULL;
        size_t n = 0;

        if (scan_string(&name, m->ctx->scratch, &s, &n) != ERR_OK) {
            m->ctx->err = ERR_NOMEM;
            return;
        }
        enum retry_member which = find(s, n);

        (void)fault_pointer(pointer, sizeof(pointer), m->pointer, s, n);
        if (which != RETRY_MEMBER_COUNT && given & 1u << which) {
            faults_add(m->ctx->faults, pointer, "is given more than once");
            continue;
        }
        given |= 1u << which;
        if (!read_one(which, &inner, out))
            faulty |= 1u << which;
    }
    out->given = given & ((1u << RETRY_MEMBER_COUNT) - 1);
    check_together(m, given, faulty, out);
}
