#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Two clocks that are never mixed: wall time for what is stored or shown, monotonic time for every timeout.
 * Whether a task is due is decided by Redis TIME alone, in Lua (DESIGN section 5). Threads: any. */

/* Unix time in milliseconds / microseconds (CLOCK_REALTIME). */
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void);

/* Monotonic time in milliseconds / microseconds (CLOCK_MONOTONIC). */
int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);

#endif
