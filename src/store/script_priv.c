#include "store/script_priv.h"

#include "base/embedded.h"
#include "base/log.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call is built once and sent once, thousands of times a second, so its memory is kept from one to the next, and
 * arguments are written at once as Redis reads them: $LENGTH BYTES, a line end behind each. What stands in front of
 * them counts them, so it is written last, into room that was left for it:
 *
 *   | room ... *COUNT EVALSHA sha NUMBER-OF-KEYS | key key ... base arg arg ...
 *              ^ bytes                                                         */

#define TEXT_MAX ((size_t)512 << 20)
#define TEXT_KEPT_BYTES ((size_t)2 << 20) /* from one call to the next: what a full one takes */
#define HEAD_ROOM 96

static const char *const NAMES[SCRIPT_COUNT] = {
    [SCRIPT_SETUP] = "setup",       [SCRIPT_CREATE] = "create",
    [SCRIPT_MOVE] = "move",         [SCRIPT_CLAIM] = "claim",
    [SCRIPT_SETTLE] = "settle",     [SCRIPT_CANCEL] = "cancel",
    [SCRIPT_RENEW] = "renew",       [SCRIPT_RECOVER] = "recover",
    [SCRIPT_SWEEP] = "sweep",       [SCRIPT_STATS] = "stats",
    [SCRIPT_PROBE] = "probe",       [SCRIPT_ORPHANS] = "orphans",
    [SCRIPT_MEND] = "mend",         [SCRIPT_LIST] = "list",
    [SCRIPT_GLANCE] = "glance",     [SCRIPT_PATCH] = "patch",
    [SCRIPT_RUN] = "run",           [SCRIPT_REDRIVE] = "redrive",
    [SCRIPT_EXPIRE] = "expire",     [SCRIPT_CALLBACKS] = "callbacks",
    [SCRIPT_ANNOUNCE] = "announce", [SCRIPT_QUEUE] = "queue",
    [SCRIPT_PURGE] = "purge",       [SCRIPT_REDRIVE_QUEUE] = "redrive_queue",
};

const char *script_text(enum script s, size_t *bytes)
{
    for (const struct embedded_script *e = embedded_scripts; e->name; e++) {
        if (strcmp(e->name, NAMES[s]) == 0) {
            *bytes = e->bytes;
            return e->text;
        }
    }
    assert(false && "a script of the table is missing in lua/");
    abort();
}

void call_init(struct call *c)
{
    memset(c, 0, sizeof *c);
    buf_init(&c->text, TEXT_MAX);
}

void call_deinit(struct call *c)
{
    buf_deinit(&c->text);
    memset(c, 0, sizeof *c);
}

void call_begin(struct call *c)
{
    static const char room[HEAD_ROOM] = {0};

    if (c->text.capacity > TEXT_KEPT_BYTES)
        buf_deinit(&c->text);
    buf_clear(&c->text);
    buf_append(&c->text, room, sizeof room);
    c->count = 0;
    c->sha[0] = '\0';
}

/* Write a number so that it ends before `end`; returns where it begins. */
static char *put_number(char *end, int64_t value)
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        *--end = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        *--end = '-';
    return end;
}

static void begin_argument(struct call *c, size_t bytes)
{
    char head[32];
    char *end = head + sizeof head;
    char *p = end;

    *--p = '\n';
    *--p = '\r';
    p = put_number(p, (int64_t)bytes);
    *--p = '$';
    buf_append(&c->text, p, (size_t)(end - p));
    c->count++;
}

static void end_argument(struct call *c)
{
    buf_append(&c->text, "\r\n", 2);
}

void call_add(struct call *c, const char *data, size_t bytes)
{
    begin_argument(c, bytes);
    buf_append(&c->text, data, bytes);
    end_argument(c);
}

void call_add_str(struct call *c, const char *s)
{
    call_add(c, s, strlen(s));
}

void call_add_int(struct call *c, int64_t value)
{
    char digits[24];
    char *end = digits + sizeof digits;
    const char *p = put_number(end, value);

    call_add(c, p, (size_t)(end - p));
}

void call_add_buf(struct call *c, const struct buf *b)
{
    enum err err = buf_status(b);

    call_add(c, b->len > 0 ? b->data : "", b->len);
    if (err != ERR_OK)
        c->text.failed = err;
}

void call_begin_script(struct call *c, const char *sha, const struct keys *k)
{
    call_begin(c);
    memcpy(c->sha, sha, SCRIPT_SHA_CHARS);
    c->sha[SCRIPT_SHA_CHARS] = '\0';
    for (size_t i = 0; i < KEYS_FIXED; i++)
        call_add(c, k->fixed[i], k->fixed_bytes[i]);
}

void call_add_record_key(struct call *c, const struct keys *k, const char *id)
{
    size_t id_bytes = strlen(id);

    begin_argument(c, k->base_bytes + id_bytes);
    buf_append(&c->text, k->base, k->base_bytes);
    buf_append(&c->text, id, id_bytes);
    end_argument(c);
}

void call_add_idempotency_key(struct call *c, const struct keys *k, const unsigned char *digest, size_t bytes)
{
    static const char KIND[] = ":k:", HEX[] = "0123456789abcdef";

    begin_argument(c, k->base_bytes + sizeof KIND - 1 + 2 * bytes);
    buf_append(&c->text, k->base, k->base_bytes);
    buf_append(&c->text, KIND, sizeof KIND - 1);
    for (size_t i = 0; i < bytes; i++) {
        buf_putc(&c->text, HEX[digest[i] >> 4]);
        buf_putc(&c->text, HEX[digest[i] & 15]);
    }
    end_argument(c);
}

void call_begin_args(struct call *c, const struct keys *k)
{
    c->key_count = c->count;
    call_add(c, k->base, k->base_bytes);
}

static int write_head(const struct call *c, char *out, size_t size)
{
    char keys[16];
    int digits;

    if (c->sha[0] == '\0')
        return snprintf(out, size, "*%d\r\n", c->count);
    digits = snprintf(keys, sizeof keys, "%d", c->key_count);
    return snprintf(out, size, "*%d\r\n$7\r\nEVALSHA\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", c->count + 3, SCRIPT_SHA_CHARS,
                    c->sha, digits, keys);
}

void call_seal(struct call *c)
{
    char head[HEAD_ROOM + 1];
    int n = write_head(c, head, sizeof head);

    if (buf_status(&c->text) != ERR_OK) {
        LOG_ERROR("memory.exhausted", "bytes=%zu", c->text.len);
        abort();
    }
    assert(n > 0 && n <= HEAD_ROOM);
    memcpy(c->text.data + HEAD_ROOM - n, head, (size_t)n);
    c->bytes = c->text.data + HEAD_ROOM - n;
    c->byte_count = c->text.len - HEAD_ROOM + (size_t)n;
}
