#ifndef BASE_ENDPOINT_H
#define BASE_ENDPOINT_H

#include "base/netaddr.h"
#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

/* Where something listens. The unspecified address stands for every address of this machine, as for a socket that is
 * bound to it: 0.0.0.0 for those of IPv4, :: for those of both families. A value. */
struct endpoint {
    struct netaddr address;
    int port;
    const char *what; /* static: what listens there, "this gateway itself" */
};

struct endpoint_list {
    const struct endpoint *items; /* may be NULL when `count` is 0 */
    size_t count;
};

/* False for a family without ports. */
bool endpoint_from_sockaddr(const struct sockaddr *sa, const char *what, struct endpoint *out);

/* The one that is reached by dialling this address and port; NULL when there is none. The machine's addresses are those
 * of the moment; the system is asked for them only when the port is that of an endpoint. Any thread. */
const struct endpoint *endpoint_list_find(const struct endpoint_list *list, const struct netaddr *a, int port);

/* Loopback, unspecified (dialling it leads to loopback), or an address of one of the interfaces. */
bool netaddr_is_of_this_machine(const struct netaddr *a);

#endif
