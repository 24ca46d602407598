/* Values of settings.
 *
 * Every source ends in a text (a JSON integer is written out again), so each kind has exactly one reader, and a
 * default, a variable and a flag cannot differ in what they accept. A reader says what is wrong as half a sentence;
 * who calls it puts the setting and the value in front, because only he knows where it stood and whether it may be
 * shown. URLs of Redis are only told apart by scheme here: their parts are read by the store, which uses them. */
#include "conf/value_priv.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX_MAX 64
#define PORT_MAX 65535
#define ITEM_SEPARATORS ", \t\r\n"
#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

_Static_assert(LOG_LEVEL_DEBUG == 0 && LOG_LEVEL_ERROR == 3, "the order of log-level's choices");
_Static_assert(LOG_FORMAT_TEXT == 0 && LOG_FORMAT_JSON == 1, "the order of log-format's choices");

struct unit {
    const char *name;
    int64_t ms;
};

static char **text_field(const struct option *o, struct config *c)
{
    return (char **)(void *)((char *)c + o->offset);
}

static const void *field(const struct option *o, const struct config *c)
{
    return (const char *)c + o->offset;
}

const char *value_next_item(const char **at, size_t *bytes)
{
    const char *item = *at + strspn(*at, ITEM_SEPARATORS);

    *bytes = strcspn(item, ITEM_SEPARATORS);
    *at = item + *bytes;
    return *bytes > 0 ? item : NULL;
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* A host that is all digits and dots would be read as an address in some old form if it is not one in the usual. */
static bool host_is_valid(const char *host, size_t n, bool is_bracketed)
{
    struct netaddr a;
    size_t name_bytes = strspn(host, LETTERS DIGITS ".-_");
    size_t numeric_bytes = strspn(host, DIGITS ".");

    if (is_bracketed)
        return memchr(host, ':', n) && netaddr_parse(host, n, &a);
    if (n == 0 || name_bytes < n)
        return false;
    return numeric_bytes < n || netaddr_parse(host, n, &a);
}

enum err value_split_listen(const char *text, const char **host, size_t *host_bytes, int *port, struct buf *why)
{
    const char *colon = strrchr(text, ':');
    bool is_bracketed = text[0] == '[';
    int64_t number = -1;

    *host = text;
    *host_bytes = colon ? (size_t)(colon - text) : 0;
    if (!colon) {
        buf_puts(why, "has no port: write HOST:PORT");
        return ERR_INVALID;
    }
    if (colon == text) {
        buf_puts(why, "has no host: write 0.0.0.0 or [::] in front for all addresses");
        return ERR_INVALID;
    }
    if (!parse_int64(colon + 1, strlen(colon + 1), &number) || number < 0 || number > PORT_MAX || colon[1] == '-') {
        buf_puts(why, "does not end in a port from 0 to 65535");
        return ERR_INVALID;
    }
    if (is_bracketed && *host_bytes >= 2 && text[*host_bytes - 1] == ']') {
        *host = text + 1;
        *host_bytes -= 2;
    }
    if (!host_is_valid(*host, *host_bytes, is_bracketed)) {
        buf_puts(why, "does not begin with a host name, an IPv4 address or an IPv6 address in brackets");
        return ERR_INVALID;
    }
    *port = (int)number;
    return ERR_OK;
}

static enum err check_text(const char *text, struct buf *why)
{
    if (text[0])
        return ERR_OK;
    buf_puts(why, "is empty");
    return ERR_INVALID;
}

static enum err check_listen(const char *text, struct buf *why)
{
    const char *host = NULL;
    size_t host_bytes = 0;
    int port = 0;

    return value_split_listen(text, &host, &host_bytes, &port, why);
}

static enum err check_redis(const char *text, struct buf *why)
{
    static const struct {
        const char *scheme;
        const char *what;
    } refused[] = {
        {"rediss://", "TLS to Redis"},
        {"sentinel://", "Redis Sentinel"},
        {"cluster://", "Redis Cluster"},
    };

    if (strcmp(text, "embedded") == 0)
        return ERR_OK;
    if (begins_with(text, "redis://") && text[strlen("redis://")])
        return ERR_OK;
    if (begins_with(text, "unix:///") && text[strlen("unix:///")])
        return ERR_OK;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (begins_with(text, refused[i].scheme)) {
            buf_printf(why, "asks for %s, which is not supported by this version", refused[i].what);
            return ERR_INVALID;
        }
    }
    buf_puts(why, "is neither redis://[user:pass@]host:port[/db] nor unix:///path nor embedded");
    return ERR_INVALID;
}

