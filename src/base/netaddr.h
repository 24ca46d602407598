#ifndef BASE_NETADDR_H
#define BASE_NETADDR_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

/* An IP address in one form: IPv4 is kept as IPv4-mapped IPv6, so every rule is written once. */
struct netaddr {
    uint8_t bytes[16];
};

struct cidr {
    struct netaddr base;
    int prefix; /* 0..128, in terms of the mapped form */
};

/* A set of networks; `items` may be NULL when `count` is 0. */
struct cidr_list {
    struct cidr *items;
    size_t count;
};

/* Read a numeric address, "127.0.0.1", "::1" (no brackets). False for anything else. */
bool netaddr_parse(const char *s, size_t n, struct netaddr *out);
bool netaddr_from_sockaddr(const struct sockaddr *sa, struct netaddr *out);
bool netaddr_is_loopback(const struct netaddr *a);

/* Whether the address is one of the public Internet: not loopback, private, link-local, unique local, shared
 * (100.64/10), multicast, unspecified, documentation, benchmarking, reserved, and none of these hidden in an
 * IPv4-mapped, IPv4-compatible, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), 6to4 (2002::/16) or Teredo (2001::/32)
 * form. After the IANA special-purpose address registries (RFC 6890 and its updates). */
bool netaddr_is_public(const struct netaddr *a);

/* Public, or inside one of `allowed`. An IPv4 address hidden in an IPv4-mapped form follows the IPv4 rule; the
 * other hidden forms are allowed only by a network that names them. */
bool netaddr_is_allowed(const struct netaddr *a, const struct cidr_list *allowed);

/* Comma-separated CIDRs ("127.0.0.0/8,::1/128"; blanks around commas are fine; an address without "/n" is one
 * host). An empty text gives an empty list. Host bits set after the prefix are a fault. On a fault: ERR_INVALID
 * and *bad points at the offending item inside `text` (*bad_bytes long). Gives out->items. */
enum err cidr_list_parse(const char *text, struct cidr_list *out, const char **bad, size_t *bad_bytes) NODISCARD;
void cidr_list_deinit(struct cidr_list *list);

#endif
