/* The table of settings.
 *
 * Reading, checking, --help, --print-config and the README's table all walk these rows, so a new setting is a field
 * in struct config and one row here. A default is a text that goes through the same checks as a given value. Bounds
 * are in the unit of the field; durations are written with units. */
#include "conf/option_priv.h"
#include "conf/config.h"
#include <assert.h>
#include <string.h>

#define ENV_PREFIX "DUEPOST_"
#define AT(field) offsetof(struct config, field)
#define SECOND_MS INT64_C(1000)
#define HOUR_MS (3600 * SECOND_MS)
#define DAY_MS (24 * HOUR_MS)
#define LONGEST_MS (3653 * DAY_MS)

/* clang-format off: a table is read by its columns */
static const struct option options[] = {
    {.key = "listen",
     .kind = OPTION_LISTEN,
     .offset = AT(listen),
     .fallback = "127.0.0.1:8080",
     .help = "address of the API, HOST:PORT or [IPV6]:PORT; port 0 takes a free one"},
    {.key = "tls-cert",
     .kind = OPTION_TEXT,
     .offset = AT(tls_cert),
     .shown = "none: plain HTTP",
     .help = "PEM file with the certificate of the API, and those between it and its authority; needs tls-key"},
    {.key = "tls-key",
     .kind = OPTION_TEXT,
     .offset = AT(tls_key),
     .help = "PEM file with the private key of tls-cert, without a passphrase"},
    {.key = "redis",
     .kind = OPTION_REDIS,
     .offset = AT(redis),
     .fallback = "embedded",
     .help = "redis://[user:pass@]host:port[/db], unix:///path, or embedded: a private redis-server in data-dir"},
    {.key = "redis-file",
     .kind = OPTION_TEXT,
     .offset = AT(redis_file),
     .help = "file that holds the Redis URL, for one with a password"},
    {.key = "data-dir",
     .kind = OPTION_TEXT,
     .offset = AT(data_dir),
     .fallback = "./duepost-data",
     .help = "folder of the embedded Redis"},
    {.key = "token",
     .kind = OPTION_SECRETS,
     .offset = AT(token),
     .flags = OPTION_NO_FLAG,
     .help = "bearer tokens for the API, separated by commas or blanks; needed to listen beyond loopback"},
    {.key = "token-file", .kind = OPTION_TEXT, .offset = AT(token_file), .help = "file that holds the tokens"},
    {.key = "read-token",
     .kind = OPTION_SECRETS,
     .offset = AT(read_token),
     .flags = OPTION_NO_FLAG,
     .help = "bearer tokens that are good for GET and HEAD only, written as token; needs a token besides"},
    {.key = "read-token-file",
     .kind = OPTION_TEXT,
     .offset = AT(read_token_file),
     .help = "file that holds the read-only tokens"},
    {.key = "no-auth",
     .kind = OPTION_BOOL,
     .offset = AT(no_auth),
     .fallback = "false",
     .help = "listen beyond loopback although no token is set"},
    {.key = "signing-secret",
     .kind = OPTION_SECRETS,
     .offset = AT(signing_secret),
     .flags = OPTION_NO_FLAG,
     .help = "secrets that sign webhooks (whsec_...), separated by commas or blanks"},
    {.key = "signing-secret-file",
     .kind = OPTION_TEXT,
     .offset = AT(signing_secret_file),
     .help = "file that holds the signing secrets"},
    {.key = "allow-net",
     .kind = OPTION_NETWORKS,
     .offset = AT(allow_net_text),
     .help = "networks that may be dialled although they are not public, CIDRs separated by commas"},
    {.key = "ca-file",
     .kind = OPTION_TEXT,
     .offset = AT(ca_file),
     .shown = "the system's",
     .help = "certificates of the authorities that receivers are checked against"},
    {.key = "threads",
     .kind = OPTION_INT,
     .offset = AT(threads),
     .shown = "number of cores",
     .min = 1,
     .max = 256,
     .help = "delivery threads"},
    {.key = "concurrency",
     .kind = OPTION_INT,
     .offset = AT(concurrency),
     .fallback = "256",
     .min = 1,
     .max = 100000,
     .help = "deliveries in flight in all"},
    {.key = "breaker-failures",
     .kind = OPTION_INT,
     .offset = AT(breaker_failures),
     .fallback = "100",
     .min = 0,
     .max = 1000000,
     .help = "failed attempts in a row after which a destination gets nothing but probes; 0: never"},
    {.key = "breaker-after",
     .kind = OPTION_DURATION,
     .offset = AT(breaker_after_ms),
     .fallback = "30s",
     .min = 0,
     .max = DAY_MS,
     .help = "time they must have taken at least"},
    {.key = "breaker-probe",
     .kind = OPTION_DURATION,
     .offset = AT(breaker_probe_ms),
     .fallback = "5s",
     .min = 100,
     .max = DAY_MS,
     .help = "time until its first probe; each later one takes twice as long, up to a minute"},
    {.key = "max-body",
     .kind = OPTION_INT,
     .offset = AT(max_body_bytes),
     .fallback = "1048576",
     .min = 1,
     .max = 64 << 20,
     .help = "largest request body in bytes"},
    {.key = "max-pending",
     .kind = OPTION_INT,
     .offset = AT(max_pending),
     .min = 1,
     .max = INT64_C(1000000000000),
     .help = "pending tasks beyond which new ones are refused with 503"},
    {.key = "max-finished",
     .kind = OPTION_INT,
     .offset = AT(max_finished),
     .fallback = "1000000",
     .min = 0,
     .max = INT64_C(1000000000000),
     .help = "finished tasks that are kept at most"},
    {.key = "prefix",
     .kind = OPTION_PREFIX,
     .offset = AT(prefix),
     .fallback = "duepost",
     .help = "beginning of every key in Redis"},
    {.key = "partitions",
     .kind = OPTION_INT,
     .offset = AT(partitions),
     .fallback = "1",
     .min = 1,
     .max = 1,
     .help = "independent sets of keys; only 1 in this version"},
    {.key = "durability",
     .kind = OPTION_CHOICE,
     .offset = AT(durability),
     .fallback = "memory",
     .choices = "memory fsync replica",
     .help = "memory, fsync or replica: how safe a new task is before it is answered, unless it says so itself"},
    {.key = "claim-idle",
     .kind = OPTION_DURATION,
     .offset = AT(claim_idle_ms),
     .fallback = "15s",
     .min = SECOND_MS,
     .max = DAY_MS,
     .help = "silence after which a gateway is taken for dead and its tasks are delivered by others"},
    {.key = "retention-delivered",
     .kind = OPTION_DURATION,
     .offset = AT(retention_delivered_ms),
     .fallback = "1h",
     .min = 1,
     .max = LONGEST_MS,
     .help = "how long a delivered task stays readable"},
    {.key = "retention-cancelled",
     .kind = OPTION_DURATION,
     .offset = AT(retention_cancelled_ms),
     .fallback = "1h",
     .min = 1,
     .max = LONGEST_MS,
     .help = "the same for a cancelled task"},
    {.key = "retention-expired",
     .kind = OPTION_DURATION,
     .offset = AT(retention_expired_ms),
     .fallback = "1h",
     .min = 1,
     .max = LONGEST_MS,
     .help = "the same for an expired task"},
    {.key = "retention-dead",
     .kind = OPTION_DURATION,
     .offset = AT(retention_dead_ms),
     .fallback = "7d",
     .min = 1,
     .max = LONGEST_MS,
     .help = "the same for a dead task"},
    {.key = "drain-timeout",
     .kind = OPTION_DURATION,
     .offset = AT(drain_timeout_ms),
     .fallback = "30s",
     .min = 0,
     .max = DAY_MS,
     .help = "time that attempts in flight have to finish when the gateway stops"},
    {.key = "log-level",
     .kind = OPTION_CHOICE,
     .offset = AT(log_level),
     .fallback = "info",
     .choices = "debug info warn error",
     .help = "debug, info, warn or error"},
    {.key = "log-format",
     .kind = OPTION_CHOICE,
     .offset = AT(log_format),
     .fallback = "text",
     .choices = "text json",
     .help = "text or json"},
    {.key = "config",
     .kind = OPTION_TEXT,
     .offset = AT(config_file),
     .flags = OPTION_NO_MEMBER,
     .help = "JSON file with settings as members"},
};
/* clang-format on */

_Static_assert(sizeof(options) / sizeof(options[0]) == OPTION_COUNT, "OPTION_COUNT is the number of rows");

const struct option *option_at(size_t index)
{
    assert(index < OPTION_COUNT);
    return &options[index];
}

size_t option_find(const char *key, size_t n)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(options[i].key) == n && memcmp(options[i].key, key, n) == 0)
            return i;
    return OPTION_NONE;
}

void option_env_name(const struct option *o, char out[OPTION_ENV_SIZE])
{
    size_t at = strlen(ENV_PREFIX);

    assert(at + strlen(o->key) < OPTION_ENV_SIZE);
    memcpy(out, ENV_PREFIX, at);
    for (const char *c = o->key; *c; c++)
        out[at++] = (char)(*c == '-' ? '_' : *c - 'a' + 'A');
    out[at] = '\0';
}

size_t option_find_env(const char *name, size_t n)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char own[OPTION_ENV_SIZE];

        option_env_name(&options[i], own);
        if (strlen(own) == n && memcmp(own, name, n) == 0)
            return i;
    }
    return OPTION_NONE;
}
