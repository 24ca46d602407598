#ifndef BASE_RESOLVER_H
#define BASE_RESOLVER_H

#include <stddef.h>

struct loop;

/* The addresses of one name, looked up without waiting: getaddrinfo(3) can take as long as a name server likes, so it
 * runs in a thread of its own, at most one at a time. Threads: the owner's. */

struct resolver;

#define RESOLVER_ADDRESS_SIZE 46 /* INET6_ADDRSTRLEN */
#define RESOLVER_WHY_SIZE 80

enum resolver_result {
    RESOLVER_PENDING = 0, /* the loop is woken when it is over */
    RESOLVER_FOUND,
    RESOLVER_FAILED,
};

/* `loop` is kept, and woken when a lookup has ended. */
struct resolver *resolver_create(const char *host, struct loop *loop);

/* Does not wait for a lookup under way, whose thread then ends by itself. NULL-safe. */
void resolver_destroy(struct resolver **r);

/* Begin a lookup, unless one is under way. A numeric address is its own answer at once. */
void resolver_begin(struct resolver *r);

/* How the last lookup stands. FOUND: `address` is one of the name's addresses, IPv4 first, each time the next one, so
 * that all are tried. FAILED: `why` in a few words. */
enum resolver_result resolver_look(struct resolver *r, char address[RESOLVER_ADDRESS_SIZE],
                                   char why[RESOLVER_WHY_SIZE]);

#endif
