#include "deliver/lookup_priv.h"
#include "base/netaddr.h"
#include <stddef.h>
#include <string.h>

/* How long the resolver may go on with a lookup nobody waits for: two tries of 5 s at up to three servers. */
#define HELD_US ((int64_t)30 * 1000 * 1000)
/* libcurl keeps a name for 60 s; half of it, since only every second pass through the gate refreshes its copy. */
#define KNOWN_US ((int64_t)30 * 1000 * 1000)
/* Lookups of one host that may hang: its later tasks wait rather than take every place. */
#define HOST_HELD_MAX 3

/* FNV-1a over the name in lower case; never 0. */
static uint64_t hash_name(const char *s, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 'A' && c <= 'Z')
            c = (unsigned char)(c + ('a' - 'A'));
        h = (h ^ c) * 1099511628211u;
    }
    return h != 0 ? h : 1;
}

uint64_t lookup_host(const char *url)
{
    const char *host = strstr(url, "://");
    size_t n = 0;
    struct netaddr address;

    if (host == NULL)
        return 0;
    host += 3;
    if (*host == '[')
        return 0;
    n = strcspn(host, ":/?#");
    return netaddr_parse(host, n, &address) ? 0 : hash_name(host, n);
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
