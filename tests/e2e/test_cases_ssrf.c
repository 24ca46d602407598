/* Where a gateway may not be led: whatever the spelling, the name, the redirect or the setting, what is not allowed is
 * never dialled. Each row is something that got through somewhere. */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVE_MS 10000
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway;

static void setup(void)
{
    redis = redis_fixture_create(false);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    redis_fixture_destroy(&redis);
}

TestSuite(cases_ssrf, .init = setup, .fini = teardown, .timeout = 300);

static void start(const char *allow_net)
{
    gateway = gateway_start(&(struct gateway_opts){.redis = redis_fixture_url(redis), .allow_net = allow_net});
}

static json_t *find_error(const struct reply *r, const char *pointer)
{
    json_t *error = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(r->json, "errors"), i,
                       error) if (strcmp(json_text_at(error, "pointer"), pointer) == 0) return error;
    return NULL;
}

/* The URL is refused, whatever else; 9001 in it stands for the receiver's port. What was wrong with it. */
static const char *refusal_of(const char *shown)
{
    const char *at = strstr(shown, "9001");
    size_t before = at ? (size_t)(at - shown) : strlen(shown);
    char port[16] = "";

    if (at)
        (void)snprintf(port, sizeof(port), "%d", sink_port(sink));
    const struct reply *r =
        client_post_task(gateway->api, "{\"url\":\"%.*s%s%s\"}", (int)before, shown, port, at ? at + 4 : "");
    json_t *error = find_error(r, "/url");

    cr_expect_eq(r->status, 400, "%s: %d %s", shown, r->status, r->body);
    cr_assert_not_null(error, "%s: %s", shown, r->body);
    return json_text_at(error, "detail");
}

static void expect_refused_by_address(const char *shown)
{
    const char *detail = refusal_of(shown);

    cr_expect_not_null(strstr(detail, "allow-net"), "%s: %s does not say which setting would allow it", shown, detail);
}

static void expect_nothing_came(void)
{
    const struct reply *r = client_get(gateway->api, "/stats");

    cr_expect_eq(json_integer_at(r->json, "totals.created"), 0);
    cr_expect_eq(sink_count(sink, NULL), 0);
}

Test(cases_ssrf, no_spelling_of_an_address_gets_through)
{
    static const char *const urls[] = {
        /* IPv4 hidden in IPv6 */
        "http://[::ffff:127.0.0.1]:9001/",
        "http://[::ffff:7f00:1]:9001/",
        "http://[0:0:0:0:0:ffff:7f00:0001]:9001/",
        "http://[::127.0.0.1]:9001/",
        "http://[64:ff9b::7f00:1]:9001/",
        "http://[64:ff9b::127.0.0.1]:9001/",
        "http://[2002:7f00:1::]:9001/",
        "http://[::ffff:a9fe:a9fe]/",
        /* no address at all */
        "http://0.0.0.0:9001/",
        "http://0:9001/",
        "http://[::]:9001/",
        /* other ways to write a number */
        "http://127.1:9001/",
        "http://127.0.1:9001/",
        "http://2130706433:9001/",
        "http://0x7f000001:9001/",
        "http://0x7f.0.0.1:9001/",
        "http://017700000001:9001/",
        "http://0177.0.0.01:9001/",
        "http://127.0.0.1.:9001/",
        "HTTP://127.000.000.001:9001/",
        /* what is special */
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]:9001/",
        "http://[fe80::1]:9001/",
        "http://[fd00::1]:9001/",
        "http://[ff02::1]:9001/",
        /* names that mean this machine */
        "http://localhost:9001/",
        "http://LOCALHOST:9001/",
        "http://localhost.:9001/",
        "http://a.localhost:9001/",
    };

    start("10.99.0.0/16");
    for (size_t i = 0; i < COUNT(urls); i++)
        (void)refusal_of(urls[i]);
    expect_refused_by_address("http://127.0.0.1:9001/");
    expect_refused_by_address("http://169.254.169.254/");
    expect_refused_by_address("http://[::ffff:127.0.0.1]:9001/");
    expect_refused_by_address("http://localhost:9001/");
    expect_nothing_came();
}

