#ifndef STORE_REDIS_OPTS_H
#define STORE_REDIS_OPTS_H

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

/* Where Redis is and how its keys begin: what every connection of this folder needs. A value. */
struct redis_opts {
    char *host; /* NULL for a unix socket */
    int port;
    char *socket_path; /* NULL for TCP */
    char *username;    /* NULL: none */
    char *password;    /* NULL: none */
    int db;
    const char *prefix;  /* borrowed; starts every key */
    const char *gateway; /* borrowed; a name of this process, unique among gateways */
    int64_t claim_idle_ms;
    int64_t max_pending; /* 0: any number */
    int64_t max_finished;
    int64_t retention_delivered_ms, retention_cancelled_ms, retention_expired_ms, retention_dead_ms;
};

#define REDIS_OPTS_DETAIL_SIZE 160

/* Read `redis://[user:pass@]host:port[/db]` or `unix:///path` into the first six fields (given; free with
 * redis_opts_deinit). ERR_INVALID with one sentence in `detail`, which never holds the password. */
enum err redis_opts_parse(const char *url, struct redis_opts *out, char detail[REDIS_OPTS_DETAIL_SIZE]) NODISCARD;
void redis_opts_deinit(struct redis_opts *o);

#endif
