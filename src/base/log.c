/* Log lines.
 *
 * A line is built on the stack (no allocation: it must work when memory is gone) and leaves by one write(2), so lines
 * of several threads never mix. The pairs are first printed as text. For JSON that text is read back as key=value
 * pairs, where a value is either a log_quote()d string, which is a JSON string already, or everything up to the next
 * blank. A pair that is cut or does not fit is left out whole: a line is always valid JSON.
 *
 * A failed write is dropped: there is no better place to complain. */
#include "base/log.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text_priv.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAIRS_SIZE 4096
#define LINE_SIZE 8192
#define QUOTE_SIZE 1024
#define QUOTE_SLOTS 4

static _Atomic int current_level = LOG_LEVEL_INFO;
static _Atomic int current_format = LOG_FORMAT_TEXT;

struct line {
    char text[LINE_SIZE];
    size_t len;
    bool is_full; /* something did not fit; the caller rolls back to where it was whole */
};

void log_setup(enum log_level level, enum log_format format)
{
    atomic_store(&current_level, (int)level);
    atomic_store(&current_format, (int)format);
}

bool log_is_on(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&current_level, memory_order_relaxed);
}

/* Two bytes are kept back for the end of the line. */
static void put(struct line *l, const char *s, size_t n)
{
    if (l->is_full || n > sizeof(l->text) - 2 - l->len) {
        l->is_full = true;
        return;
    }
    memcpy(l->text + l->len, s, n);
    l->len += n;
}

static void put_text(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

static void put_string(struct line *l, const char *s, size_t n)
{
    size_t used = 0;

    put_text(l, "\"");
    for (size_t i = 0; i < n; i += used) {
        char escaped[TEXT_ESCAPE_SIZE];
        size_t length = text_escape(s + i, n - i, escaped, &used);

        put(l, escaped, length);
    }
    put_text(l, "\"");
}

/* Length of the quoted string at `s`, its quotes included; 0 when it has no end. */
static size_t quoted_length(const char *s)
{
    for (size_t i = 1; s[i]; i++) {
        if (s[i] == '"')
            return i + 1;
        if (s[i] == '\\' && s[i + 1])
            i++;
    }
    return 0;
}

/* Append one `key=value` as a JSON member; returns what is left of the text. */
static const char *put_member(struct line *l, const char *pair)
{
    size_t key_bytes = strcspn(pair, "= ");
    const char *value = pair + key_bytes;
    size_t value_bytes = 0;
    size_t before = l->len;

    put_text(l, ",");
    put_string(l, pair, key_bytes);
    put_text(l, ":");
    if (*value != '=') { /* a bare word */
        put_text(l, "\"\"");
    } else if (*++value == '"') {
        value_bytes = quoted_length(value);
        if (value_bytes == 0) {
            value_bytes = strlen(value);
            l->is_full = true;
        }
        put(l, value, value_bytes);
    } else {
        value_bytes = strcspn(value, " ");
        put_string(l, value, value_bytes);
    }
    if (l->is_full)
        l->len = before;
    return value + value_bytes;
}

static void put_json_line(struct line *l, const char *const head[3], const char *pairs)
{
    put_text(l, "{\"time\":\"");
    put_text(l, head[0]);
    put_text(l, "\",\"level\":\"");
    put_text(l, head[1]);
    put_text(l, "\",\"event\":");
    put_string(l, head[2], strlen(head[2]));
    for (const char *at = pairs; *at && !l->is_full;) {
        if (*at == ' ')
            at++;
        else
            at = put_member(l, at);
    }
    l->text[l->len++] = '}';
}

static void put_text_line(struct line *l, const char *const head[3], const char *pairs)
{
    for (int i = 0; i < 3; i++) {
        put_text(l, head[i]);
        put_text(l, i < 2 ? " " : "");
    }
    if (pairs[0]) {
        put_text(l, " ");
        put_text(l, pairs);
    }
    for (size_t i = 0; i < l->len; i++) /* an unquoted value must not forge a second line */
        if ((unsigned char)l->text[i] < 0x20)
            l->text[i] = ' ';
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char time[PARSE_RFC3339_SIZE];
    const char *const head[3] = {time, (unsigned)level < LOG_LEVEL_COUNT ? names[level] : "error", event};
    char pairs[PAIRS_SIZE] = "";
    struct line line;
    va_list args;

    line.len = 0;
    line.is_full = false;
    parse_format_rfc3339(clock_wall_ms(), time);
    va_start(args, fmt);
    if (vsnprintf(pairs, sizeof(pairs), fmt, args) < 0)
        pairs[0] = '\0';
    va_end(args);
    if (atomic_load(&current_format) == LOG_FORMAT_JSON)
        put_json_line(&line, head, pairs);
    else
        put_text_line(&line, head, pairs);
    line.text[line.len++] = '\n';
    (void)!write(STDERR_FILENO, line.text, line.len);
}

const char *log_quote(const char *s)
{
    static _Thread_local char slots[QUOTE_SLOTS][QUOTE_SIZE];
    static _Thread_local unsigned next;
    char *out = slots[next++ % QUOTE_SLOTS];
    size_t n = strlen(s);
    size_t len = 0;
    size_t used = 0;

    out[len++] = '"';
    for (size_t i = 0; i < n && len + TEXT_ESCAPE_SIZE + 2 <= QUOTE_SIZE; i += used)
        len += text_escape(s + i, n - i, out + len, &used);
    out[len++] = '"';
    out[len] = '\0';
    return out;
}

bool log_limit_pass(struct log_limit *limit, int interval_ms, long *held)
{
    long long now_ms = clock_mono_ms();
    long long next_ms = atomic_load(&limit->next_mono_ms);

    *held = 0;
    /* Who loses the exchange is held back by the one who won it. */
    if (now_ms < next_ms || !atomic_compare_exchange_strong(&limit->next_mono_ms, &next_ms, now_ms + interval_ms)) {
        atomic_fetch_add(&limit->held, 1);
        return false;
    }
    *held = atomic_exchange(&limit->held, 0);
    return true;
}
