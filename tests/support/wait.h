#ifndef SUPPORT_WAIT_H
#define SUPPORT_WAIT_H

#include <stdint.h>

/* Waiting for a condition with a deadline, instead of sleeping for a guess. */

int64_t wait_mono_ms(void);
int64_t wait_wall_ms(void);
int64_t wait_wall_us(void);

/* `ms`, ten times as long when DUEPOST_TEST_SLOW=1 (sanitizer builds). */
int64_t wait_scaled_ms(int64_t ms);

/* One short pause; fails the test when `deadline_mono_ms` has passed. */
void wait_tick(int64_t deadline_mono_ms, const char *where, const char *what);

#define WAIT_STRING_(x) #x
#define WAIT_STRING(x) WAIT_STRING_(x)

/* Evaluate `cond` again and again until it holds; fail the test after `ms` (scaled). */
#define WAIT_UNTIL(cond, ms)                                                \
    for (int64_t wait_end_ = wait_mono_ms() + wait_scaled_ms(ms); !(cond);) \
    wait_tick(wait_end_, __FILE__ ":" WAIT_STRING(__LINE__), #cond)

#endif
