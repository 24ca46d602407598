#include "deliver/failure_priv.h"
#include "base/parse.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Why an attempt failed, in a few words for last_attempt.error.
 *
 * An answer tells its status, reason and the beginning of its body, cleaned: receivers send pages, broken UTF-8 and
 * terminal escapes. Without an answer the words are ours. libcurl's own text is used for TLS alone, where it names
 * the fault of the certificate: others of its texts quote the URL, whose query may be a secret. */

#define EXCERPT_SHOWN_BYTES 120
#define REASON_SHOWN_BYTES 60
#define INVALID_ANSWER "the answer is not valid HTTP"
#define CODE_TOO_LARGE 100 /* CURLE_TOO_LARGE, which not every version names */

/* A cursor over a fixed buffer; what does not fit is left out. */
struct text {
    char *out;
    size_t size;
    size_t len;
};

static void put(struct text *t, const char *s, size_t n)
{
    if (t->len + n + 1 > t->size)
        return;
    memcpy(t->out + t->len, s, n);
    t->len += n;
    t->out[t->len] = '\0';
}

static void put_words(struct text *t, const char *words)
{
    put(t, words, strlen(words));
}

/* Bytes of the UTF-8 character at `s`; 0 when it is none. */
static size_t utf8_bytes(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0];
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    return len <= n && parse_is_utf8(s, len) ? len : 0;
}

/* C0 and C1 control characters, DEL and blanks. */
static bool is_blank(const char *s, size_t char_bytes)
{
    unsigned char c = (unsigned char)s[0];

    if (char_bytes == 1)
        return c <= ' ' || c == 0x7f;
    return char_bytes == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
}

/* Append foreign text: a run of blanks and control characters becomes one blank, a byte that is not UTF-8 a '?'. */
static void put_clean(struct text *t, const char *s, size_t n, size_t max_bytes)
{
    size_t limit = t->len + max_bytes;
    bool is_gap = false;
    bool is_first = true;

    while (n > 0) {
        size_t len = utf8_bytes(s, n);
        size_t step = len > 0 ? len : 1;

        if (len > 0 && is_blank(s, len)) {
            is_gap = !is_first;
        } else {
            if (t->len + is_gap + step > limit)
                break;
            if (is_gap)
                put(t, " ", 1);
            put(t, len > 0 ? s : "?", step);
            is_gap = false;
            is_first = false;
        }
        s += step;
        n -= step;
    }
}

/* "503 Service Unavailable: try later" */
static void describe_answer(const struct answer *answer, struct text *t)
{
    char number[16];
    size_t before = 0;

    put(t, number, (size_t)snprintf(number, sizeof(number), "%d ", answer->status));
    before = t->len;
    put_clean(t, answer->reason, strlen(answer->reason), REASON_SHOWN_BYTES);
    if (t->len == before)
        t->out[--t->len] = '\0';
    if (answer->excerpt_bytes == 0)
        return;
    put(t, ": ", 2);
    before = t->len;
    put_clean(t, answer->excerpt, answer->excerpt_bytes, EXCERPT_SHOWN_BYTES);
    if (t->len == before)
        t->out[t->len -= 2] = '\0';
}

static enum task_error_kind describe_connect(const struct attempt *a, struct text *t)
{
    long os_errno = 0;

    (void)curl_easy_getinfo(a->easy, CURLINFO_OS_ERRNO, &os_errno);
    switch (os_errno) {
    case ECONNREFUSED:
        put_words(t, "connection refused");
        break;
    case ECONNRESET:
        put_words(t, "connection reset");
        return TASK_ERROR_RESET;
    case ETIMEDOUT:
        put_words(t, "connection timed out");
        break;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
        put_words(t, "no route to the host");
        break;
    default:
        put_words(t, "connection failed");
        break;
    }
    return TASK_ERROR_CONNECT;
}

/* What libcurl says of a transfer that brought no complete head, unless something else explains it better. */
static const struct transfer_fault {
    int code;
    enum task_error_kind kind;
    const char *words;
} transfer_faults[] = {
    {CURLE_OK, TASK_ERROR_RESET, "connection closed before an answer"},
    {CURLE_COULDNT_RESOLVE_HOST, TASK_ERROR_DNS, "name lookup failed"},
    {CURLE_SEND_ERROR, TASK_ERROR_RESET, "connection reset while sending"},
    {CURLE_RECV_ERROR, TASK_ERROR_RESET, "connection reset"},
    {CURLE_GOT_NOTHING, TASK_ERROR_RESET, "connection closed before an answer"},
    {CURLE_PARTIAL_FILE, TASK_ERROR_RESET, "connection closed before an answer"},
    {CURLE_HTTP2_STREAM, TASK_ERROR_RESET, "HTTP/2 stream reset"},
    {CURLE_HTTP2, TASK_ERROR_PROTOCOL, "HTTP/2 connection failed"},
    {CURLE_UNSUPPORTED_PROTOCOL, TASK_ERROR_PROTOCOL, INVALID_ANSWER},
    {CURLE_WEIRD_SERVER_REPLY, TASK_ERROR_PROTOCOL, INVALID_ANSWER},
    {CURLE_BAD_CONTENT_ENCODING, TASK_ERROR_PROTOCOL, INVALID_ANSWER},
    {CURLE_BAD_FUNCTION_ARGUMENT, TASK_ERROR_PROTOCOL, INVALID_ANSWER}, /* a header it cannot take apart */
    {CURLE_URL_MALFORMAT, TASK_ERROR_PROTOCOL, "the URL is not valid"},
    {CURLE_OUT_OF_MEMORY, TASK_ERROR_PROTOCOL, "out of memory"},
};

