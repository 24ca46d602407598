#include "task/target.h"
#include "task/task.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define LOOPBACK "127.0.0.0/8"

/* Check `url` with these networks allowed. Gives the clean URL; NULL when refused, with the reason in `detail`. */
static char *check(const char *url, size_t n, const char *networks, char detail[TARGET_DETAIL_SIZE])
{
    struct cidr_list list;
    const char *bad = NULL;
    size_t bad_bytes = 0;
    char *clean = NULL;

    cr_assert_eq(cidr_list_parse(networks, &list, &bad, &bad_bytes), ERR_OK, "%s", networks);
    bool is_fine = target_check(url, n, &list, &clean, detail);

    cidr_list_deinit(&list);
    cr_expect_eq(is_fine, clean != NULL, "%s", url);
    cr_expect_eq(is_fine, detail[0] == '\0', "%s: %s", url, detail);
    return clean;
}

static void expect_refused(const char *url, const char *networks, const char *reason)
{
    char detail[TARGET_DETAIL_SIZE] = "";
    char *clean = check(url, strlen(url), networks, detail);

    cr_expect_null(clean, "accepted: %s", url);
    cr_expect(strstr(detail, reason), "%s: %s", url, detail);
    free(clean);
}

static void expect_fine(const char *url, const char *networks, const char *clean_url)
{
    char detail[TARGET_DETAIL_SIZE] = "";
    char *clean = check(url, strlen(url), networks, detail);

    cr_expect(clean && strcmp(clean, clean_url) == 0, "%s: %s", url, clean ? clean : detail);
    free(clean);
}

Test(target, public_urls_pass_as_they_are)
{
    static const char *const rows[] = {
        "http://example.com",
        "https://example.com/",
        "HTTP://Example.COM/Path",
        "hTTps://example.com/a/../b/./c//d",
        "http://example.com:1/",
        "http://example.com:65535/",
        "http://example.com:080/",
        "http://example.com?a=b&c=d",
        "http://example.com/%2e%2e/%00/%zz?x=%20",
        "http://example.com/@user:pass",
        "http://example.com/?q=@127.0.0.1",
        "http://example.com./",
        "http://a/",
        "http://a_b-c.example/",
        "http://xn--bcher-kva.example/",
        "http://1and1.example/",
        "http://3com",
        "http://8.8.8.8/",
        "http://134744072/", /* 8.8.8.8 */
        "http://[2606:4700:4700::1111]:8443/x",
        "http://[::ffff:8.8.8.8]/",
        "http://localhost.example.com/",
        "http://notlocalhost/",
        "http://example.com/\"<>{}|^`",
        "http://example.com//evil.example/",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_fine(rows[i], "", rows[i]);
}

Test(target, fragments_are_dropped)
{
    expect_fine("http://example.com/a?b#c", "", "http://example.com/a?b");
    expect_fine("http://example.com/#", "", "http://example.com/");
    expect_fine("http://example.com#top", "", "http://example.com");
    expect_fine("http://example.com/#a#b?c/d@e", "", "http://example.com/");
    expect_fine("http://example.com:81#x", "", "http://example.com:81");
}

Test(target, what_is_no_http_url_is_refused)
{
    static const struct {
        const char *url;
        const char *reason;
    } rows[] = {
        {"", "empty"},
        {"example.com", "http://"},
        {"127.0.0.1:9001/x", "http://"},
        {"//example.com/", "http://"},
        {"/path", "http://"},
        {"http", "http://"},
        {"http:", "http://"},
        {"http:/", "http://"},
        {"http:127.0.0.1", "http://"},
        {"http:/example.com", "http://"},
        {"http://", "host"},
        {"http:///example.com", "host"},
        {"http:////example.com", "host"},
        {"http://?a", "host"},
        {"http://#a", "host"},
        {"http://:80/", ""},
        {"ftp://example.com/", "http://"},
        {"file:///etc/hostname", "http://"},
        {"gopher://example.com/", "http://"},
        {"javascript:alert(1)", "http://"},
        {"httpx://example.com/", "http://"},
        {"https//example.com/", "http://"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i].url, LOOPBACK, rows[i].reason);
}

Test(target, bytes_outside_printable_ascii_are_refused)
{
    static const struct {
        const char *url;
        const char *reason;
    } rows[] = {
        {" http://example.com/", "blanks"},
        {"http://example.com/ ", "blanks"},
        {"http://exa mple.com/", "blanks"},
        {"http://example.com/\t", "blanks"},
        {"http://exam\tple.com/", "blanks"},
        {"http://example.com/\r\nX: y", "blanks"},
        {"http://example.com\r\n/", "blanks"},
        {"http://example.com/\x01", "blanks"},
        {"http://example.com/\x7f", "blanks"},
        {"http://b\xc3\xbc"
         "cher.example/",
         "ASCII"},
        {"http://example.com/\xc3\xa9", "ASCII"},
        {"http://127\xef\xbc\x8e"
         "0.0.1/",
         "ASCII"}, /* full-width dots */
        {"http://127\xe3\x80\x82"
         "0.0.1/",
         "ASCII"},
        {"http://example.com\\@127.0.0.1/", "backslash"},
        {"http://127.0.0.1:9001\\@example.com/", "backslash"},
        {"http:\\\\example.com/", "backslash"},
        {"http://example.com/a\\b", "backslash"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i].url, LOOPBACK, rows[i].reason);
}

Test(target, a_nul_is_a_control_character)
{
    static const char url[] = "http://example.com/\0x";
    char detail[TARGET_DETAIL_SIZE] = "";

    cr_expect_null(check(url, sizeof(url) - 1, "", detail));
    cr_expect(strstr(detail, "control"), "%s", detail);
}

Test(target, user_info_is_refused_wherever_a_parser_could_see_it)
{
    static const char *const rows[] = {
        "http://user@example.com/",
        "http://user:pass@example.com/",
        "http://@example.com/",
        "http://:@example.com/",
        "http://example.com@127.0.0.1:9001/",
        "http://example.com:80@127.0.0.1:9001/",
        "http://example.com#@127.0.0.1:9001/",
        "http://a@b@example.com/",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i], LOOPBACK, "user name");
}

