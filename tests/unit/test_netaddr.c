#include "base/netaddr.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct netaddr addr(const char *text)
{
    struct netaddr a = {{0}};

    cr_assert(netaddr_parse(text, strlen(text), &a), "%s", text);
    return a;
}

static bool is_allowed(const char *text, const char *networks)
{
    struct netaddr a = addr(text);
    struct cidr_list list;
    const char *bad = NULL;
    size_t bad_bytes = 0;
    bool answer = false;

    cr_assert_eq(cidr_list_parse(networks, &list, &bad, &bad_bytes), ERR_OK, "%s", networks);
    answer = netaddr_is_allowed(&a, &list);
    cidr_list_deinit(&list);
    return answer;
}

Test(netaddr, public_addresses_are_public)
{
    static const char *const rows[] = {
        "1.1.1.1",           "8.8.8.8",
        "9.255.255.255",     "11.0.0.0",
        "100.63.255.255",    "100.128.0.0",
        "126.255.255.255",   "128.0.0.1",
        "169.253.255.255",   "169.255.0.0",
        "172.15.255.255",    "172.32.0.0",
        "192.0.1.0",         "192.0.3.0",
        "192.167.255.255",   "192.169.0.0",
        "198.17.255.255",    "198.20.0.0",
        "203.0.112.255",     "203.0.114.0",
        "223.255.255.255",   "2606:4700:4700::1111",
        "2a00:1450::1",      "2001:4860:4860::8888",
        "2001:200::1",       "3ffe::1",
        "::ffff:8.8.8.8",    "64:ff9b::8.8.8.8",
        "2002:0808:0808::1", "2001:0:0808:0808::f7f7:f7f7", /* Teredo: server 8.8.8.8, client 8.8.8.8 */
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct netaddr a = addr(rows[i]);

        cr_expect(netaddr_is_public(&a), "%s", rows[i]);
    }
}

Test(netaddr, special_addresses_are_not_public)
{
    static const char *const rows[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.255",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::2",
        "100::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "3fff::1",
        "3fff:fff::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "5f00::1",
        "4000::1",
        "1fff::1",
        "64:ff9b:1::8.8.8.8",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct netaddr a = addr(rows[i]);

        cr_expect_not(netaddr_is_public(&a), "%s", rows[i]);
    }
}

Test(netaddr, a_private_address_hidden_in_another_form_is_not_public)
{
    static const char *const rows[] = {
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "::10.0.0.1",
        "::169.254.169.254",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.1.2.3",
        "64:ff9b:1::127.0.0.1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2002:c0a8:1::1",
        "2002:a9fe:a9fe::1",
        "2001:0:808:808::80ff:fffe", /* Teredo: client 127.0.0.1 */
        "2001:0:7f00:1::f7f7:f7f7",  /* Teredo: server 127.0.0.1 */
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct netaddr a = addr(rows[i]);

        cr_expect_not(netaddr_is_public(&a), "%s", rows[i]);
    }
}

Test(netaddr, texts_that_are_no_numeric_address_are_refused)
{
    static const char *const rows[] = {
        "",
        "localhost",
        "127.1",
        "127.0.0.1 ",
        " 127.0.0.1",
        "0x7f.0.0.1",
        "2130706433",
        "127.0.0.01",
        "256.0.0.1",
        "1.2.3.4.5",
        "[::1]",
        "::1%lo",
        "fe80::1%1",
        "1::2::3",
        ":::",
        "12345::",
        "127.0.0.1/8",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:0000:1111",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct netaddr a;

        cr_expect_not(netaddr_parse(rows[i], strlen(rows[i]), &a), "%s", rows[i]);
    }
}

Test(netaddr, a_nul_inside_the_text_does_not_end_it)
{
    struct netaddr a;

    cr_expect_not(netaddr_parse("8.8.8.8\0x", 9, &a));
}

Test(netaddr, ipv4_and_its_mapped_form_are_one_address)
{
    struct netaddr four = addr("10.1.2.3");
    struct netaddr six = addr("::ffff:10.1.2.3");

    cr_expect_arr_eq(four.bytes, six.bytes, sizeof(four.bytes));
}

Test(netaddr, socket_addresses_of_both_families_are_read)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0A010203)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr unix_family = {.sa_family = AF_UNIX};
    struct netaddr expected = addr("10.1.2.3");
    struct netaddr a;

    cr_expect(netaddr_from_sockaddr((const struct sockaddr *)&in, &a));
    cr_expect_arr_eq(a.bytes, expected.bytes, sizeof(a.bytes));
    cr_expect(netaddr_from_sockaddr((const struct sockaddr *)&in6, &a));
    cr_expect(netaddr_is_loopback(&a));
    cr_expect_not(netaddr_from_sockaddr(&unix_family, &a));
}

