/* The gateway under a service manager that wants to be told (systemd's Type=notify). */
#include "../support/gateway.h"
#include "../support/manager.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NOTICE_MS 10000

static struct manager *manager;
static struct redis_fixture *redis;
static struct gateway *gateway;
static char variable[256];

static void setup(void)
{
    manager = manager_create(false);
    redis = redis_fixture_create_stopped(false);
    (void)snprintf(variable, sizeof variable, "NOTIFY_SOCKET=%s", manager_address(manager));
}

static void teardown(void)
{
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
    manager_destroy(&manager);
}

TestSuite(service, .init = setup, .fini = teardown, .timeout = 300);

static void expect_told(const char *wanted)
{
    const char *told = "";

    WAIT_UNTIL((told = manager_told(manager))[0], NOTICE_MS);
    cr_assert_str_eq(told, wanted);
}

Test(service, the_manager_is_told_when_it_is_ready_and_how_long_the_end_may_take)
{
    const struct gateway_opts opts = {.redis = redis_fixture_url(redis),
                                      .args = (const char *const[]){"--drain-timeout", "2m", NULL},
                                      .env = (const char *const[]){variable, NULL}};

    gateway = gateway_start_unready(&opts);
    expect_told("STATUS=waiting for Redis");
    cr_assert_eq(client_get(gateway->api, "/readyz")->status, 503);
    cr_assert_str_eq(manager_told(manager), "", "Redis is not there");
    redis_fixture_start(redis);
    expect_told("READY=1\nSTATUS=ready");
    cr_assert_eq(client_get(gateway->api, "/readyz")->status, 200);
    proc_signal(gateway->proc, SIGTERM);
    expect_told("STOPPING=1\nSTATUS=finishing what is in flight\nEXTEND_TIMEOUT_USEC=140000000");
    cr_assert_eq(proc_wait(gateway->proc, NOTICE_MS), 0);
}
