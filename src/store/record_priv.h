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
 *   - each attempt, oldest first: bytes of the rest (varint), at ms (6), duration ms (varint), status (varint), error
 *     (what is left)
 *
 * Specification:
 *   - length of the queue's name (1; 0 means "default") and the name
 *   - method | body kind << 3 (1)
 *   - bit set of the members that are there (varint)
 *   - url (varint + bytes)
 *   - those members in order
 *   - body (varint + bytes; left out when there is none, cut off once delivered)
 *
 * A member that has its default is not stored: the record of a task with a 200 byte payload fits 256 bytes of Redis. An
 * attempt is skipped by its length and a bit of the set is never used anew, so later versions can add to both. */

/* Append the specification of a task: what create.lua stores behind the head it makes. */
void record_write_spec(struct buf *out, const struct task *t);

/* Append the attempts of the task's history and `last` behind them, the newest RECORD_ATTEMPTS_MAX of them at most. */
#define RECORD_ATTEMPTS_MAX 1
void record_write_attempts(struct buf *out, const struct task *t, const struct task_attempt *last);

/* How many bytes of the specification a delivered task keeps: all but the body. */
size_t record_kept_bytes(const struct task *t);

/* Read a record. Gives *out with this id. ERR_INVALID when the bytes are not a record. */
enum err record_read(const char *id, const char *data, size_t n, struct task **out) NODISCARD;

#endif