Test(cases_ssrf, no_two_parsers_can_disagree_about_the_host)
{
    static const char *const urls[] = {
        "http://example.com@127.0.0.1:9001/",
        "http://127.0.0.1:9001\\\\@example.com/",
        "http://user:pass@127.0.0.1:9001/",
        "127.0.0.1:9001/x",
        "http:127.0.0.1:9001",
        "http:/127.0.0.1:9001/",
        "http:///127.0.0.1:9001/",
        "//127.0.0.1:9001/",
        "http://127.0.0.1:9001:80/",
        "http://127.0.0.1\\t:9001/",
        "http://127.0.0.1 :9001/",
        " http://127.0.0.1:9001/",
        "http://127.0.0.1:9001/\\r\\nX: y",
        "http://127\\uff0e0\\uff0e0\\uff0e1:9001/",
        "http://127.0.0.1%2f@example.com:9001/",
        "http://%31%32%37.0.0.1:9001/",
        "http://[127.0.0.1]:9001/",
        "http://[::1%25lo]:9001/",
        "file:///etc/hostname",
        "gopher://127.0.0.1:9001/",
        "javascript:alert(1)",
        "http+unix://%2fvar%2frun%2fx/",
        "http://",
        "http://:9001/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
    };

    start("127.0.0.0/8,::1/128");
    for (size_t i = 0; i < COUNT(urls); i++)
        (void)refusal_of(urls[i]);
    expect_nothing_came();
}

Test(cases_ssrf, redirects_to_inside_lead_nowhere)
{
    struct sink *inside = sink_create();
    char headers[6][1024]; /* the sink keeps them */
    char locations[6][128] = {"http://169.254.169.254/", "//127.0.0.1/", "file:///etc/hostname", "/again", "x:y"};

    (void)snprintf(locations[5], sizeof(locations[5]), "%s", sink_url(inside, "/"));
    start(NULL);
    for (size_t i = 0; i < COUNT(locations); i++) {
        static const int statuses[] = {302, 307, 308};
        char path[32];
        (void)snprintf(path, sizeof(path), "/%zu", i);
        (void)snprintf(headers[i], sizeof(headers[i]), "Location: %s\r\n", locations[i]);
        SINK_SCRIPT(sink, path, {.status = statuses[i % 3], .headers = headers[i]});
        const struct reply *r = client_post_task(
            gateway->api, "{\"id\":\"r%zu\",\"url\":\"%s\",\"retry\":{\"max_attempts\":1}}", i, sink_url(sink, path));
        cr_assert_eq(r->status, 201, "%s", r->body);
        char id[16];
        (void)snprintf(id, sizeof(id), "r%zu", i);
        json_t *task = task_reaches(gateway->api, id, "dead", ARRIVE_MS);
        cr_expect_eq(json_integer_at(task, "last_attempt.status"), statuses[i % 3], "%s", locations[i]);
    }
    cr_expect_eq(sink_count(inside, NULL), 0);
    cr_expect_eq(sink_count(sink, NULL), COUNT(locations), "one request for each task, and none to /again");
    sink_destroy(&inside);
}

Test(cases_ssrf, an_allowed_network_opens_itself_and_nothing_beside)
{
    start("127.0.0.0/8");
    expect_refused_by_address("http://10.0.0.1/");
    expect_refused_by_address("http://[::1]:9001/");
    const struct reply *r =
        client_post_task(gateway->api, "{\"id\":\"in\",\"url\":\"http://127.0.0.1:%d/in\"}", sink_port(sink));

    cr_assert_eq(r->status, 201, "%s", r->body);
    task_reaches(gateway->api, "in", "delivered", ARRIVE_MS);
    r = client_post_task(gateway->api, "{\"delay\":\"1h\",\"url\":\"http://[::ffff:127.0.0.1]:%d/\"}", sink_port(sink));
    cr_expect_eq(r->status, 201, "the mapped form follows the rule of the address in it: %s", r->body);
}

/* Make a task to this URL and see it refused before anything is sent. Returns why. */
static const char *blocked_because(const char *id, const char *host, int port)
{
    const struct reply *r = client_post_task(
        gateway->api,
        "{\"id\":\"%s\",\"url\":\"http://%s:%d/tasks\",\"payload\":{\"url\":\"%s\"},\"retry\":{\"max_attempts\":1}}",
        id, host, port, sink_url(sink, "/inner"));

    cr_assert_eq(r->status, 201, "%s", r->body);
    json_t *task = task_reaches(gateway->api, id, "dead", ARRIVE_MS);
    cr_expect(json_null_at(task, "last_attempt.status"));
    return json_text_at(task, "last_attempt.error");
}

