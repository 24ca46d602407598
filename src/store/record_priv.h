#ifndef STORE_RECORD_PRIV_H
#define STORE_RECORD_PRIV_H

#include "base/buf.h"
#include "base/err.h"
#include "task/task.h"

#include <stddef.h>

/* A task's record in Redis, as bytes. Integers are big endian; `varint` is LEB128.
 *
 * Head, 20 bytes, read and rewritten by the scripts (lua/common.lua):
 *   - format 1 and state, cancel mark and takeovers (1 byte each)
 *   - attempts, generation (2 each)
 *   - run_at ms, created_at ms (6 each)
 *   - bytes of history (2)
 *
 * History, empty before the first attempt:
 *   - when ms (6)
 *   - each attempt, oldest first: bytes of the rest (varint), at ms (6), duration us (varint), status + 1024 (varint),
 *     error kind (1), then lateness, dns, connect, tls and first byte (varints: us + 1, 0 for none), error (what is
 *     left). A status below 1024 is of an earlier version: its duration is in ms and the error follows at once
 *
 * Specification:
 *   - length of the queue's name (1; 0 means "default") and the name
 *   - kinds: method | body kind << 3 | 32 when it expires | 64 with on_success | 128 with on_failure (1)
 *   - expires_at ms (6), when it expires; on the way to a script the highest bit says that it counts from now
 *   - bit set of the members that are there (varint)
 *   - url (varint + bytes), the first byte 1 for "http://" and 2 for "https://"
 *   - those members in order
 *   - body (varint + bytes; left out when there is none, cut off once delivered)
 *
 * A member that has its default is not stored: the record of a task with a 200 byte payload fits 256 bytes of Redis. An
 * attempt is skipped by its length and a bit of the set is never used anew, so later versions can add to both. */

#define RECORD_HEAD_BYTES 20

/* Append the specification of a task: what create.lua stores behind the head it makes. */
void record_write_spec(struct buf *out, const struct task *t);

/* Append the attempts of the task's history and `last` behind them, the newest RECORD_ATTEMPTS_MAX of them at most. The
 * errors of all but the last are cut to RECORD_OLD_ERROR_BYTES, since a task that fails for days should stay small. */
#define RECORD_ATTEMPTS_MAX 10
#define RECORD_OLD_ERROR_BYTES 120
void record_write_attempts(struct buf *out, const struct task *t, const struct task_attempt *last);

/* Append the attempt that ends the history of a task whose workers were lost; its time, bytes 2 to 7, stays 0 for
 * recover.lua to fill in. */
void record_write_lost(struct buf *out);

/* How many bytes of the specification a delivered task keeps: all but the body. */
size_t record_kept_bytes(const struct task *t);

/* Where the specification begins in a record that can be read. */
static inline size_t record_spec_at(const char *data)
{
    return RECORD_HEAD_BYTES + ((size_t)(unsigned char)data[RECORD_HEAD_BYTES - 2] << 8) +
           (unsigned char)data[RECORD_HEAD_BYTES - 1];
}

/* Read a record. Gives *out with this id. ERR_INVALID when the bytes are not a record. */
enum err record_read(const char *id, const char *data, size_t n, struct task **out) NODISCARD;

/* The same for the first bytes of a record, which may end anywhere in its body: gives *out without a body.
 * RECORD_BEGINNING_BYTES are enough for every other member. */
#define RECORD_BEGINNING_BYTES 49152
enum err record_read_beginning(const char *id, const char *data, size_t n, struct task **out) NODISCARD;

#endif
