/* Which addresses may be dialled.
 *
 * One form for both families (IPv4 as ::ffff:a.b.c.d) and one table of networks that are not public. For IPv6 the
 * rule is turned round: only 2000::/3 is global unicast, so everything outside it is refused without being listed.
 * Addresses that carry an IPv4 address for a translator or tunnel are public only when what they carry is.
 *
 * A network list never crosses the families: an IPv6 network shorter than the mapped prefix ("::/0") does not open
 * IPv4, because nobody who writes it means 127.0.0.1. */
#include "base/netaddr.h"
#include "base/mem.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAPPED_PREFIX 96
#define TEXT_MAX 45 /* INET6_ADDRSTRLEN without its NUL */

#define V4(a, b, c, d, bits)                                                                     \
    {                                                                                            \
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, (a), (b), (c), (d)}}, MAPPED_PREFIX + (bits) \
    }
#define V6(a, b, c, d, e, f, bits)             \
    {                                          \
        {{(a), (b), (c), (d), (e), (f)}}, bits \
    }

static const struct cidr mapped = V4(0, 0, 0, 0, 0);
static const struct cidr nat64 = V6(0x00, 0x64, 0xFF, 0x9B, 0, 0, 96);
static const struct cidr six_to_four = V6(0x20, 0x02, 0, 0, 0, 0, 16);
static const struct cidr teredo = V6(0x20, 0x01, 0, 0, 0, 0, 32);
static const struct cidr global_unicast = V6(0x20, 0, 0, 0, 0, 0, 3);

/* The IANA special-purpose registries, as far as they lie in IPv4 or 2000::/3. */
static const struct cidr not_public[] = {
    V4(0, 0, 0, 0, 8),                    /* this network */
    V4(10, 0, 0, 0, 8),                   /* private */
    V4(100, 64, 0, 0, 10),                /* shared, carrier-grade NAT */
    V4(127, 0, 0, 0, 8),                  /* loopback */
    V4(169, 254, 0, 0, 16),               /* link-local, cloud metadata */
    V4(172, 16, 0, 0, 12),                /* private */
    V4(192, 0, 0, 0, 24),                 /* IETF protocol assignments */
    V4(192, 0, 2, 0, 24),                 /* documentation */
    V4(192, 88, 99, 0, 24),               /* 6to4 relays, withdrawn */
    V4(192, 168, 0, 0, 16),               /* private */
    V4(198, 18, 0, 0, 15),                /* benchmarking */
    V4(198, 51, 100, 0, 24),              /* documentation */
    V4(203, 0, 113, 0, 24),               /* documentation */
    V4(224, 0, 0, 0, 4),                  /* multicast */
    V4(240, 0, 0, 0, 4),                  /* reserved, broadcast */
    V6(0x20, 0x01, 0x00, 0x00, 0, 0, 23), /* IETF protocol assignments, benchmarking, ORCHID */
    V6(0x20, 0x01, 0x0D, 0xB8, 0, 0, 32), /* documentation */
    V6(0x3F, 0xFF, 0x00, 0x00, 0, 0, 20), /* documentation */
};

static bool cidr_contains(const struct cidr *net, const struct netaddr *a)
{
    size_t whole = (size_t)net->prefix / 8;
    int rest = net->prefix % 8;

    if (memcmp(net->base.bytes, a->bytes, whole) != 0)
        return false;
    return rest == 0 || ((net->base.bytes[whole] ^ a->bytes[whole]) >> (8 - rest)) == 0;
}

static void set_ipv4(struct netaddr *out, const uint8_t *four)
{
    *out = mapped.base;
    memcpy(out->bytes + 12, four, 4);
}

bool netaddr_parse(const char *s, size_t n, struct netaddr *out)
{
    char text[TEXT_MAX + 1] = {0};
    struct in_addr four;
    struct in6_addr six;

    if (n > TEXT_MAX || memchr(s, '\0', n))
        return false;
    memcpy(text, s, n);
    if (inet_pton(AF_INET, text, &four) == 1) {
        set_ipv4(out, (const uint8_t *)&four.s_addr);
        return true;
    }
    if (inet_pton(AF_INET6, text, &six) == 1) {
        memcpy(out->bytes, six.s6_addr, sizeof(out->bytes));
        return true;
    }
    return false;
}

bool netaddr_from_sockaddr(const struct sockaddr *sa, struct netaddr *out)
{
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, sa, sizeof(in));
        set_ipv4(out, (const uint8_t *)&in.sin_addr.s_addr);
        return true;
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, sa, sizeof(in6));
        memcpy(out->bytes, in6.sin6_addr.s6_addr, sizeof(out->bytes));
        return true;
    }
    return false;
}

