#ifndef STORE_SCRIPT_PRIV_H
#define STORE_SCRIPT_PRIV_H

#include "base/buf.h"
#include "store/keys_priv.h"

#include <stddef.h>
#include <stdint.h>

/* The scripts of lua/ and the building of their calls. */

enum script {
    SCRIPT_SETUP = 0,
    SCRIPT_CREATE,
    SCRIPT_MOVE,
    SCRIPT_CLAIM,
    SCRIPT_SETTLE,
    SCRIPT_CANCEL,
    SCRIPT_RENEW,
    SCRIPT_RECOVER,
    SCRIPT_SWEEP,
    SCRIPT_STATS,
    SCRIPT_PROBE,
    SCRIPT_ORPHANS,
    SCRIPT_MEND,
    SCRIPT_LIST,
    SCRIPT_GLANCE,
    SCRIPT_PATCH,
    SCRIPT_RUN,
    SCRIPT_REDRIVE,
    SCRIPT_EXPIRE,
    SCRIPT_CALLBACKS,
    SCRIPT_ANNOUNCE,
    SCRIPT_QUEUE,
    SCRIPT_PURGE,
    SCRIPT_REDRIVE_QUEUE,
    SCRIPT_COUNT
};

#define SCRIPT_SHA_CHARS 40

/* The script's text with what it needs of lua/common.lua in front. */
const char *script_text(enum script s, size_t *bytes);

/* One Redis command as it goes over the wire, in memory that is reused from call to call. Everything is copied in. */
struct call {
    struct buf text;                /* room for the head, which is known last; then the arguments */
    int count;                      /* of the arguments in `text` */
    int key_count;                  /* of a script */
    char sha[SCRIPT_SHA_CHARS + 1]; /* "": a plain command */
    const char *bytes;              /* the command, once it is sealed */
    size_t byte_count;
};

void call_init(struct call *c);
void call_deinit(struct call *c);

/* Begin EVALSHA sha: the fixed keys of the partition first. Extra keys follow by call_add_*_key, then
 * call_begin_args() (which adds the base as ARGV[1]) and the arguments. */
void call_begin_script(struct call *c, const char *sha, const struct keys *k);
void call_add_record_key(struct call *c, const struct keys *k, const char *id);
void call_add_idempotency_key(struct call *c, const struct keys *k, const unsigned char *digest, size_t bytes);
void call_begin_args(struct call *c, const struct keys *k);

void call_begin(struct call *c); /* a plain command */
void call_add(struct call *c, const char *data, size_t bytes);
void call_add_str(struct call *c, const char *s);
void call_add_int(struct call *c, int64_t value);

/* What was written into a buffer. When it could not be written whole, neither can the call: half a record would be a
 * lost task, so call_seal() ends the process, as xcalloc() does. */
void call_add_buf(struct call *c, const struct buf *b);

/* Write the head: gives `bytes`, until the next call_begin. To be called once. */
void call_seal(struct call *c);

#endif
