/* Names: lookups that hang, fail, change, or give addresses that may not be dialled.
 *
 * libcurl finds the getaddrinfo() below instead of the C library's, so the tests decide what a name means:
 *   good-*     127.0.0.1
 *   private-*  10.255.255.1
 *   mixed-*    10.255.255.1, then 127.0.0.1
 *   rebind-*   127.0.0.1 the first time, 10.255.255.1 after it
 *   hang-*     nothing until the test ends */
#include "../support/pool_fixture.h"
#include "../support/wait.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int lookups, lookups_now, lookups_most;
static atomic_bool is_released;

static struct pool_fixture *f;
static struct task *t;

static struct addrinfo *address(const char *text, const char *service, struct addrinfo *next)
{
    struct addrinfo *a = calloc(1, sizeof(*a) + sizeof(struct sockaddr_in));
    struct sockaddr_in *sa = (struct sockaddr_in *)(void *)(a + 1);

    sa->sin_family = AF_INET;
    sa->sin_port = htons((uint16_t)strtoul(service, NULL, 10));
    (void)inet_pton(AF_INET, text, &sa->sin_addr);
    *a = (struct addrinfo){.ai_family = AF_INET,
                           .ai_socktype = SOCK_STREAM,
                           .ai_addrlen = sizeof(*sa),
                           .ai_addr = (struct sockaddr *)(void *)sa,
                           .ai_next = next};
    return a;
}

static void hang(void)
{
    int now = atomic_fetch_add(&lookups_now, 1) + 1;
    int most = atomic_load(&lookups_most);

    while (now > most && !atomic_compare_exchange_weak(&lookups_most, &most, now)) {
    }
    while (!atomic_load(&is_released))
        (void)usleep(1000);
    atomic_fetch_sub(&lookups_now, 1);
}

static bool begins_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    int before = atomic_fetch_add(&lookups, 1);

    (void)hints;
    *out = NULL;
    if (begins_with(name, "hang-"))
        hang();
    if (begins_with(name, "good-") || (begins_with(name, "rebind-") && before == 0))
        *out = address("127.0.0.1", service, NULL);
    else if (begins_with(name, "private-") || begins_with(name, "rebind-"))
        *out = address("10.255.255.1", service, NULL);
    else if (begins_with(name, "mixed-"))
        *out = address("10.255.255.1", service, address("127.0.0.1", service, NULL));
    return *out != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list != NULL) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

static void setup(void)
{
    f = pool_fixture_create(NULL);
    t = pool_fixture_task(f, NULL);
}

static void teardown(void)
{
    task_destroy(&t);
    pool_fixture_destroy(&f);
    atomic_store(&is_released, true);
    WAIT_UNTIL(atomic_load(&lookups_now) == 0, 5000);
}

TestSuite(pool_names, .init = setup, .fini = teardown, .timeout = 120);

/* A task to this name at the receiver's port; it lives until the test ends. */
static struct task *task_to(const char *name, int64_t timeout_ms)
{
    struct task *named = NULL;
    char url[128];

    (void)snprintf(url, sizeof(url), "http://%s:%d/hook", name, receiver_port(f->receiver));
    named = pool_fixture_task(f, url);
    named->timeout_ms = timeout_ms;
    return named;
}

/* One attempt to a name, for which the task lives just as long. */
static const struct webhook_result *send_to(const char *name)
{
    struct task *named = task_to(name, 5000);
    const struct webhook_result *r = pool_fixture_send_last(f, named);

    task_destroy(&named);
    return r;
}

Test(pool_names, a_name_is_looked_up_once_for_many_attempts)
{
    for (int i = 0; i < 5; i++)
        cr_assert_eq(send_to("good-name")->status, 200, "%s", f->results[i].error);
    cr_expect_eq(receiver_connection_count(f->receiver), 5);
    cr_expect_eq(atomic_load(&lookups), 1);
}

