/* What counts as dialling an endpoint. */
#include "base/endpoint.h"
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct netaddr addr(const char *text)
{
    struct netaddr a = {{0}};

    cr_assert(netaddr_parse(text, strlen(text), &a), "%s", text);
    return a;
}

static bool is_reached(const char *listening, const struct netaddr *dialled, int port)
{
    struct endpoint e = {.address = addr(listening), .port = 8080};
    struct endpoint_list list = {.items = &e, .count = 1};
    const struct endpoint *found = endpoint_list_find(&list, dialled, port);

    cr_expect(found == NULL || found == &e);
    return found != NULL;
}

Test(endpoint, an_address_is_reached_by_what_leads_to_it)
{
    static const struct {
        const char *listening, *dialled;
        bool is_reached;
    } rows[] = {
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "::ffff:127.0.0.1", true},
        {"127.0.0.1", "0.0.0.0", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"127.0.0.1", "::1", false},
        {"127.0.0.1", "::", false},
        {"::1", "::1", true},
        {"::1", "::", true},
        {"::1", "127.0.0.1", false},
        {"10.1.2.3", "10.1.2.3", true},
        {"10.1.2.3", "10.1.2.4", false},
        {"10.1.2.3", "127.0.0.1", false},
        {"10.1.2.3", "0.0.0.0", false},
        {"fd00::5", "fd00::5", true},
        {"fd00::5", "fd00::6", false},
        {"0.0.0.0", "127.0.0.1", true},
        {"0.0.0.0", "127.200.0.1", true},
        {"0.0.0.0", "0.0.0.0", true},
        {"0.0.0.0", "::1", false},
        {"0.0.0.0", "::", false},
        {"0.0.0.0", "203.0.113.77", false},
        {"::", "127.0.0.1", true},
        {"::", "0.0.0.0", true},
        {"::", "::1", true},
        {"::", "::", true},
        {"::", "203.0.113.77", false},
        {"::", "2001:db8::77", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct netaddr dialled = addr(rows[i].dialled);

        cr_expect_eq(is_reached(rows[i].listening, &dialled, 8080), rows[i].is_reached, "%s by %s", rows[i].listening,
                     rows[i].dialled);
        cr_expect_not(is_reached(rows[i].listening, &dialled, 8081), "another port of %s", rows[i].dialled);
    }
}

Test(endpoint, who_listens_on_all_addresses_is_reached_by_that_of_every_interface)
{
    struct ifaddrs *all = NULL;

    cr_assert_eq(getifaddrs(&all), 0);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct netaddr own;

        if (!i->ifa_addr || !netaddr_from_sockaddr(i->ifa_addr, &own))
            continue;
        cr_expect(netaddr_is_of_this_machine(&own), "%s", i->ifa_name);
        cr_expect(is_reached("::", &own, 8080), "%s", i->ifa_name);
        cr_expect_eq(is_reached("0.0.0.0", &own, 8080), i->ifa_addr->sa_family == AF_INET, "%s", i->ifa_name);
    }
    freeifaddrs(all);
}

Test(endpoint, the_one_that_is_meant_is_found_among_several)
{
    struct endpoint items[] = {{.address = addr("127.0.0.1"), .port = 8080, .what = "one"},
                               {.address = addr("::"), .port = 6379, .what = "other"}};
    struct endpoint_list list = {.items = items, .count = COUNT(items)};
    struct endpoint_list empty = {.count = 0};
    struct netaddr loopback = addr("127.0.0.1");

    cr_expect_eq(endpoint_list_find(&list, &loopback, 6379), &items[1]);
    cr_expect_eq(endpoint_list_find(&list, &loopback, 8080), &items[0]);
    cr_expect_null(endpoint_list_find(&empty, &loopback, 8080));
}

Test(endpoint, a_socket_address_gives_its_address_and_port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(443), .sin_addr.s_addr = htonl(0x0a010203)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(65535), .sin6_addr = {{{[15] = 1}}}};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct netaddr four = addr("10.1.2.3"), six = addr("::1");
    struct endpoint e;

    cr_assert(endpoint_from_sockaddr((const struct sockaddr *)&v4, "it", &e));
    cr_expect_eq(e.port, 443);
    cr_expect_str_eq(e.what, "it");
    cr_expect_eq(memcmp(&e.address, &four, sizeof(four)), 0);
    cr_assert(endpoint_from_sockaddr((const struct sockaddr *)&v6, "it", &e));
    cr_expect_eq(e.port, 65535);
    cr_expect_eq(memcmp(&e.address, &six, sizeof(six)), 0);
    cr_expect_not(endpoint_from_sockaddr((const struct sockaddr *)&local, "it", &e));
}
