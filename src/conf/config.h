#ifndef CONF_CONFIG_H
#define CONF_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/netaddr.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The settings of the gateway: one table in option_priv.c, four sources.
 *
 *   default < member of --config FILE < environment variable < flag
 *
 * A later source replaces the value of an earlier one, but a wrong value is a fault in whichever source it stands.
 * The struct is a value: it is filled once at the start and never changes after it. Strings are owned by it. */
struct config {
    char *listen; /* as given: "127.0.0.1:8080", "[::1]:0" */
    char *host;   /* its host, without brackets */
    int port;     /* its port; 0: any */
    char *redis;  /* "embedded" or a redis:// or unix:// URL, its password included: mask before showing */
    char *redis_file;
    char *data_dir;
    char *token;   /* as given; NULL: none. Use `tokens` */
    char **tokens; /* one by one, NULL-terminated; NULL: none are set, the API is open */
    char *token_file;
    char *read_token;   /* as `token`, for tokens that may only read */
    char **read_tokens; /* NULL: none */
    char *read_token_file;
    char *tls_cert;     /* path of the file; NULL: plain HTTP */
    char *tls_key;      /* the same; both or none */
    char *tls_cert_pem; /* their contents, not yet checked */
    char *tls_key_pem;
    char *signing_secret; /* one or more as given, not yet checked; NULL: none */
    char *signing_secret_file;
    char *allow_net_text; /* as given */
    struct cidr_list allow_net;
    int64_t threads;
    int64_t concurrency;
    int64_t breaker_failures; /* 0: off */
    int64_t breaker_after_ms;
    int64_t breaker_probe_ms;
    int64_t max_body_bytes;
    int64_t max_pending; /* 0: no limit */
    int64_t max_finished;
    char *prefix;
    char *ca_file; /* NULL: the system's */
    int64_t partitions;
    int64_t claim_idle_ms;
    int64_t retention_delivered_ms;
    int64_t retention_cancelled_ms;
    int64_t retention_expired_ms;
    int64_t retention_dead_ms;
    int64_t drain_timeout_ms;
    int durability; /* enum task_durability */
    int log_level;  /* enum log_level */
    int log_format; /* enum log_format */
    bool no_auth;
    char *config_file; /* NULL: none */
};

#define CONFIG_EXIT_CODE 78 /* EX_CONFIG of sysexits.h: how the program ends when config_load finds faults */

/* Read all sources.
 *
 * `argv` is what follows the program's and the subcommand's name, without the flags that are no settings (--help and
 * the like); `env` is the process's environment. Both are borrowed.
 *
 * Ownership: gives *out, free with config_deinit(); on an error it is empty.
 * Errors:    ERR_INVALID: every fault there is has been appended to `faults`, a line each, which names the setting as
 *            it was given and its value. No secret is in them. */
enum err config_load(int argc, char **argv, char **env, struct config *out, struct buf *faults) NODISCARD;

/* Frees, and wipes the secrets. The struct is empty after it; calling it again does nothing. */
void config_deinit(struct config *c);

/* Append all effective values as one JSON object, secrets as "***" (the output of --print-config). */
void config_print(const struct config *c, struct buf *out);

/* Append the list of settings for --help. */
void config_usage(struct buf *out);

/* Append the list of settings as a Markdown table, for the README. */
void config_markdown(struct buf *out);

#endif