Test(target, wrong_ports_are_refused)
{
    static const char *const rows[] = {
        "http://example.com:0/",
        "http://example.com:00000/",
        "http://example.com:65536/",
        "http://example.com:99999/",
        "http://example.com:-1/",
        "http://example.com:80x/",
        "http://example.com:0x50/",
        "http://example.com:/",
        "http://example.com:",
        "http://example.com:#x",
        "http://example.com:?x",
        "http://[2606:4700::1]:0/",
        "http://[2606:4700::1]:/",
        "http://example.com:+80/",
        "http://example.com:4294967376/",
        "http://example.com:18446744073709551696/",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i], LOOPBACK, "port");
}

Test(target, wrong_hosts_are_refused)
{
    static const char *const rows[] = {
        "http://exa%6dple.com/",
        "http://127%2e0.0.1/",
        "http://%00/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1/",
        "http://::1/",
        "http://[]/",
        "http://[1.2.3.4]/",
        "http://[v1.a]/",
        "http://[::1]x/",
        "http://[g::1]/",
        "http://./",
        "http://../",
        "http://.example.com/",
        "http://a..b/",
        "http://example.com../",
        "http://256.1.1.1/",
        "http://1.2.3.4.5/",
        "http://1.2.3.4567/",
        "http://4294967296/",
        "http://0x1ffffffff/",
        "http://example.1/",
        "http://example.0x1f/",
        "http://0x/",
        "http://1.2.3.09/",
        "http://a,b/",
        "http://a;b/",
        "http://a*b/",
        "http://a b/",
        "http://a|b/",
        "http://a~b/",
        "http://example.com:80:80/",
        "http://[2606:4700:4700:0:0:0:0:0:1111]/",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i], LOOPBACK ",::1/128", "");
}

Test(target, addresses_that_are_not_public_are_refused_in_every_spelling)
{
    static const char *const rows[] = {
        "http://127.0.0.1:9001/",
        "http://127.1/",
        "http://127.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0X7F000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0.1./",
        "http://0x7f.1./",
        "http://0/",
        "http://0.0.0.0:9001/",
        "http://00000/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/",
        "http://2852039166/", /* 169.254.169.254 */
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]:9001/",
        "http://[::1]:9001/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:127.0.0.1]:9001/",
        "http://[::ffff:7f00:1]:9001/",
        "http://[::127.0.0.1]:9001/",
        "http://[64:ff9b::7f00:1]:9001/",
        "http://[2002:7f00:1::]:9001/",
        "http://[::ffff:a9fe:a9fe]:9001/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[ff02::1]/",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i], "", "allow-net");
}

