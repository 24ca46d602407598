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
    SCRIPT_COUNT
};

#define SCRIPT_SHA_CHARS 40

/* The script's text with lua/common.lua in front. */
const char *script_text(enum script s, size_t *bytes);

/* The arguments of one Redis command, in memory that is reused from call to call. Small values are copied in with
 * call_add_text or call_add_int; large ones are referenced with call_add and must live until the command is sent. */
struct call {
    const char **argv;
    size_t *lens;
    int count;
    int capacity;
    struct buf text;  /* the copies; argv is NULL for them until call_seal() */
    int key_count_at; /* where in argv the number of keys stands */
    char key_count[24];
};

void call_init(struct call *c);
void call_deinit(struct call *c);

/* Begin EVALSHA sha: the fixed keys of the partition first. Extra keys follow by call_add_key*, then
 * call_begin_args() (which adds the base as ARGV[1]) and the arguments. */
void call_begin_script(struct call *c, const char *sha, const struct keys *k);
void call_add_record_key(struct call *c, const struct keys *k, const char *id);
void call_add_idempotency_key(struct call *c, const struct keys *k, const unsigned char *digest, size_t bytes);
void call_begin_args(struct call *c, const struct keys *k);

void call_begin(struct call *c); /* a plain command */
void call_add(struct call *c, const char *data, size_t bytes);
void call_add_str(struct call *c, const char *s);
void call_add_text(struct call *c, const char *data, size_t bytes);
void call_add_int(struct call *c, int64_t value);

/* Make argv and lens final; to be called once before they are used. */
void call_seal(struct call *c);

#endif
