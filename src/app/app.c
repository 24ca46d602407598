#include "app/app.h"

#include "app/limits.h"
#include "app/notify.h"
#include "app/report.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/ident.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/config.h"
#include "deliver/pool.h"
#include "http/server.h"
#include "http/tls.h"
#include "run/destinations.h"
#include "run/mover.h"
#include "run/worker.h"
#include "store/embedded.h"
#include "task/task_json.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Order of life:
 *
 *   listening socket -> embedded Redis -> store -> workers -> mover -> server -> ready line -> signal
 *   server stops taking -> workers finish -> mover -> store -> what they hold -> embedded Redis
 *
 * The main thread owns the signals and the embedded server; everything else has threads of its own. On the way down,
 * the work that is awaited is looked at every STEP_MS, so that a second signal can cut it short. */

#define STEP_MS 10
#define CLIENTS_MS \
    3000              /* for requests under way: a client that sends the rest of one slowly is not waited for longer */
#define HURRY_MS 2000 /* after a second signal what is left is given back, for this long at most */
#define AFTER_DRAIN_MS 20000 /* for the rest: what is left is given back, the embedded server ends */

struct app {
    const struct config *config;
    struct redis_opts redis;
    struct signature_secrets secrets;
    struct embedded *embedded;
    struct store *store;
    struct metrics_window *lateness;
    struct metrics_window *durations; /* of attempts */
    struct destinations *destinations;
    struct mover *mover;
    struct worker **workers;
    int worker_count;
    struct server *server;
    int signal_fd;
    int signals_seen;
    bool is_serving; /* the server's thread runs */
    bool is_ready;
    struct app_limits limits;
    struct notify notify;
    char gateway[128];
};

void app_init(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    task_json_global_init();
}

/* ------------------------------------------------------------- callbacks */

static void on_scheduled(void *ctx, int64_t due_at_ms)
{
    const struct app *a = ctx;

    mover_wake(a->mover, due_at_ms);
}

static void on_room(void *ctx)
{
    const struct app *a = ctx;

    mover_room(a->mover);
}

static int64_t free_slots(void *ctx)
{
    const struct app *a = ctx;
    int64_t sum = 0;

    for (int i = 0; i < a->worker_count; i++)
        if (worker_is_up(a->workers[i]))
            sum += worker_capacity(a->workers[i]) - worker_in_flight(a->workers[i]);
    return sum;
}

static int64_t ended_count(void *ctx)
{
    const struct app *a = ctx;
    int64_t sum = 0;

    for (int i = 0; i < a->worker_count; i++)
        sum += worker_ended_count(a->workers[i]);
    return sum;
}

static void write_stats(void *ctx, struct buf *out)
{
    const struct app *a = ctx;

    report_stats(out, a->lateness, a->mover, a->workers, a->worker_count);
    report_destinations_summary(out, a->destinations);
}

static void write_destinations(void *ctx, struct buf *out)
{
    const struct app *a = ctx;

    report_destinations(out, a->destinations);
}

static void write_metrics(void *ctx, struct buf *out)
{
    const struct app *a = ctx;

    report_metrics(out, a->lateness, a->durations, a->mover, a->workers, a->worker_count);
    report_destinations_metrics(out, a->destinations);
}

static void write_unready(void *ctx, struct buf *out)
{
    const struct app *a = ctx;

    report_unready(out, a->mover, a->workers, a->worker_count);
}

/* --------------------------------------------------------------- settings */

static int wrong_setting(const char *name, const char *detail)
{
    (void)fprintf(stderr, "duepost: %s: %s\n", name, detail);
    return CONFIG_EXIT_CODE;
}

static int failed(const char *detail)
{
    (void)fprintf(stderr, "duepost: %s\n", detail);
    return 1;
}

static void translate_redis(struct app *a)
{
    const struct config *c = a->config;

    a->redis.prefix = c->prefix;
    a->redis.gateway = a->gateway;
    a->redis.claim_idle_ms = c->claim_idle_ms;
    a->redis.max_pending = c->max_pending;
    a->redis.max_finished = c->max_finished;
    a->redis.retention_delivered_ms = c->retention_delivered_ms;
    a->redis.retention_cancelled_ms = c->retention_cancelled_ms;
    a->redis.retention_expired_ms = c->retention_expired_ms;
    a->redis.retention_dead_ms = c->retention_dead_ms;
}

static int read_settings(struct app *a)
{
    const struct config *c = a->config;
    char detail[REDIS_OPTS_DETAIL_SIZE];
    size_t bad;
    char place[64];
    char tls_detail[TLS_DETAIL_SIZE];
    const char *tls_setting;

    translate_redis(a);
    if (strcmp(c->redis, "embedded") != 0 && redis_opts_parse(c->redis, &a->redis, detail) != ERR_OK)
        return wrong_setting("redis", detail);
    if (signature_secrets_parse(c->signing_secret ? c->signing_secret : "", &a->secrets, &bad) != ERR_OK) {
        (void)snprintf(place, sizeof place, "secret %zu is not whsec_ and base64 of 24 to 64 bytes", bad);
        return wrong_setting("signing-secret", place);
    }
    if (c->tls_cert_pem && tls_check(c->tls_cert_pem, c->tls_key_pem, &tls_setting, tls_detail) != ERR_OK)
        return wrong_setting(tls_setting, tls_detail);
    return 0;
}