Test(pool_names, attempts_begun_together_share_one_lookup)
{
    struct task *named = task_to("good-name", 5000);

    for (int i = 0; i < 100; i++)
        pool_fixture_start(f, named, false);
    pool_fixture_wait(f, 100);
    for (int i = 0; i < 100; i++)
        cr_expect_eq(f->results[i].status, 200, "%s", f->results[i].error);
    cr_expect_eq(atomic_load(&lookups), 1);
    task_destroy(&named);
}

Test(pool_names, a_name_of_a_private_address_is_blocked)
{
    cr_expect_str_eq(send_to("private-name")->error, "blocked: 10.255.255.1 is not a public address (allow-net)");
}

Test(pool_names, of_several_addresses_the_allowed_one_is_dialled)
{
    cr_expect_eq(send_to("mixed-name")->status, 200, "%s", f->results[0].error);
}

Test(pool_names, a_name_that_changes_its_answer_gains_nothing)
{
    cr_assert_eq(send_to("rebind-name")->status, 200, "%s", f->results[0].error);
    pool_fixture_destroy(&f); /* and with it the addresses that are known */
    f = pool_fixture_create(NULL);
    cr_expect_str_eq(send_to("rebind-name")->error, "blocked: 10.255.255.1 is not a public address (allow-net)");
}

Test(pool_names, a_lookup_that_hangs_holds_nobody_up_and_ends_at_the_timeout)
{
    struct task *stuck = task_to("hang-name", 500);

    pool_fixture_start(f, stuck, false);
    WAIT_UNTIL((pool_fixture_turn(f), atomic_load(&lookups_now)) == 1, 5000);
    cr_expect_eq(send_to("good-name")->status, 200, "%s", f->results[0].error);
    cr_expect_eq(pool_fixture_send(f, t)->status, 200, "%s", f->results[1].error);
    pool_fixture_wait(f, 3);
    cr_expect_str_eq(f->results[2].error, "timeout after 500 ms in the name lookup");
    cr_expect_lt(f->results[2].duration_us / 1000, 500 + wait_scaled_ms(300));
    cr_expect(!f->results[2].is_local_failure);
    task_destroy(&stuck);
}

Test(pool_names, the_pool_ends_at_once_although_a_lookup_hangs)
{
    struct task *stuck = task_to("hang-name", 60000);
    int64_t begin_ms = 0;

    pool_fixture_start(f, stuck, false);
    WAIT_UNTIL((pool_fixture_turn(f), atomic_load(&lookups_now)) == 1, 5000);
    begin_ms = wait_mono_ms();
    pool_destroy(&f->pool);
    cr_expect_lt(wait_mono_ms() - begin_ms, wait_scaled_ms(300));
    task_destroy(&stuck);
}

Test(pool_names, a_hundred_hanging_names_take_64_lookups_and_the_rest_is_given_back)
{
    enum { MANY = 100 };
    struct task *stuck[MANY];
    char name[32];
    int given_back = 0;

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "hang-%d", i);
        stuck[i] = task_to(name, 1000);
        pool_fixture_start(f, stuck[i], false);
    }
    cr_expect_eq(pool_fixture_send(f, t)->status, 200, "an address needs no lookup");
    pool_fixture_wait(f, MANY + 1);
    for (int i = 1; i <= MANY; i++)
        given_back += f->results[i].is_local_failure;
    cr_expect_eq(given_back, MANY - 64);
    cr_expect_eq(atomic_load(&lookups_most), 64);
    for (int i = 0; i < MANY; i++)
        task_destroy(&stuck[i]);
}

Test(pool_names, tasks_of_one_hanging_name_share_its_lookup_and_its_failure)
{
    enum { MANY = 100 };
    struct task *stuck = task_to("hang-name", 1000);

    for (int i = 0; i < MANY; i++)
        pool_fixture_start(f, stuck, false);
    cr_expect_eq(send_to("good-name")->status, 200, "%s", f->results[0].error);
    pool_fixture_wait(f, MANY + 1);
    cr_expect_leq(atomic_load(&lookups_most), 3);
    for (int i = 1; i <= MANY; i++) {
        cr_expect_str_eq(f->results[i].error, "timeout after 1000 ms in the name lookup");
        cr_expect(!f->results[i].is_local_failure);
    }
    task_destroy(&stuck);
}
