#include "run/care_priv.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/log.h"

#include <stdlib.h>

enum destination_answer care_begin(struct destinations *all, struct delivery *d, int free_slots, int64_t now_mono_ms)
{
    enum destination_answer answer;

    if (!share_may_start(d->host, free_slots))
        return share_is_stuck(d->host) ? DESTINATION_CLOSED : DESTINATION_FULL;
    answer = destinations_start(all, share_hash(d->host), d->task->url, now_mono_ms, &d->ticket);
    if (answer == DESTINATION_GO)
        share_start(d->host);
    return answer;
}

static void report(const struct delivery *d, enum destination_change change)
{
    struct target_place place;
    char *name;

    if (change == DESTINATION_SAME)
        return;
    target_place(d->task->url, &place);
    name = target_place_name(&place);
    if (change == DESTINATION_HAS_OPENED)
        LOG_WARN("destination.open", "destination=%s action=\"nothing but probes is sent to it\"", log_quote(name));
    else
        LOG_INFO("destination.closed", "destination=%s", log_quote(name));
    free(name);
}

void care_end(struct destinations *all, struct delivery *d, const struct webhook_result *r)
{
    struct destination_end end = {.health = OUTCOME_UNKNOWN, .ticket = d->ticket};

    if (r && !r->is_local_failure) {
        end.health = outcome_health(r->status, r->retry_after_ms, r->error_kind);
        end.error_kind = r->error_kind;
    }
    share_end(d->host, end.health == OUTCOME_ALIVE);
    report(d, destinations_end(all, share_hash(d->host), &end, clock_mono_ms()));
}

int64_t care_back_off_ms(struct destinations *all, struct delivery *d, int64_t now_mono_ms)
{
    bool is_stuck;
    int64_t ms = destinations_back_off_ms(all, share_hash(d->host), now_mono_ms, ident_random_unit(), &is_stuck);

    share_set_stuck(d->host, is_stuck);
    return ms;
}
