#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

/* Structured logs on stderr: a stable event name and key=value pairs, one line each, never a payload or secret.
 *
 *   LOG_INFO("task.dead", "task=%s attempts=%d", id, attempts);
 *   text: 2026-11-30T18:00:00.000Z info task.dead task=abc attempts=10
 *   json: {"time":"...","level":"info","event":"task.dead","task":"abc","attempts":"10"}
 *
 * Values that may hold blanks, quotes or control characters are passed through "%s" of log_quote(). Any thread;
 * a line is one write(2). */

enum log_level { LOG_LEVEL_DEBUG = 0, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_COUNT };
enum log_format { LOG_FORMAT_TEXT = 0, LOG_FORMAT_JSON, LOG_FORMAT_COUNT };

void log_setup(enum log_level level, enum log_format format);
bool log_is_on(enum log_level level);
void log_write(enum log_level level, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* `s` in double quotes with escapes, cut to fit, in a buffer of the calling thread; four may be in use at once. */
const char *log_quote(const char *s);

#define LOG_AT(level, ...)                   \
    do {                                     \
        if (log_is_on(level))                \
            log_write((level), __VA_ARGS__); \
    } while (0)
/* The format may be "" when there is nothing to add. */
#define LOG_DEBUG(...) LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define LOG_INFO(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_WARN(...) LOG_AT(LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_ERROR(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)

/* For what can repeat without end: true at most once in `interval_ms` for this `struct log_limit`, with the number
 * of times it was held back since in *held. Any thread. Zero-initialised. */
struct log_limit {
    _Atomic long long next_mono_ms;
    _Atomic long held;
};
bool log_limit_pass(struct log_limit *limit, int interval_ms, long *held);

#endif