static enum task_error_kind describe_transfer(const struct attempt *a, struct text *t)
{
    if (a->answer.is_invalid) {
        put_words(t, INVALID_ANSWER);
        return TASK_ERROR_PROTOCOL;
    }
    if (a->code == CURLE_COULDNT_CONNECT)
        return describe_connect(a, t);
    for (size_t i = 0; i < sizeof(transfer_faults) / sizeof(transfer_faults[0]); i++) {
        if (transfer_faults[i].code == (int)a->code) {
            put_words(t, transfer_faults[i].words);
            return transfer_faults[i].kind;
        }
    }
    put_words(t, curl_easy_strerror(a->code));
    return TASK_ERROR_PROTOCOL;
}

static bool is_tls_failure(CURLcode code)
{
    switch ((int)code) {
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return true;
    default:
        return false;
    }
}

/* Refused before it was dialled, or found out on a connection used before. A name may have other addresses: once one
 * of them was dialled, what became of that is the reason. */
static bool is_blocked(const struct attempt *a)
{
    return a->blocked[0] != '\0' && (a->open_count == 0 || (a->code == CURLE_ABORTED_BY_CALLBACK && !a->was_resent));
}

static void describe_timeout(const struct attempt *a, struct text *t)
{
    const char *where = a->sent_mono_us != 0 ? "" : a->open_count > 0 ? " while connecting" : " in the name lookup";
    int n = snprintf(t->out, t->size, "timeout after %" PRId64 " ms%s", a->task->timeout_ms, where);

    t->len = n > 0 ? (size_t)n : 0;
}

/* By our limit, or by libcurl's on a single line: before it had an error of its own for that, it called it memory. */
static bool head_is_too_large(const struct attempt *a)
{
    return a->answer.head_bytes > WEBHOOK_HEAD_MAX ||
           (a->sent_mono_us != 0 && (a->code == CURLE_OUT_OF_MEMORY || (int)a->code == CODE_TOO_LARGE));
}

/* Without a complete head. Returns what kind of failure it was. */
static enum task_error_kind describe_silence(const struct attempt *a, struct text *t)
{
    if (a->local_reason != NULL) {
        put_words(t, a->local_reason);
        return TASK_ERROR_NONE;
    }
    if (is_blocked(a)) {
        put_words(t, "blocked: ");
        put_words(t, a->blocked);
        return TASK_ERROR_BLOCKED;
    }
    if (a->code == CURLE_OPERATION_TIMEDOUT) {
        describe_timeout(a, t);
        return TASK_ERROR_TIMEOUT;
    }
    if (a->was_resent) {
        put_words(t, "connection closed before an answer");
        return TASK_ERROR_RESET;
    }
    if (head_is_too_large(a)) {
        put_words(t, "the answer's head is over 64 KiB");
        return TASK_ERROR_PROTOCOL;
    }
    if (is_tls_failure(a->code)) {
        put_words(t, a->code == CURLE_PEER_FAILED_VERIFICATION ? "TLS: certificate refused: " : "TLS: ");
        put_clean(t, a->curl_error, strlen(a->curl_error), EXCERPT_SHOWN_BYTES);
        return TASK_ERROR_TLS;
    }
    return describe_transfer(a, t);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Some libraries below libcurl open descriptors too and do not say why they failed: try one. */
static bool descriptors_are_used_up(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd == -1)
        return is_shortage(errno);
    (void)close(fd);
    return false;
}

/* Whether it was ours: nothing was sent, and the reason is a shortage here. */
static bool is_local(const struct attempt *a)
{
    if (a->local_reason != NULL)
        return true;
    if (a->sent_mono_us != 0)
        return false;
    if (is_shortage(a->socket_errno) || a->code == CURLE_OUT_OF_MEMORY)
        return true;
    return (a->code == CURLE_COULDNT_RESOLVE_HOST || is_tls_failure(a->code)) && descriptors_are_used_up();
}

void failure_describe(const struct attempt *a, struct webhook_result *result)
{
    struct text t = {.out = result->error, .size = sizeof(result->error), .len = 0};

    if (result->status != 0) {
        describe_answer(&a->answer, &t);
        result->error_kind = TASK_ERROR_STATUS;
        return;
    }
    result->error_kind = describe_silence(a, &t);
    result->is_local_failure = is_local(a);
}
