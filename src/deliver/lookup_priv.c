#include "deliver/lookup_priv.h"
#include "base/netaddr.h"
#include "task/target.h"
#include <stddef.h>

/* How long the resolver may go on with a lookup nobody waits for: two tries of 5 s at up to three servers. */
#define HELD_US ((int64_t)30 * 1000 * 1000)
/* libcurl keeps a name for 60 s; half of it, since only every second pass through the gate refreshes its copy. */
#define KNOWN_US ((int64_t)30 * 1000 * 1000)
/* Lookups of one host that may hang: its later tasks wait rather than take every place. */
#define HOST_HELD_MAX 3

uint64_t lookup_host(const char *url)
{
    struct target_place place;
    struct netaddr address;

    target_place(url, &place);
    if (place.host_bytes == 0 || *place.host == '[' || netaddr_parse(place.host, place.host_bytes, &address))
        return 0;
    return target_host_hash(&place);
}

static void free_expired(struct lookup_gate *gate, int64_t now_us)
{
    for (int i = 0; i < LOOKUP_MAX; i++) {
        struct lookup_slot *slot = &gate->slots[i];
        if (slot->host != 0 && slot->held_until_us != 0 && slot->held_until_us <= now_us) {
            *slot = (struct lookup_slot){0};
            gate->used--;
        }
    }
}

/* Whether this host has a lookup under way, or too many that were let go. */
static bool host_is_busy(const struct lookup_gate *gate, uint64_t host)
{
    int held = 0;

    for (int i = 0; i < LOOKUP_MAX; i++) {
        const struct lookup_slot *slot = &gate->slots[i];
        if (slot->host != host)
            continue;
        if (slot->held_until_us == 0)
            return true;
        held++;
    }
    return held >= HOST_HELD_MAX;
}

static struct lookup_slot *find_slot(struct lookup_gate *gate, uint64_t host)
{
    for (int i = 0; i < LOOKUP_MAX; i++)
        if (gate->slots[i].host == host && gate->slots[i].held_until_us == 0)
            return &gate->slots[i];
    return NULL;
}

enum lookup_answer lookup_enter(struct lookup_gate *gate, uint64_t host, int64_t now_us)
{
    const struct lookup_known *known = &gate->known[host % LOOKUP_KNOWN_COUNT];
    struct lookup_slot *slot = NULL;

    if (host == 0 || (known->host == host && known->until_us > now_us))
        return LOOKUP_NOT_NEEDED;
    if (gate->used > 0) {
        free_expired(gate, now_us);
        if (gate->used == LOOKUP_MAX || host_is_busy(gate, host))
            return LOOKUP_MUST_WAIT;
    }
    slot = find_slot(gate, 0);
    if (slot == NULL)
        return LOOKUP_MUST_WAIT;
    slot->host = host;
    gate->used++;
    return LOOKUP_MAY_BEGIN;
}

void lookup_leave(struct lookup_gate *gate, uint64_t host, enum lookup_end end, int64_t now_us)
{
    struct lookup_slot *slot = find_slot(gate, host);

    if (slot == NULL)
        return;
    if (end == LOOKUP_LET_GO) {
        slot->held_until_us = now_us + HELD_US;
        return;
    }
    *slot = (struct lookup_slot){0};
    gate->used--;
    if (end == LOOKUP_FOUND)
        gate->known[host % LOOKUP_KNOWN_COUNT] = (struct lookup_known){.host = host, .until_us = now_us + KNOWN_US};
}

bool lookup_has_place(const struct lookup_gate *gate, uint64_t host)
{
    for (int i = 0; i < LOOKUP_MAX; i++)
        if (gate->slots[i].host == host)
            return true;
    return false;
}

int64_t lookup_next_free_us(const struct lookup_gate *gate)
{
    int64_t next = -1;

    for (int i = 0; i < LOOKUP_MAX && gate->used > 0; i++) {
        int64_t until = gate->slots[i].held_until_us;
        if (until != 0 && (next == -1 || until < next))
            next = until;
    }
    return next;
}
