#include "base/exposition.h"
#include "base/netaddr.h"
#include "base/parse.h"
#include "task/outcome.h"
#include "task/signature.h"
#include "task/trace.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes for every strict reader of a small text. The first byte, a digit in the seeds, chooses the reader. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void read_integer(const char *s, size_t n)
{
    int64_t value = 0;

    if (parse_int64(s, n, &value))
        assert(n > 0 && (s[0] == '-' || (s[0] >= '0' && s[0] <= '9')));
}

static void read_duration(const char *s, size_t n)
{
    int64_t ms = -1;

    if (parse_duration(s, n, &ms))
        assert(ms >= 0 && ms <= INT64_MAX / 2);
}

/* A time is written as the instant it was read as. */
static void read_time(const char *s, size_t n)
{
    char text[PARSE_RFC3339_SIZE];
    int64_t ms = 0;
    int64_t again_ms = 0;

    if (!parse_rfc3339(s, n, &ms))
        return;
    if (ms < 0 || ms > INT64_C(253402300799999)) /* the offset led out of the years that are written */
        return;
    parse_format_rfc3339(ms, text);
    assert(parse_rfc3339(text, strlen(text), &again_ms) && again_ms == ms);
}

static void read_http_date(const char *s, size_t n)
{
    int64_t date_s = 0;

    (void)parse_http_date(s, n, &date_s);
    int64_t ms = outcome_retry_after_ms(s, n, INT64_C(1900000000000));

    assert(ms >= -1 && ms <= OUTCOME_RETRY_AFTER_MAX_MS);
}

/* Base64 is written as the text it was read from. */
static void read_base64(const char *s, size_t n)
{
    unsigned char *bytes = malloc(n / 4 * 3 + 1);
    size_t count = 0;
    size_t checked = 0;
    struct buf out;

    assert(bytes);
    bool is_read = parse_base64(s, n, bytes, &count);

    assert(parse_base64(s, n, NULL, &checked) == is_read);
    if (is_read) {
        assert(checked == count && count <= n / 4 * 3);
        buf_init(&out, n + 1);
        buf_put_base64(&out, bytes, count);
        assert(out.len == n && (n == 0 || memcmp(out.data, s, n) == 0));
        buf_deinit(&out);
    }
    free(bytes);
}

static void read_networks(const char *text)
{
    struct cidr_list list;
    const char *bad = NULL;
    size_t bad_bytes = 0;

    if (cidr_list_parse(text, &list, &bad, &bad_bytes) == ERR_OK)
        cidr_list_deinit(&list);
    else
        assert(bad >= text && bad + bad_bytes <= text + strlen(text));
}

static void read_secrets(const char *text)
{
    struct signature_secrets secrets;
    size_t bad = 0;

    if (signature_secrets_parse(text, &secrets, &bad) != ERR_OK)
        assert(bad > 0 && !secrets.items);
    for (size_t i = 0; i < secrets.count; i++)
        assert(secrets.items[i].key_bytes >= 24 && secrets.items[i].key_bytes <= 64);
    (void)signature_verify(&secrets, text, "id", "1", "", 0);
    signature_secrets_deinit(&secrets);
}

/* Text without well-formed UTF-8 becomes a JSON string that has it. */
static void write_json(const char *s, size_t n)
{
    struct buf out;

    buf_init(&out, 6 * n + 2);
    buf_put_json_lossy(&out, s, n);
    assert(buf_status(&out) == ERR_OK && parse_is_utf8(out.data, out.len));
    buf_deinit(&out);
}

/* What is kept of a trace is a trace of version 00. */
static void read_trace(const char *s, size_t n)
{
    char trace[TASK_TRACEPARENT_BYTES + 1], again[TASK_TRACEPARENT_BYTES + 1];

    if (!trace_read_parent(s, n, trace))
        return;
    assert(strlen(trace) == TASK_TRACEPARENT_BYTES && strncmp(trace, "00-", 3) == 0);
    assert(trace_read_parent(trace, TASK_TRACEPARENT_BYTES, again) && strcmp(trace, again) == 0);
}

/* Whatever a label holds, its sample is one line, and no quote in it is the label's end before that. */
static void write_label(const char *text)
{
    const struct exposition_label labels[] = {{"queue", text}, {NULL, NULL}};
    size_t quotes = 0;
    struct buf out;

    buf_init(&out, 2 * strlen(text) + 64);
    exposition_int(&out, "x", labels, 1);
    assert(buf_status(&out) == ERR_OK && strncmp(out.data, "x{queue=\"", 9) == 0);
    assert(out.len >= 5 && strcmp(out.data + out.len - 5, "\"} 1\n") == 0);
    assert(strchr(out.data, '\n') == out.data + out.len - 1);
    for (const char *p = out.data; *p; p++) {
        quotes += *p == '"';
        p += *p == '\\' && p[1] != '\0';
    }
    assert(quotes == 2);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *s = (const char *)data + 1;
    size_t n = size - 1;
    char *text = strndup(s, n);
    struct netaddr a;

    assert(text);
    switch ((unsigned char)(data[0] - '0') % 11) {
    case 0:
        read_integer(s, n);
        break;
    case 1:
        read_duration(s, n);
        break;
    case 2:
        read_time(s, n);
        break;
    case 3:
        read_http_date(s, n);
        break;
    case 4:
        read_base64(s, n);
        break;
    case 5:
        read_networks(text);
        break;
    case 6:
        read_secrets(text);
        break;
    case 7:
        if (netaddr_parse(s, n, &a))
            (void)netaddr_is_public(&a);
        break;
    case 8:
        write_json(s, n);
        break;
    case 9:
        read_trace(s, n);
        break;
    default:
        write_label(text);
        break;
    }
    free(text);
    return 0;
}
