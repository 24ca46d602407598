#include "base/resolver.h"
#include "../support/wait.h"
#include "base/clock.h"
#include "base/loop.h"
#include <criterion/criterion.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* Stands in front of the C library's: knows "two.test", hangs on "slow.test" until told, has nothing else. */
static sem_t go;

static struct addrinfo *entry(const char *numeric, struct addrinfo *next)
{
    struct addrinfo *a = calloc(1, sizeof(*a));
    struct sockaddr_storage *s = calloc(1, sizeof(*s));

    if (strchr(numeric, ':')) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)s;
        six->sin6_family = AF_INET6;
        six->sin6_addr.s6_addr[15] = 1;
        a->ai_addrlen = sizeof(*six);
    } else {
        struct sockaddr_in *four = (struct sockaddr_in *)(void *)s;
        four->sin_family = AF_INET;
        four->sin_addr.s_addr = __builtin_bswap32(0x7f000000u | (unsigned)(numeric[strlen(numeric) - 1] - '0'));
        a->ai_addrlen = sizeof(*four);
    }
    a->ai_family = s->ss_family;
    a->ai_addr = (struct sockaddr *)s;
    a->ai_next = next;
    return a;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)service;
    if (strcmp(node, "slow.test") == 0)
        (void)sem_wait(&go);
    if (hints->ai_flags & AI_NUMERICHOST)
        *out = entry(node, NULL);
    else if (strcmp(node, "two.test") == 0 || strcmp(node, "slow.test") == 0)
        *out = entry("::1", entry("127.0.0.2", entry("127.0.0.3", NULL)));
    else
        return EAI_NONAME;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list->ai_addr);
        free(list);
        list = next;
    }
}

static struct loop *loop;
static struct resolver *resolver;
static char address[RESOLVER_ADDRESS_SIZE], why[RESOLVER_WHY_SIZE];

static void set_up(void)
{
    (void)sem_init(&go, 0, 0);
    loop = loop_create();
}

static void tear_down(void)
{
    resolver_destroy(&resolver);
    loop_destroy(&loop);
}

TestSuite(resolver, .init = set_up, .fini = tear_down, .timeout = 30);

static enum resolver_result wait_for_result(void)
{
    enum resolver_result result;

    WAIT_UNTIL((result = resolver_look(resolver, address, why)) != RESOLVER_PENDING, 5000);
    return result;
}

Test(resolver, a_numeric_address_is_there_at_once)
{
    resolver = resolver_create("127.0.0.7", loop);
    resolver_begin(resolver);
    cr_assert_eq(resolver_look(resolver, address, why), RESOLVER_FOUND);
    cr_expect_str_eq(address, "127.0.0.7");
}

Test(resolver, a_name_gives_its_addresses_in_turn_ipv4_first)
{
    resolver = resolver_create("two.test", loop);
    cr_expect_eq(resolver_look(resolver, address, why), RESOLVER_PENDING, "nothing was asked yet");
    resolver_begin(resolver);
    cr_assert_eq(wait_for_result(), RESOLVER_FOUND);
    cr_expect_str_eq(address, "127.0.0.2");
    (void)resolver_look(resolver, address, why);
    cr_expect_str_eq(address, "127.0.0.3");
    (void)resolver_look(resolver, address, why);
    cr_expect_str_eq(address, "::1");
    (void)resolver_look(resolver, address, why);
    cr_expect_str_eq(address, "127.0.0.2");
}

Test(resolver, a_name_that_is_not_there_fails_with_the_reason)
{
    resolver = resolver_create("none.test", loop);
    resolver_begin(resolver);
    cr_assert_eq(wait_for_result(), RESOLVER_FAILED);
    cr_expect_str_eq(why, gai_strerror(EAI_NONAME));
}

Test(resolver, a_lookup_that_hangs_keeps_nobody_waiting_and_wakes_the_loop_when_it_ends)
{
    int64_t began = clock_mono_ms();

    resolver = resolver_create("slow.test", loop);
    resolver_begin(resolver);
    resolver_begin(resolver); /* one is under way */
    cr_expect_eq(resolver_look(resolver, address, why), RESOLVER_PENDING);
    cr_expect_lt(clock_mono_ms() - began, 1000);
    (void)sem_post(&go);
    loop_turn(loop, 10000000);
    cr_expect_lt(clock_mono_ms() - began, 9000);
    cr_expect_eq(resolver_look(resolver, address, why), RESOLVER_FOUND);
}

Test(resolver, it_can_go_while_a_lookup_hangs)
{
    resolver = resolver_create("slow.test", loop);
    resolver_begin(resolver);
    resolver_destroy(&resolver);
    cr_expect_null(resolver);
    (void)sem_post(&go);
}
