#include "receive/show_priv.h"
#include "base/parse.h"
#include <inttypes.h>
#include <string.h>

#define FIELD_BYTES 256 /* of an id or path; more is cut */

/* Bytes of the printable UTF-8 character at `s`; 0 for control characters and what is not UTF-8. */
static size_t printable_bytes(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0];
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    if (len == 1)
        return c >= 0x20 && c != 0x7f ? 1 : 0;
    if (len > n || !parse_is_utf8(s, len))
        return 0;
    return c == 0xc2 && (unsigned char)s[1] < 0xa0 ? 0 : len; /* C1: terminals obey those, too */
}

static void put_escaped(struct buf *out, unsigned char c)
{
    switch (c) {
    case '\n':
        buf_puts(out, "\\n");
        break;
    case '\r':
        buf_puts(out, "\\r");
        break;
    case '\t':
        buf_puts(out, "\\t");
        break;
    default:
        buf_printf(out, "\\x%02x", c);
    }
}

/* Append at most `max` bytes of foreign text. */
static void put_foreign(struct buf *out, const char *s, size_t n, size_t max)
{
    size_t end = n < max ? n : max;

    for (size_t i = 0; i < end;) {
        size_t len = printable_bytes(s + i, n - i);
        if (len > 0)
            buf_append(out, s + i, len);
        else
            put_escaped(out, (unsigned char)s[i]);
        i += len > 0 ? len : 1;
    }
    if (n > max)
        buf_printf(out, "... (%zu bytes)", n);
}

static void put_field(struct buf *out, const char *text)
{
    put_foreign(out, text, strlen(text), FIELD_BYTES);
}

enum shown_signature show_judge(const struct shown *s, const struct signature_secrets *secrets)
{
    if (s->signature == NULL)
        return SHOWN_UNSIGNED;
    if (secrets->count == 0)
        return SHOWN_UNCHECKED;
    if (s->id == NULL || s->timestamp == NULL)
        return SHOWN_WRONG;
    return signature_verify(secrets, s->signature, s->id, s->timestamp, s->body != NULL ? s->body : "", s->body_bytes)
               ? SHOWN_RIGHT
               : SHOWN_WRONG;
}

static const char *words_for(enum shown_signature judgement)
{
    switch (judgement) {
    case SHOWN_UNSIGNED:
        return "unsigned";
    case SHOWN_UNCHECKED:
        return "signature not checked (no secret here)";
    case SHOWN_RIGHT:
        return "signature right";
    case SHOWN_WRONG:
        return "signature WRONG (wrong secret?)";
    case SHOWN_SIGNATURE_COUNT:
        break;
    }
    return "";
}

static bool since_due(const struct shown *s, int64_t *since_ms)
{
    int64_t due_ms = 0;

    if (s->due == NULL || !parse_rfc3339(s->due, strlen(s->due), &due_ms))
        return false;
    *since_ms = s->arrived_ms - due_ms;
    return true;
}

/* The due time of a retry is its task's, not its own: it comes after it by intent. */
static bool is_retry(const struct shown *s)
{
    return s->attempt != NULL && strcmp(s->attempt, "1") != 0;
}

bool show_lateness(const struct shown *s, int64_t *late_ms)
{
    return !is_retry(s) && since_due(s, late_ms);
}

static void put_time(struct buf *out, const struct shown *s)
{
    int64_t ms = 0;

    if (!since_due(s, &ms))
        return;
    if (ms < 0)
        buf_printf(out, "  %" PRId64 " ms EARLY", -ms);
    else
        buf_printf(out, is_retry(s) ? "  due %" PRId64 " ms ago" : "  %" PRId64 " ms late", ms);
}

void show_request(struct buf *out, const struct shown *s, enum shown_signature judgement)
{
    char now[PARSE_RFC3339_SIZE];

    parse_format_rfc3339(s->arrived_ms, now);
    buf_printf(out, "%s  ", now);
    if (s->id != NULL) {
        put_field(out, s->id);
        buf_puts(out, "  attempt ");
        put_field(out, s->attempt != NULL ? s->attempt : "?");
        put_time(out, s);
        buf_printf(out, "  %s  ", words_for(judgement));
    } else {
        buf_puts(out, "no webhook  ");
    }
    put_field(out, s->method);
    buf_putc(out, ' ');
    put_field(out, s->target);
    buf_putc(out, '\n');
    if (s->body_bytes > 0) {
        buf_puts(out, "    ");
        put_foreign(out, s->body, s->body_bytes, SHOW_BODY_BYTES);
        buf_putc(out, '\n');
    }
}
