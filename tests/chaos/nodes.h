#ifndef CHAOS_NODES_H
#define CHAOS_NODES_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The processes of the chaos run: one redis-server with an append-only file, and GATEWAYS gateways on it, all in a
 * folder of the run's own, where their logs and the reports of sanitizers stay when something failed.
 *
 * Threads: the main thread, which starts processes (they end with it); nodes_port() and nodes_trouble() any. */

#define GATEWAYS 2
#define CLAIM_IDLE_MAX_MS 2000

struct nodes;

struct nodes *nodes_create(const char *binary);
/* Ends everything; the folder is removed when `is_good`. */
void nodes_destroy(struct nodes **n, bool is_good);

/* ms, ten times as long with DUEPOST_TEST_SLOW=1. */
int64_t nodes_scaled_ms(int64_t ms);
void nodes_sleep_ms(int64_t ms);

/* --- Redis: `appendfsync` is how the next start is made ("always", "everysec"). */
void nodes_redis_policy(struct nodes *n, const char *appendfsync);
bool nodes_redis_start(struct nodes *n); /* and wait until it answers */
void nodes_redis_kill(struct nodes *n);
void nodes_redis_signal(struct nodes *n, int sig);
/* Let it write files of so many bytes at most, as if the disk were full then; -1: any. */
void nodes_redis_limit_files(struct nodes *n, int64_t bytes);

/* A command, by a connection that is made anew when needed; NULL when there was no answer. freeReplyObject(). */
redisReply *nodes_redis(struct nodes *n, const char *format, ...);
bool nodes_redis_do(struct nodes *n, const char *format, ...);         /* whether it was answered without an error */
int64_t nodes_redis_integer(struct nodes *n, const char *format, ...); /* -1: no integer */
int64_t nodes_redis_info(struct nodes *n, const char *field);          /* a number of INFO; -1: none */

/* --- Gateways: `more` are further arguments, NULL ends, may be NULL. */
bool nodes_gateway_start(struct nodes *n, int i, const char *const *more); /* and wait until it listens */
void nodes_gateway_signal(struct nodes *n, int i, int sig);
/* Wait for the end of one that was told to; its exit code or 128 + signal, -1 when it took longer than ms. */
int nodes_gateway_wait(struct nodes *n, int i, int64_t ms);
int nodes_port(const struct nodes *n, int i);

/* Changes whenever a gateway is killed, stopped or started: the time of an answer means nothing across that. */
unsigned nodes_trouble(const struct nodes *n, int i);
void nodes_add_trouble(struct nodes *n, int i);

struct usage {
    int64_t rss_kb, threads, descriptors;
};
struct usage nodes_usage(const struct nodes *n, int i);

/* Sanitizer reports that were written, and lines in the gateways' logs that hold `text`. Prints the first few. */
int nodes_reports(const struct nodes *n);
int nodes_log_lines(const struct nodes *n, const char *text);

#endif