Test(netaddr, loopback_is_127_slash_8_and_one_ipv6_address)
{
    static const struct {
        const char *text;
        bool is_loopback;
    } rows[] = {
        {"127.0.0.1", true}, {"127.9.9.9", true}, {"::1", true},  {"::ffff:127.0.0.1", true}, {"128.0.0.1", false},
        {"0.0.0.0", false},  {"::", false},       {"::2", false}, {"::127.0.0.1", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct netaddr a = addr(rows[i].text);

        cr_expect_eq(netaddr_is_loopback(&a), rows[i].is_loopback, "%s", rows[i].text);
    }
}

Test(netaddr, networks_allow_what_lies_inside_them_and_nothing_beside)
{
    static const struct {
        const char *address;
        const char *networks;
        bool is_allowed;
    } rows[] = {
        {"127.0.0.1", "", false},
        {"8.8.8.8", "", true},
        {"8.8.8.8", "10.0.0.0/8", true},
        {"127.0.0.1", "127.0.0.0/8", true},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.2", "127.0.0.1", false},
        {"10.1.2.3", "10.1.0.0/16,192.168.0.0/24", true},
        {"192.168.0.9", "10.1.0.0/16 , 192.168.0.0/24", true},
        {"192.168.1.0", "10.1.0.0/16,192.168.0.0/24", false},
        {"172.16.5.4", "172.16.4.0/23", true},
        {"172.16.6.0", "172.16.4.0/23", false},
        {"::1", "::1", true},
        {"::1", "127.0.0.0/8", false},
        {"fd00::5", "fd00::/8", true},
        {"fe00::5", "fd00::/8", false},
        {"127.0.0.1", "0.0.0.0/0", true},
        {"::1", "0.0.0.0/0", false},
        {"::1", "::/0", true},
        {"127.0.0.1", "::/0", false}, /* IPv6 networks do not open IPv4 */
        {"127.0.0.1", "::ffff:127.0.0.0/104", true},
        {"::ffff:127.0.0.1", "127.0.0.0/8", true},
        {"64:ff9b::127.0.0.1", "127.0.0.0/8", false}, /* other hidden forms must be named */
        {"64:ff9b::127.0.0.1", "64:ff9b::/96", true},
        {"2002:7f00:1::", "127.0.0.0/8", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(is_allowed(rows[i].address, rows[i].networks), rows[i].is_allowed, "%s in \"%s\"", rows[i].address,
                     rows[i].networks);
}

Test(netaddr, an_empty_or_blank_list_is_empty)
{
    static const char *const rows[] = {"", " ", "\t  "};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct cidr_list list;
        const char *bad = NULL;
        size_t bad_bytes = 0;

        cr_expect_eq(cidr_list_parse(rows[i], &list, &bad, &bad_bytes), ERR_OK);
        cr_expect_eq(list.count, 0);
        cidr_list_deinit(&list);
    }
}

Test(netaddr, a_bad_network_is_pointed_out)
{
    static const struct {
        const char *text;
        const char *bad;
    } rows[] = {
        {"10.0.0.0/8,nonsense,::1", "nonsense"},
        {"10.0.0.1/8", "10.0.0.1/8"}, /* host bits */
        {"10.0.0.0/33", "10.0.0.0/33"},
        {"::/129", "::/129"},
        {"10.0.0.0/", "10.0.0.0/"},
        {"10.0.0.0/-1", "10.0.0.0/-1"},
        {"10.0.0.0/8x", "10.0.0.0/8x"},
        {"10.0.0.0/0008", "10.0.0.0/0008"},
        {"10.0.0.0 /8", "10.0.0.0 /8"},
        {"10/8", "10/8"},
        {"localhost", "localhost"},
        {"::1/128, ::2/64", "::2/64"},
        {",", ""},
        {"::1,", ""},
        {"::1,,::2", ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct cidr_list list;
        const char *bad = NULL;
        size_t bad_bytes = 99;

        cr_expect_eq(cidr_list_parse(rows[i].text, &list, &bad, &bad_bytes), ERR_INVALID, "%s", rows[i].text);
        cr_assert_not_null(bad, "%s", rows[i].text);
        cr_expect_eq(bad_bytes, strlen(rows[i].bad), "%s", rows[i].text);
        cr_expect(strncmp(bad, rows[i].bad, bad_bytes) == 0, "%s", rows[i].text);
        cr_expect_eq(list.count, 0);
        cr_expect_null(list.items);
    }
}
