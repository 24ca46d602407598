#include "task/outcome.h"

#include "base/parse.h"
#include "task/backoff.h"

#define STATUS_GONE 410
#define STATUS_TOO_MANY 429
#define STATUS_UNAVAILABLE 503

struct outcome outcome_decide(const struct task *t, int status, int64_t retry_after_ms, int64_t now_ms, double random)
{
    int attempts = t->attempts + 1; /* with the one that just ended */

    if (status >= 200 && status <= 299)
        return (struct outcome){.kind = OUTCOME_DELIVERED};
    if (status == STATUS_GONE || attempts >= t->retry.max_attempts)
        return (struct outcome){.kind = OUTCOME_DEAD};

    int64_t asked_ms = retry_after_ms < OUTCOME_RETRY_AFTER_MAX_MS ? retry_after_ms : OUTCOME_RETRY_AFTER_MAX_MS;
    int64_t delay_ms = backoff_delay_ms(&t->retry, attempts, random);

    if (delay_ms < asked_ms)
        delay_ms = asked_ms;
    /* Written as a difference, so that no due time can make it overflow. */
    if (t->retry.max_age_ms > 0 && now_ms - t->run_at_ms > t->retry.max_age_ms - delay_ms)
        return (struct outcome){.kind = OUTCOME_DEAD};
    return (struct outcome){.kind = OUTCOME_RETRY, .delay_ms = delay_ms};
}

enum outcome_health outcome_health(int status, int64_t retry_after_ms, enum task_error_kind error_kind)
{
    if (error_kind == TASK_ERROR_BLOCKED)
        return OUTCOME_UNKNOWN;
    if (status == STATUS_TOO_MANY || (status == STATUS_UNAVAILABLE && retry_after_ms >= 0))
        return OUTCOME_BUSY;
    return status == 0 || status >= 500 ? OUTCOME_FAILING : OUTCOME_ALIVE;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int64_t clamp_ms(int64_t ms)
{
    if (ms < 0)
        return 0;
    return ms < OUTCOME_RETRY_AFTER_MAX_MS ? ms : OUTCOME_RETRY_AFTER_MAX_MS;
}

/* Seconds in digits alone, of any length; -1 when there is something else. */
static int64_t read_seconds_ms(const char *s, size_t n)
{
    int64_t ms = 0;

    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        ms = clamp_ms(ms * 10 + (s[i] - '0') * (int64_t)1000);
    }
    return n > 0 ? ms : -1;
}

int64_t outcome_retry_after_ms(const char *value, size_t n, int64_t now_ms)
{
    int64_t date_s = 0;

    while (n > 0 && is_blank(value[0])) {
        value++;
        n--;
    }
    while (n > 0 && is_blank(value[n - 1]))
        n--;
    int64_t ms = read_seconds_ms(value, n);

    if (ms >= 0)
        return ms;
    if (!parse_http_date(value, n, &date_s))
        return -1;
    return clamp_ms(date_s * 1000 - now_ms);
}