/* The address is the gateway's own, in which no setting can help. */
static void expect_own(const char *id, const char *host, int port, const char *shown_host, const char *what)
{
    char error[128];

    (void)snprintf(error, sizeof(error), "blocked: %s:%d is %s", shown_host, port, what);
    cr_expect_str_eq(blocked_because(id, host, port), error);
}

/* Only these tasks were made, none by a task; and a receiver beside the gateway gets its own. */
static void expect_created(int count)
{
    cr_expect_eq(json_integer_at(client_get(gateway->api, "/stats")->json, "totals.created"), count);
    const struct reply *r =
        client_post_task(gateway->api, "{\"id\":\"beside\",\"url\":\"%s\"}", sink_url(sink, "/beside"));
    cr_assert_eq(r->status, 201, "%s", r->body);
    task_reaches(gateway->api, "beside", "delivered", ARRIVE_MS);
    cr_expect_eq(sink_count(sink, NULL), 1, "only what was beside");
}

static int gateway_port(void)
{
    return (int)strtol(strrchr(gateway->url, ':') + 1, NULL, 10);
}

Test(cases_ssrf, a_task_to_the_gateway_itself_makes_no_task)
{
    static const char itself[] = "this gateway itself";

    start("127.0.0.0/8");
    expect_own("plain", "127.0.0.1", gateway_port(), "127.0.0.1", itself);
    expect_own("mapped", "[::ffff:127.0.0.1]", gateway_port(), "[::ffff:127.0.0.1]", itself);
    /* By name: where ::1 comes first for localhost, that is what is blocked first. */
    const char *why = blocked_because("name", "localhost", gateway_port());
    cr_expect_eq(strncmp(why, "blocked: ", 9), 0, "%s", why);
    expect_created(3);
}

Test(cases_ssrf, a_task_to_the_gateway_itself_makes_no_task_when_it_listens_on_all_addresses)
{
    static const char itself[] = "this gateway itself";
    static const char *const args[] = {"--listen", "0.0.0.0:0", "--no-auth", NULL};

    gateway = gateway_start(
        &(struct gateway_opts){.redis = redis_fixture_url(redis), .allow_net = "127.0.0.0/8,0.0.0.0/32", .args = args});
    expect_own("plain", "127.0.0.1", gateway_port(), "127.0.0.1", itself);
    expect_own("other", "127.1.2.3", gateway_port(), "127.1.2.3", itself);
    expect_own("any", "0.0.0.0", gateway_port(), "0.0.0.0", itself);
    expect_created(3);
}

Test(cases_ssrf, a_task_to_the_gateways_redis_does_not_reach_it)
{
    static const char its_redis[] = "the Redis of this gateway";
    int port = redis_fixture_open_port(redis);
    char url[64];

    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
    gateway = gateway_start(&(struct gateway_opts){.redis = url});
    expect_own("plain", "127.0.0.1", port, "127.0.0.1", its_redis);
    expect_own("other", "127.1.2.3", port, "127.1.2.3", its_redis);
    expect_own("itself", "127.0.0.1", gateway_port(), "127.0.0.1", "this gateway itself");
    expect_created(3);
}

/* The setting was narrower when the task was made than when it is sent. */
Test(cases_ssrf, what_was_allowed_at_its_creation_is_checked_again_when_it_is_sent)
{
    start(NULL);
    const struct reply *r = client_post_task(
        gateway->api, "{\"id\":\"late\",\"url\":\"%s\",\"delay\":\"1s\",\"retry\":{\"max_attempts\":1}}",
        sink_url(sink, "/late"));

    cr_assert_eq(r->status, 201, "%s", r->body);
    gateway_destroy(&gateway);
    start("10.99.0.0/16");
    json_t *task = task_reaches(gateway->api, "late", "dead", ARRIVE_MS);
    cr_expect(json_null_at(task, "last_attempt.status"));
    cr_expect_str_eq(json_text_at(task, "last_attempt.error"),
                     "blocked: 127.0.0.1 is not a public address (allow-net)");
    cr_expect_eq(sink_count(sink, NULL), 0);
}
