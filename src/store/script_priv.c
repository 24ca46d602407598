#include "store/script_priv.h"

#include "base/embedded.h"
#include "base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)512 << 20)

static const char *const NAMES[SCRIPT_COUNT] = {
    [SCRIPT_SETUP] = "setup",   [SCRIPT_CREATE] = "create", [SCRIPT_MOVE] = "move",   [SCRIPT_CLAIM] = "claim",
    [SCRIPT_SETTLE] = "settle", [SCRIPT_CANCEL] = "cancel", [SCRIPT_RENEW] = "renew", [SCRIPT_RECOVER] = "recover",
    [SCRIPT_SWEEP] = "sweep",   [SCRIPT_STATS] = "stats",   [SCRIPT_PROBE] = "probe", [SCRIPT_ORPHANS] = "orphans",
    [SCRIPT_MEND] = "mend",
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
    free((void *)c->argv);
    free(c->lens);
    buf_deinit(&c->text);
    memset(c, 0, sizeof *c);
}

void call_begin(struct call *c)
{
    c->count = 0;
    buf_clear(&c->text);
}

/* `data` NULL: the bytes are the next ones of `text`, whose address may still change. */
static void append(struct call *c, const char *data, size_t bytes)
{
    if (c->count == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 64;
        c->argv = xrealloc((void *)c->argv, (size_t)c->capacity * sizeof *c->argv);
        c->lens = xrealloc(c->lens, (size_t)c->capacity * sizeof *c->lens);
    }
    c->argv[c->count] = data;
    c->lens[c->count] = bytes;
    c->count++;
}

void call_add(struct call *c, const char *data, size_t bytes)
{
    append(c, data ? data : "", bytes);
}

void call_add_str(struct call *c, const char *s)
{
    append(c, s, strlen(s));
}

void call_add_text(struct call *c, const char *data, size_t bytes)
{
    buf_append(&c->text, data, bytes);
    append(c, NULL, bytes);
}

void call_add_int(struct call *c, int64_t value)
{
    size_t before = c->text.len;

    buf_put_int(&c->text, value);
    append(c, NULL, c->text.len - before);
}

void call_begin_script(struct call *c, const char *sha, const struct keys *k)
{
    call_begin(c);
    call_add_str(c, "EVALSHA");
    call_add(c, sha, SCRIPT_SHA_CHARS);
    c->key_count_at = c->count;
    call_add_str(c, "");
    for (size_t i = 0; i < KEYS_FIXED; i++)
        call_add(c, k->fixed[i], k->fixed_bytes[i]);
}

void call_add_record_key(struct call *c, const struct keys *k, const char *id)
{
    size_t id_bytes = strlen(id);

    buf_append(&c->text, k->base, k->base_bytes);
    buf_append(&c->text, id, id_bytes);
    append(c, NULL, k->base_bytes + id_bytes);
}

void call_add_idempotency_key(struct call *c, const struct keys *k, const unsigned char *digest, size_t bytes)
{
    static const char KIND[] = ":k:", HEX[] = "0123456789abcdef";
    size_t before = c->text.len;

    buf_append(&c->text, k->base, k->base_bytes);
    buf_append(&c->text, KIND, sizeof KIND - 1);
    for (size_t i = 0; i < bytes; i++) {
        buf_putc(&c->text, HEX[digest[i] >> 4]);
        buf_putc(&c->text, HEX[digest[i] & 15]);
    }
    append(c, NULL, c->text.len - before);
}

void call_begin_args(struct call *c, const struct keys *k)
{
    char digits[24];
    int keys = c->count - c->key_count_at - 1;
    size_t n = 0;

    for (int rest = keys; rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    for (size_t i = 0; i < n; i++)
        c->key_count[i] = digits[n - 1 - i];
    c->argv[c->key_count_at] = c->key_count;
    c->lens[c->key_count_at] = n;
    call_add(c, k->base, k->base_bytes);
}

void call_seal(struct call *c)
{
    const char *next = c->text.data;

    assert(buf_status(&c->text) == ERR_OK);
    for (int i = 0; i < c->count; i++) {
        if (!c->argv[i]) {
            c->argv[i] = next;
            next += c->lens[i];
        }
    }
}