/* Unique among gateways, and tells an operator which machine and process it was. */
static void name_gateway(struct app *a)
{
    char host[65] = "localhost";
    char random[9];

    gethostname(host, sizeof host - 1);
    ident_random(random, 8);
    (void)snprintf(a->gateway, sizeof a->gateway, "%s-%d-%s", host, (int)getpid(), random);
}

/* ------------------------------------------------------------------- start */

static int start_redis(struct app *a)
{
    char detail[EMBEDDED_DETAIL_SIZE];

    if (strcmp(a->config->redis, "embedded") != 0)
        return 0;
    if (embedded_start(a->config->data_dir, &a->embedded, detail) != ERR_OK)
        return failed(detail);
    a->redis.socket_path = xstrdup(embedded_socket(a->embedded));
    return 0;
}

static struct destinations *create_destinations(const struct app *a)
{
    const struct config *c = a->config;
    const struct destinations_opts opts = {.capacity = a->limits.concurrency,
                                           .breaker_failures = (int)c->breaker_failures,
                                           .breaker_after_ms = c->breaker_after_ms,
                                           .breaker_probe_ms = c->breaker_probe_ms};

    return destinations_create(&opts);
}

static int start_workers(struct app *a)
{
    struct worker_opts opts = {.store = a->store,
                               .redis = &a->redis,
                               .allow_net = &a->config->allow_net,
                               .listener = server_endpoint(a->server),
                               .secrets = &a->secrets,
                               .ca_file = a->config->ca_file,
                               .version = DUEPOST_VERSION,
                               .lateness = a->lateness,
                               .durations = a->durations,
                               .destinations = a->destinations,
                               .on_room = on_room,
                               .ctx = a};
    int concurrency = a->limits.concurrency;
    int count = a->config->threads < concurrency ? (int)a->config->threads : concurrency;

    a->workers = xcalloc((size_t)count, sizeof(struct worker *));
    for (int i = 0; i < count; i++) {
        opts.index = i;
        opts.capacity = concurrency / count + (i < concurrency % count);
        if (worker_start(&opts, &a->workers[i]) != ERR_OK)
            return failed("a delivery thread cannot be started");
        a->worker_count++;
    }
    return 0;
}

/* First of all: an address in use is found out before anything else is started. */
static int open_server(struct app *a)
{
    const struct config *c = a->config;
    char detail[SERVER_DETAIL_SIZE];
    struct server_opts opts = {.host = c->host,
                               .port = c->port,
                               .tls_cert = c->tls_cert_pem,
                               .tls_key = c->tls_key_pem,
                               .max_body_bytes = (size_t)c->max_body_bytes,
                               .connection_max = (size_t)a->limits.connections,
                               .tokens = (const char *const *)c->tokens,
                               .read_tokens = (const char *const *)c->read_tokens,
                               .allow_net = &c->allow_net,
                               .durability = (enum task_durability)c->durability,
                               .openapi = embedded_openapi,
                               .openapi_bytes = embedded_openapi_bytes,
                               .version = DUEPOST_VERSION,
                               .write_stats = write_stats,
                               .write_destinations = write_destinations,
                               .write_metrics = write_metrics,
                               .write_unready = write_unready,
                               .ctx = a};

    return server_create(&opts, &a->server, detail) == ERR_OK ? 0 : failed(detail);
}

static int begin_server(struct app *a)
{
    if (server_begin(a->server, a->store) != ERR_OK)
        return failed("the server's thread cannot be started");
    a->is_serving = true;
    LOG_INFO("gateway.started", "version=%s gateway=%s listen=%s port=%d", DUEPOST_VERSION, a->gateway,
             log_quote(a->config->host), server_port(a->server));
    return 0;
}

static int start(struct app *a)
{
    struct store_opts store = {.on_scheduled = on_scheduled, .on_scheduled_ctx = a};
    struct mover_opts mover = {.redis = &a->redis, .free_slots = free_slots, .ended_count = ended_count, .ctx = a};
    int rc = open_server(a);

    if (rc == 0)
        rc = start_redis(a);
    if (rc != 0)
        return rc;
    if (pool_global_init() != ERR_OK)
        return failed("libcurl cannot be initialised");
    a->lateness = metrics_window_create();
    a->durations = metrics_window_create();
    a->destinations = create_destinations(a);
    a->mover = mover_create(&mover);
    store.redis = a->redis;
    if (store_create(&store, &a->store) != ERR_OK)
        return failed("the store's thread cannot be started");
    rc = start_workers(a);
    if (rc == 0 && mover_begin(a->mover) != ERR_OK)
        rc = failed("the mover's thread cannot be started");
    return rc == 0 ? begin_server(a) : rc;
}

/* --------------------------------------------------------------------- run */