/* Each must be able to stand in a header: visible ASCII. */
static enum err check_secrets(const char *text, struct buf *why)
{
    const char *at = text;
    size_t bytes = 0;
    int count = 0;

    for (const char *item = value_next_item(&at, &bytes); item; item = value_next_item(&at, &bytes)) {
        count++;
        for (size_t i = 0; i < bytes; i++) {
            if (item[i] <= 0x20 || item[i] >= 0x7F) {
                buf_printf(why, "is not visible ASCII throughout (entry %d)", count);
                return ERR_INVALID;
            }
        }
    }
    if (count > 0)
        return ERR_OK;
    buf_puts(why, "is blank");
    return ERR_INVALID;
}

static enum err check_networks(const char *text, struct buf *why)
{
    struct cidr_list list;
    const char *bad = NULL;
    size_t bad_bytes = 0;
    enum err err = cidr_list_parse(text, &list, &bad, &bad_bytes);

    if (err != ERR_OK) {
        buf_puts(why, "is not a list of networks: ");
        buf_put_json_lossy(why, bad, bad_bytes);
        buf_puts(why, " is no address, or has bits set after its /n");
    }
    cidr_list_deinit(&list);
    return err;
}

/* No braces: they would move the hash tag by which Redis Cluster places a key. */
static enum err check_prefix(const char *text, struct buf *why)
{
    size_t n = strlen(text);

    if (n >= 1 && n <= PREFIX_MAX && strspn(text, LETTERS DIGITS "._:-") == n)
        return ERR_OK;
    buf_printf(why, "is not 1 to %d of the characters A-Z a-z 0-9 . _ : -", PREFIX_MAX);
    return ERR_INVALID;
}

static enum err set_int(const struct option *o, struct config *c, const char *text, struct buf *why)
{
    int64_t value = 0;

    if (parse_int64(text, strlen(text), &value) && value >= o->min && value <= o->max) {
        memcpy((char *)c + o->offset, &value, sizeof(value));
        return ERR_OK;
    }
    if (o->min == o->max)
        buf_printf(why, "is not %" PRId64 ", the only value that this version supports", o->min);
    else
        buf_printf(why, "is not an integer from %" PRId64 " to %" PRId64, o->min, o->max);
    return ERR_INVALID;
}

/* Largest units first, "1h30m". */
static void put_duration(struct buf *out, int64_t ms)
{
    static const struct unit units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    int64_t rest_ms = ms;

    if (ms == 0)
        buf_puts(out, "0s");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (rest_ms < units[i].ms)
            continue;
        buf_put_int(out, rest_ms / units[i].ms);
        buf_puts(out, units[i].name);
        rest_ms %= units[i].ms;
    }
}

static enum err set_duration(const struct option *o, struct config *c, const char *text, struct buf *why)
{
    int64_t ms = 0;
    size_t n = strlen(text);

    if ((parse_int64(text, n, &ms) || parse_duration(text, n, &ms)) && ms >= o->min && ms <= o->max) {
        memcpy((char *)c + o->offset, &ms, sizeof(ms));
        return ERR_OK;
    }
    buf_puts(why, "is not a duration (like 15s, 1h30m or milliseconds) from ");
    put_duration(why, o->min);
    buf_puts(why, " to ");
    put_duration(why, o->max);
    return ERR_INVALID;
}

static enum err set_choice(const struct option *o, struct config *c, const char *text, struct buf *why)
{
    const char *at = o->choices;
    size_t bytes = 0;
    int position = 0;

    for (const char *item = value_next_item(&at, &bytes); item; item = value_next_item(&at, &bytes)) {
        if (strlen(text) == bytes && memcmp(text, item, bytes) == 0) {
            memcpy((char *)c + o->offset, &position, sizeof(position));
            return ERR_OK;
        }
        position++;
    }
    buf_printf(why, "is none of: %s", o->choices);
    return ERR_INVALID;
}

static enum err set_bool(const struct option *o, struct config *c, const char *text, struct buf *why)
{
    bool is_true = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
    bool is_false = strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0;

