#include "http/head_priv.h"
#include "base/parse.h"
#include "task/signature.h"
#include "task/trace.h"
#include <string.h>
#include <strings.h>

/* Checks of a request's head.
 *
 * libmicrohttpd takes a request that has both Content-Length and Transfer-Encoding, or either twice, or a name with a
 * blank before the colon, and picks one reading. A proxy in front may pick the other; so all of these are refused here,
 * before the body is looked at. */

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(const char *s)
{
    if (*s == '\0')
        return false;
    while (is_token_char(*s))
        s++;
    return *s == '\0';
}

static void note(const char **value, uint8_t *count, const char *given)
{
    *value = given;
    if (*count < 2)
        (*count)++;
}

/* For what may be given once: twice is as good as wrong. */
static void note_once(const char **value, const char *given)
{
    *value = *value ? "" : given;
}

/* Without the blanks behind it, which are no part of a header's value (RFC 9110, section 5.5); libmicrohttpd leaves
 * them there, and takes only those before it. */
static size_t length_of(const char *value)
{
    size_t n = strlen(value);

    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    return n;
}

static bool is_word(const char *value, const char *word)
{
    return length_of(value) == strlen(word) && strncasecmp(value, word, strlen(word)) == 0;
}

void head_note(struct head *h, const char *name, const char *value)
{
    const char *unused_value = NULL;

    if (!is_token(name))
        h->has_bad_name = true;
    if (!value)
        value = "";
    switch (strlen(name)) { /* few names need a comparison at all */
    case 4:
        if (strcasecmp(name, "Host") == 0)
            note(&unused_value, &h->host_count, value);
        break;
    case 6:
        if (strcasecmp(name, "Expect") == 0)
            note_once(&h->expect, value);
        break;
    case 11:
        if (strcasecmp(name, "traceparent") == 0)
            note_once(&h->traceparent, value);
        break;
    case 12:
        if (strcasecmp(name, "Content-Type") == 0)
            note(&h->content_type, &h->content_type_count, value);
        break;
    case 13:
        if (strcasecmp(name, "Authorization") == 0)
            note(&h->authorization, &h->authorization_count, value);
        break;
    case 14:
        if (strcasecmp(name, "Content-Length") == 0)
            note(&h->content_length, &h->content_length_count, value);
        break;
    case 15:
        if (strcasecmp(name, "Idempotency-Key") == 0) {
            note(&h->idempotency_key, &h->idempotency_key_count, value);
            h->idempotency_key_bytes = length_of(value);
        }
        break;
    case 16:
        if (strcasecmp(name, "Content-Encoding") == 0)
            note_once(&h->content_encoding, value);
        break;
    case 17:
        if (strcasecmp(name, "Transfer-Encoding") == 0)
            note(&h->transfer_encoding, &h->transfer_encoding_count, value);
        break;
    default:
        break;
    }
}

static const char *find_framing_fault(struct head *h)
{
    int64_t bytes = 0;

    if (h->has_bad_name)
        return "A header's name may not hold blanks or separators";
    if (h->host_count > 1 || (h->host_count == 0 && !h->is_http_1_0))
        return "The Host header must be given once";
    if (h->content_length_count > 1)
        return "Content-Length was given more than once";
    if (h->transfer_encoding_count > 0 && h->content_length_count > 0)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (h->transfer_encoding_count > 0) {
        if (h->is_http_1_0 || h->transfer_encoding_count > 1 || strcasecmp(h->transfer_encoding, "chunked") != 0)
            return "Transfer-Encoding can only be chunked";
        h->body_bytes = HEAD_BODY_CHUNKED;
        return NULL;
    }
    if (h->content_length_count > 0 &&
        (!parse_int64(h->content_length, strlen(h->content_length), &bytes) || h->content_length[0] == '-'))
        return "Content-Length must be a number of bytes";
    h->body_bytes = bytes;
    return NULL;
}

enum err head_check_framing(struct head *h, const char **detail)
{
    *detail = find_framing_fault(h);
    return *detail ? ERR_BAD_FRAMING : ERR_OK;
}

