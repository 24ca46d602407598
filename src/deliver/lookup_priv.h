#ifndef DELIVER_LOOKUP_PRIV_H
#define DELIVER_LOOKUP_PRIV_H

#include <stdbool.h>
#include <stdint.h>

/* A gate before name lookups. libcurl runs each lookup in a thread of its own and lets go of one that hangs without
 * ending it, so the gate bounds the threads: at most LOOKUP_MAX in all, one at a time for a host, and a lookup that
 * was let go keeps its place for as long as the resolver may take. A host that was found lately passes freely:
 * libcurl still knows its addresses.
 *
 * A host is a 64-bit hash of its name; two hosts with the same one merely wait for each other. Threads: one owner. */

#define LOOKUP_MAX 64
#define LOOKUP_KNOWN_COUNT 256

struct lookup_slot {
    uint64_t host;         /* 0: free */
    int64_t held_until_us; /* monotonic; 0: the lookup is under way, else it was let go */
};

struct lookup_known {
    uint64_t host;
    int64_t until_us; /* monotonic */
};

struct lookup_gate {
    struct lookup_slot slots[LOOKUP_MAX];
    int used;
    struct lookup_known known[LOOKUP_KNOWN_COUNT];
};

enum lookup_answer {
    LOOKUP_NOT_NEEDED = 0, /* an address, or a name found lately */
    LOOKUP_MAY_BEGIN,      /* a place was taken: lookup_leave() gives it back */
    LOOKUP_MUST_WAIT,
};

enum lookup_end {
    LOOKUP_FOUND = 0,
    LOOKUP_FAILED, /* the resolver answered, or never began */
    LOOKUP_LET_GO, /* the attempt ended before its lookup did */
};

/* The host of a URL; 0 when it is an address and needs no lookup. */
uint64_t lookup_host(const char *url);

enum lookup_answer lookup_enter(struct lookup_gate *gate, uint64_t host, int64_t now_us);
void lookup_leave(struct lookup_gate *gate, uint64_t host, enum lookup_end end, int64_t now_us);

/* Whether this host has a place, under way or held: who waits then waits for its own name, and not for others. */
bool lookup_has_place(const struct lookup_gate *gate, uint64_t host);

/* When the next held place becomes free; -1 when none is held. */
int64_t lookup_next_free_us(const struct lookup_gate *gate);

#endif