    if (!is_true && !is_false) {
        buf_puts(why, "is neither true nor false");
        return ERR_INVALID;
    }
    memcpy((char *)c + o->offset, &is_true, sizeof(is_true));
    return ERR_OK;
}

static enum err set_text(const struct option *o, struct config *c, const char *text)
{
    char **at = text_field(o, c);

    free(*at);
    *at = xstrdup(text);
    return ERR_OK;
}

enum err value_set(const struct option *o, struct config *c, const char *text, struct buf *why)
{
    enum err err = ERR_INVALID;

    switch (o->kind) {
    case OPTION_TEXT:
        err = check_text(text, why);
        break;
    case OPTION_LISTEN:
        err = check_listen(text, why);
        break;
    case OPTION_REDIS:
        err = check_redis(text, why);
        break;
    case OPTION_SECRETS:
        err = check_secrets(text, why);
        break;
    case OPTION_NETWORKS:
        err = check_networks(text, why);
        break;
    case OPTION_PREFIX:
        err = check_prefix(text, why);
        break;
    case OPTION_INT:
        return set_int(o, c, text, why);
    case OPTION_DURATION:
        return set_duration(o, c, text, why);
    case OPTION_CHOICE:
        return set_choice(o, c, text, why);
    case OPTION_BOOL:
        return set_bool(o, c, text, why);
    case OPTION_KIND_COUNT:
        break;
    }
    return err == ERR_OK ? set_text(o, c, text) : err;
}

/* Everything between "://" and the last '@' may hold the password; a user name in front of ':' is kept. */
static void put_masked_url(const char *url, struct buf *out)
{
    const char *scheme_end = strstr(url, "://");
    const char *user = scheme_end ? scheme_end + 3 : url;
    const char *at_sign = strrchr(user, '@');
    const char *colon = at_sign ? memchr(user, ':', (size_t)(at_sign - user)) : NULL;
    const char *kept_end = at_sign ? (colon ? colon + 1 : user) : user;
    struct buf masked;

    buf_init(&masked, SIZE_MAX - 1);
    buf_append(&masked, url, (size_t)(kept_end - url));
    if (at_sign)
        buf_puts(&masked, "***");
    buf_puts(&masked, at_sign ? at_sign : user);
    buf_put_json_lossy(out, masked.data, masked.len);
    buf_deinit(&masked);
}

void value_show(const struct option *o, const char *text, struct buf *out)
{
    if (o->kind == OPTION_SECRETS)
        buf_puts(out, "the value");
    else if (o->kind == OPTION_REDIS)
        put_masked_url(text, out);
    else
        buf_put_json_lossy(out, text, strlen(text));
}

static void write_text(const struct option *o, const char *text, struct buf *out)
{
    if (!text)
        buf_puts(out, "null");
    else if (o->kind == OPTION_SECRETS)
        buf_puts(out, "\"***\"");
    else
        value_show(o, text, out);
}

static void write_choice(const struct option *o, int position, struct buf *out)
{
    const char *at = o->choices;
    size_t bytes = 0;
    const char *item = value_next_item(&at, &bytes);

    for (int i = 0; i < position && item; i++)
        item = value_next_item(&at, &bytes);
    buf_put_json(out, item ? item : "", item ? bytes : 0);
}

void value_write_json(const struct option *o, const struct config *c, struct buf *out)
{
    const void *f = field(o, c);
    int64_t number = 0;
    int position = 0;

    switch (o->kind) {
    case OPTION_INT:
    case OPTION_DURATION:
        memcpy(&number, f, sizeof(number));
        if (o->kind == OPTION_DURATION) {
            buf_putc(out, '"');
            put_duration(out, number);
            buf_putc(out, '"');
        } else if (number == 0 && !o->fallback) {
            buf_puts(out, "null");
        } else {
            buf_put_int(out, number);
        }
        return;
    case OPTION_CHOICE:
        memcpy(&position, f, sizeof(position));
        write_choice(o, position, out);
        return;
    case OPTION_BOOL:
        buf_puts(out, *(const bool *)f ? "true" : "false");
        return;
    case OPTION_TEXT:
    case OPTION_LISTEN:
    case OPTION_REDIS:
    case OPTION_SECRETS:
    case OPTION_NETWORKS:
    case OPTION_PREFIX:
    case OPTION_KIND_COUNT:
        break;
    }
    write_text(o, *(const char *const *)f, out);
}
