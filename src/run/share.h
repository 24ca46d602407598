#ifndef RUN_SHARE_H
#define RUN_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* The share of each receiver, a host and port, in the attempts in flight (DESIGN section 3): one that hangs or fails
 * must not take all slots. A receiver may take another slot only while it holds fewer than SHARE_FACTOR times the slots
 * that are free, so there is always one left for another. What holds for a receiver in the whole process is in
 * run/destinations.h. Threads: one owner. */

#define SHARE_FACTOR 8

struct share;
struct share_host; /* one receiver; lives while somebody has entered */

struct share *share_create(void);
void share_destroy(struct share **s);

/* The receiver of this URL, which target_check has found good. Everyone who enters leaves. */
struct share_host *share_enter(struct share *s, const char *url);
void share_leave(struct share *s, struct share_host *h);

/* Whether it may take one of `free_slots`. */
bool share_may_start(const struct share_host *h, int free_slots);

/* A slot was taken; a slot was given back, after a success or not. */
void share_start(struct share_host *h);
void share_end(struct share_host *h, bool is_success);

/* Whether tasks of this receiver were sent back lately and none has succeeded since: waiting for it is of no use. */
void share_set_stuck(struct share_host *h, bool is_stuck);
bool share_is_stuck(const struct share_host *h);

/* target_place_hash() of its URL. */
uint64_t share_hash(const struct share_host *h);

#endif