bool netaddr_is_loopback(const struct netaddr *a)
{
    static const struct cidr four = V4(127, 0, 0, 0, 8);
    static const struct netaddr six = {{[15] = 1}};

    return cidr_contains(&four, a) || memcmp(a->bytes, six.bytes, sizeof(a->bytes)) == 0;
}

static bool is_listed(const struct netaddr *a)
{
    for (size_t i = 0; i < sizeof(not_public) / sizeof(not_public[0]); i++)
        if (cidr_contains(&not_public[i], a))
            return true;
    return false;
}

static bool is_public_ipv4(const uint8_t *four)
{
    struct netaddr a;

    set_ipv4(&a, four);
    return !is_listed(&a);
}

bool netaddr_is_public(const struct netaddr *a)
{
    uint8_t client[4];

    if (cidr_contains(&mapped, a))
        return !is_listed(a);
    if (cidr_contains(&nat64, a))
        return is_public_ipv4(a->bytes + 12);
    if (cidr_contains(&six_to_four, a))
        return is_public_ipv4(a->bytes + 2);
    if (cidr_contains(&teredo, a)) { /* the server as it is, the client with all bits turned (RFC 4380) */
        for (size_t i = 0; i < sizeof(client); i++)
            client[i] = (uint8_t)~a->bytes[12 + i];
        return is_public_ipv4(a->bytes + 4) && is_public_ipv4(client);
    }
    return cidr_contains(&global_unicast, a) && !is_listed(a);
}

bool netaddr_is_allowed(const struct netaddr *a, const struct cidr_list *allowed)
{
    bool is_ipv4 = cidr_contains(&mapped, a);

    for (size_t i = 0; i < allowed->count; i++) {
        const struct cidr *net = &allowed->items[i];

        if ((!is_ipv4 || net->prefix >= MAPPED_PREFIX) && cidr_contains(net, a))
            return true;
    }
    return netaddr_is_public(a);
}

/* One or more digits, at most `max`. */
static bool prefix_parse(const char *s, size_t n, int max, int *out)
{
    int value = 0;

    if (n == 0 || n > 3)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (s[i] - '0');
    }
    *out = value;
    return value <= max;
}

static bool has_host_bits(const struct cidr *net)
{
    for (int bit = net->prefix; bit < 128; bit++)
        if (net->base.bytes[bit / 8] & (0x80 >> bit % 8))
            return true;
    return false;
}

static bool cidr_parse(const char *s, size_t n, struct cidr *out)
{
    const char *slash = memchr(s, '/', n);
    size_t address_bytes = slash ? (size_t)(slash - s) : n;
    bool is_ipv4 = !memchr(s, ':', address_bytes);

    if (!netaddr_parse(s, address_bytes, &out->base))
        return false;
    out->prefix = 128;
    if (slash) {
        if (!prefix_parse(slash + 1, n - address_bytes - 1, is_ipv4 ? 32 : 128, &out->prefix))
            return false;
        out->prefix += is_ipv4 ? MAPPED_PREFIX : 0;
    }
    return !has_host_bits(out);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void trim(const char **s, size_t *n)
{
    while (*n > 0 && is_blank(**s)) {
        (*s)++;
        (*n)--;
    }
    while (*n > 0 && is_blank((*s)[*n - 1]))
        (*n)--;
}

enum err cidr_list_parse(const char *text, struct cidr_list *out, const char **bad, size_t *bad_bytes)
{
    const char *at = text;
    bool is_last = strspn(text, " \t") == strlen(text);

    *out = (struct cidr_list){0};
    *bad = NULL;
    *bad_bytes = 0;
    while (!is_last) {
        size_t length = strcspn(at, ",");
        const char *item = at;
        size_t n = length;
        struct cidr net = {0};

        trim(&item, &n);
        if (!cidr_parse(item, n, &net)) {
            *bad = item;
            *bad_bytes = n;
            cidr_list_deinit(out);
            return ERR_INVALID;
        }
        out->items = xrealloc(out->items, (out->count + 1) * sizeof(net));
        out->items[out->count++] = net;
        is_last = at[length] == '\0';
        at += length + 1;
    }
    return ERR_OK;
}

void cidr_list_deinit(struct cidr_list *list)
{
    free(list->items);
    *list = (struct cidr_list){0};
}