static bool is_delivering(const struct app *a)
{
    bool is_up = store_is_up(a->store) && mover_is_up(a->mover);

    for (int i = 0; i < a->worker_count; i++)
        is_up = is_up && worker_is_up(a->workers[i]);
    return is_up;
}

static void tell_ready(struct app *a)
{
    bool is_v6 = strchr(a->config->host, ':') != NULL;

    a->is_ready = true;
    printf("duepost: ready on %s://%s%s%s:%d\n", a->config->tls_cert_pem ? "https" : "http", is_v6 ? "[" : "",
           a->config->host, is_v6 ? "]" : "", server_port(a->server));
    (void)fflush(stdout);
}

/* Wait for a signal, `ms` at most, and take care of the embedded server meanwhile. */
static void wait_for_signal(struct app *a, int ms)
{
    struct pollfd p = {.fd = a->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    int64_t redis_ms = embedded_poll(a->embedded);

    if (redis_ms >= 0 && (ms < 0 || redis_ms < ms))
        ms = (int)redis_ms;
    if (poll(&p, 1, ms) <= 0 || read(a->signal_fd, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo != SIGCHLD) {
        a->signals_seen++;
        LOG_INFO("gateway.signal", "signal=%d count=%d", (int)info.ssi_signo, a->signals_seen);
    }
}

static void serve(struct app *a)
{
    while (a->signals_seen == 0) {
        if (!a->is_ready) {
            if (is_delivering(a))
                tell_ready(a);
            notify_progress(&a->notify, a->is_ready, clock_mono_ms());
        }
        wait_for_signal(a, a->is_ready ? -1 : STEP_MS);
    }
}

/* -------------------------------------------------------------------- stop */

static bool are_workers_done(const struct app *a)
{
    for (int i = 0; i < a->worker_count; i++)
        if (!worker_is_done(a->workers[i]))
            return false;
    return true;
}

static void abort_workers(struct app *a)
{
    for (int i = 0; i < a->worker_count; i++)
        worker_abort(a->workers[i]);
}

/* Let requests under way be answered until the deadline or another signal. */
static void finish_requests(struct app *a, int64_t deadline_mono_ms)
{
    if (!a->server)
        return;
    server_quit(a->server, deadline_mono_ms);
    while (a->is_serving && !server_is_done(a->server) && a->signals_seen < 2)
        wait_for_signal(a, STEP_MS);
    server_stop(&a->server, a->signals_seen < 2 ? deadline_mono_ms : clock_mono_ms());
}

/* Let what is in flight end until the deadline or another signal; then give the rest back, which takes one settle. */
static void finish_deliveries(struct app *a, int64_t deadline_mono_ms)
{
    int64_t hurry_until;

    while (!are_workers_done(a) && a->signals_seen < 2 && clock_mono_ms() < deadline_mono_ms)
        wait_for_signal(a, STEP_MS);
    if (are_workers_done(a))
        return;
    abort_workers(a);
    hurry_until = clock_mono_ms() + HURRY_MS;
    while (!are_workers_done(a) && a->signals_seen < 3 && clock_mono_ms() < hurry_until)
        wait_for_signal(a, STEP_MS);
}

static void stop(struct app *a)
{
    int64_t now = clock_mono_ms();
    int64_t deadline = now + a->config->drain_timeout_ms;

    for (int i = 0; i < a->worker_count; i++)
        worker_drain(a->workers[i]);
    finish_requests(a, deadline < now + CLIENTS_MS ? deadline : now + CLIENTS_MS);
    finish_deliveries(a, deadline);
    for (int i = 0; i < a->worker_count; i++)
        worker_stop(a->workers[i]);
    mover_stop(a->mover);
    store_destroy(&a->store);
    mover_destroy(&a->mover);
    for (int i = 0; i < a->worker_count; i++)
        worker_destroy(&a->workers[i]);
    free(a->workers);
    destinations_destroy(&a->destinations);
    metrics_window_destroy(&a->lateness);
    metrics_window_destroy(&a->durations);
    embedded_stop(&a->embedded);
    redis_opts_deinit(&a->redis);
    signature_secrets_deinit(&a->secrets);
    close(a->signal_fd);
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int app_run(const struct config *c)
{
    struct app *a = xcalloc(1, sizeof *a);
    int rc;

    a->config = c;
    log_setup((enum log_level)c->log_level, (enum log_format)c->log_format);
    name_gateway(a);
    notify_begin(&a->notify, getenv("NOTIFY_SOCKET"), clock_mono_ms()); /* NOLINT(concurrency-mt-unsafe) */
    a->signal_fd = open_signals();
    a->limits = app_limits_fit((int)c->concurrency);
    rc = read_settings(a);
    if (rc == 0)
        rc = start(a);
    if (rc == 0) {
        serve(a);
        notify_stopping(&a->notify, c->drain_timeout_ms + AFTER_DRAIN_MS);
    }
    stop(a);
    if (rc == 0)
        LOG_INFO("gateway.stopped", "gateway=%s", a->gateway);
    free(a);
    return rc;
}
