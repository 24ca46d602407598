#include "base/endpoint.h"
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const struct netaddr any_ipv4 = {{[10] = 0xFF, [11] = 0xFF}};
static const struct netaddr any_ipv6 = {{0}};
static const struct netaddr loopback_ipv4 = {{[10] = 0xFF, [11] = 0xFF, [12] = 127, [15] = 1}};
static const struct netaddr loopback_ipv6 = {{[15] = 1}};

static bool is_same(const struct netaddr *a, const struct netaddr *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool is_ipv4(const struct netaddr *a)
{
    return memcmp(a->bytes, any_ipv4.bytes, 12) == 0;
}

bool endpoint_from_sockaddr(const struct sockaddr *sa, const char *what, struct endpoint *out)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (!netaddr_from_sockaddr(sa, &out->address))
        return false;
    out->what = what;
    if (sa->sa_family == AF_INET) {
        memcpy(&v4, sa, sizeof(v4));
        out->port = ntohs(v4.sin_port);
    } else {
        memcpy(&v6, sa, sizeof(v6));
        out->port = ntohs(v6.sin6_port);
    }
    return true;
}

/* Where the system goes when it is told to dial the unspecified address. */
static const struct netaddr *really_dialled(const struct netaddr *a)
{
    if (is_same(a, &any_ipv4))
        return &loopback_ipv4;
    return is_same(a, &any_ipv6) ? &loopback_ipv6 : a;
}

bool netaddr_is_of_this_machine(const struct netaddr *a)
{
    const struct netaddr *dialled = really_dialled(a);
    struct ifaddrs *all = NULL;
    struct netaddr own;
    bool is_found = netaddr_is_loopback(dialled);

    if (is_found || getifaddrs(&all) == -1)
        return is_found;
    for (const struct ifaddrs *i = all; i && !is_found; i = i->ifa_next)
        is_found = i->ifa_addr && netaddr_from_sockaddr(i->ifa_addr, &own) && is_same(&own, dialled);
    freeifaddrs(all);
    return is_found;
}

static bool is_reached(const struct endpoint *e, const struct netaddr *a)
{
    if (is_same(&e->address, &any_ipv6))
        return netaddr_is_of_this_machine(a);
    if (is_same(&e->address, &any_ipv4))
        return is_ipv4(a) && netaddr_is_of_this_machine(a);
    return is_same(&e->address, really_dialled(a));
}

const struct endpoint *endpoint_list_find(const struct endpoint_list *list, const struct netaddr *a, int port)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].port == port && is_reached(&list->items[i], a))
            return &list->items[i];
    return NULL;
}