Test(target, the_names_of_loopback_are_refused)
{
    static const char *const rows[] = {
        "http://localhost/",     "http://LocalHost:9001/",  "http://localhost./",
        "http://app.localhost/", "http://a.b.LOCALHOST./x",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_refused(rows[i], "10.0.0.0/8", "allow-net");
}

Test(target, allowed_networks_pass)
{
    static const struct {
        const char *url;
        const char *networks;
        bool is_fine;
    } rows[] = {
        {"http://127.0.0.1:9001/", LOOPBACK, true},
        {"http://2130706433/", LOOPBACK, true},
        {"http://127.1./", LOOPBACK, true},
        {"http://[::ffff:127.0.0.1]/", LOOPBACK, true}, /* the same address, mapped */
        {"http://[::127.0.0.1]/", LOOPBACK, false},
        {"http://[2002:7f00:1::]/", LOOPBACK, false},
        {"http://[::1]/", LOOPBACK, false},
        {"http://[::1]/", "::1/128", true},
        {"http://10.0.0.1/", LOOPBACK, false},
        {"http://10.0.0.1/", LOOPBACK ",10.0.0.0/8", true},
        {"http://169.254.169.254/", LOOPBACK ",10.0.0.0/8", false},
        {"http://localhost/", LOOPBACK, true},
        {"http://app.localhost:81/", "127.0.0.1/32", true},
        {"http://localhost/", "::1/128", true},
        {"http://localhost/", "127.0.0.2/32", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].is_fine)
            expect_fine(rows[i].url, rows[i].networks, rows[i].url);
        else
            expect_refused(rows[i].url, rows[i].networks, "allow-net");
    }
}

Test(target, a_url_has_a_longest_length_with_its_fragment)
{
    char url[TASK_URL_MAX + 2] = "http://example.com/";
    char detail[TARGET_DETAIL_SIZE] = "";

    memset(url + strlen(url), 'a', sizeof(url) - strlen(url));
    char *clean = check(url, TASK_URL_MAX, "", detail);

    cr_expect(clean && strlen(clean) == TASK_URL_MAX, "%s", detail);
    free(clean);
    cr_expect_null(check(url, TASK_URL_MAX + 1, "", detail));
    cr_expect_str_eq(detail, "must be at most 2048 bytes");
}

Test(target, a_host_name_has_a_longest_length)
{
    char url[600] = "http://";
    char detail[TARGET_DETAIL_SIZE] = "";
    size_t prefix = strlen(url);

    for (size_t i = 0; i < 300; i++)
        url[prefix + i] = i % 50 == 49 ? '.' : 'a';
    char *clean = check(url, prefix + 253, "", detail);

    cr_expect_not_null(clean, "%s", detail);
    free(clean);
    cr_expect_null(check(url, prefix + 254, "", detail));
    cr_expect(strstr(detail, "253"), "%s", detail);
}

Test(target, a_refusal_fits_its_room_whatever_the_host)
{
    char url[1000] = "http://[";
    char detail[TARGET_DETAIL_SIZE] = "";

    memset(url + strlen(url), ':', 900);
    expect_refused(url, "", "");
    memset(url, 'x', sizeof(url) - 1);
    cr_expect_null(check(url, 999, "", detail));
    cr_expect_lt(strlen(detail), TARGET_DETAIL_SIZE);
}

Test(target, a_place_is_a_scheme_host_and_port)
{
    static const struct {
        const char *url, *name;
    } rows[] = {
        {"http://a.example/x", "http://a.example:80"},
        {"https://a.example", "https://a.example:443"},
        {"HTTPS://A.Example:8443?q=a:1", "https://a.example:8443"},
        {"http://a.example:00080/", "http://a.example:80"},
        {"http://[2001:DB8::1]/a:7", "http://[2001:db8::1]:80"},
        {"http://[::1]:9/", "http://[::1]:9"},
        {"http://a#b", "http://a:80"},
        {"http://a:7#b", "http://a:7"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct target_place place, again;
        target_place(rows[i].url, &place);
        char *name = target_place_name(&place);
        cr_expect_str_eq(name, rows[i].name, "%s", rows[i].url);
        target_place(name, &again);
        cr_expect_eq(target_place_hash(&place), target_place_hash(&again), "%s", rows[i].url);
        cr_expect_eq(target_host_hash(&place), target_host_hash(&again), "%s", rows[i].url);
        free(name);
    }
}

Test(target, places_that_differ_in_one_part_differ)
{
    static const char *const urls[] = {"http://a/", "https://a/", "http://a:443/", "http://b/", "http://a:81/"};

    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        for (size_t j = 0; j < i; j++) {
            struct target_place a, b;
            target_place(urls[i], &a);
            target_place(urls[j], &b);
            cr_expect_neq(target_place_hash(&a), target_place_hash(&b), "%s %s", urls[i], urls[j]);
        }
    }
}