/* All of them are compared: the time must not tell which one came close. */
static bool is_one_of(const char *given, const char *const *tokens)
{
    bool is_known = false;

    for (size_t i = 0; tokens && tokens[i]; i++) {
        if (signature_equal(given, length_of(given), tokens[i], strlen(tokens[i])))
            is_known = true;
    }
    return is_known;
}

enum head_access head_access(const struct head *h, const char *const *tokens, const char *const *read_tokens)
{
    static const char scheme[] = "Bearer ";
    const char *given = NULL;
    bool may_do_all = false;
    bool may_read = false;

    if (!tokens)
        return HEAD_ACCESS_FULL;
    if (h->authorization_count != 1 || strncasecmp(h->authorization, scheme, sizeof(scheme) - 1) != 0)
        return HEAD_ACCESS_NONE;
    given = h->authorization + sizeof(scheme) - 1;
    given += strspn(given, " ");
    may_do_all = is_one_of(given, tokens);
    may_read = is_one_of(given, read_tokens);
    if (may_do_all)
        return HEAD_ACCESS_FULL;
    return may_read ? HEAD_ACCESS_READ : HEAD_ACCESS_NONE;
}

bool head_expects_continue(const struct head *h)
{
    return h->expect && !h->is_http_1_0 && is_word(h->expect, "100-continue");
}

bool head_expects_something_else(const struct head *h)
{
    return h->expect && !is_word(h->expect, "100-continue");
}

enum err head_check_encoding(const struct head *h, const char **detail)
{
    *detail = NULL;
    if (!h->content_encoding || is_word(h->content_encoding, "identity"))
        return ERR_OK;
    *detail = "The body may not be compressed: no Content-Encoding but identity";
    return ERR_UNSUPPORTED_MEDIA_TYPE;
}

enum err head_check_idempotency_key(const struct head *h, const char **detail)
{
    const char *key = h->idempotency_key;
    size_t n = h->idempotency_key_bytes;

    *detail = NULL;
    if (h->idempotency_key_count == 0)
        return ERR_OK;
    if (h->idempotency_key_count > 1)
        *detail = "was given more than once";
    else if (n == 0 || n > HEAD_KEY_MAX)
        *detail = "must have 1 to 255 characters";
    for (size_t i = 0; i < n && !*detail; i++) {
        if (key[i] < ' ' || key[i] > '~')
            *detail = "must be printable ASCII throughout";
    }
    return *detail ? ERR_INVALID_HEADER : ERR_OK;
}

bool head_traceparent(const struct head *h, char out[TASK_TRACEPARENT_BYTES + 1])
{
    const char *s = h->traceparent;

    if (!s)
        return false;
    s += strspn(s, " \t");
    return trace_read_parent(s, length_of(s), out);
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* Whether `s`, what follows the media type, is nothing but charset=utf-8. */
static bool has_only_utf8_parameter(const char *s)
{
    static const char *const values[] = {"\"utf-8\"", "utf-8"};

    for (s = skip_blanks(s); *s == ';'; s = skip_blanks(s)) {
        size_t n = 0;

        s = skip_blanks(s + 1);
        if (*s == '\0' || *s == ';') /* an empty parameter is allowed by RFC 9110 section 5.6.6 */
            continue;
        if (strncasecmp(s, "charset=", 8) != 0)
            return false;
        s += 8;
        for (size_t i = 0; i < 2 && n == 0; i++) {
            if (strncasecmp(s, values[i], strlen(values[i])) == 0)
                n = strlen(values[i]);
        }
        if (n == 0)
            return false;
        s += n;
    }
    return *s == '\0';
}

enum err head_check_json(const struct head *h, const char **detail)
{
    static const char json[] = "application/json";
    enum err err = head_check_encoding(h, detail);

    if (err != ERR_OK)
        return err;
    if (h->content_type_count == 1 && strncasecmp(h->content_type, json, sizeof(json) - 1) == 0 &&
        has_only_utf8_parameter(h->content_type + sizeof(json) - 1))
        return ERR_OK;
    *detail = "The body must be declared as Content-Type: application/json, in UTF-8";
    return ERR_UNSUPPORTED_MEDIA_TYPE;
}
