#include "task/headers_priv.h"

#include "base/mem.h"
#include <string.h>
#include <strings.h>

/* The headers a client may add to its webhook. What frames the message or belongs to one connection is refused, and
 * so is what Duepost itself says. Limits keep a request to the receiver within what servers commonly take.
 *
 * Names are compared in pairs, which is bounded: past HEADERS_MAX one fault is added and reading ends. */

#define HEADERS_MAX 100
#define HEADER_BYTES_MAX 8192
#define HEADERS_TOTAL_MAX 32768

static const char *const refused_names[] = {
    "host", "content-length", "transfer-encoding", "te", "trailer", "connection", "keep-alive", "upgrade", "expect",
};
static const char *const refused_prefixes[] = {"proxy-", "webhook-", "duepost-"};
static const char *const secret_names[] = {"authorization", "proxy-authorization", "cookie"};
static const char *const secret_words[] = {"auth", "token", "key", "secret", "password", "signature"};

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

/* `token` of RFC 9110 section 5.6.2. */
static bool is_token(const char *s, size_t n)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!is_word && (c == '\0' || !strchr(marks, c)))
            return false;
    }
    return n > 0;
}

/* `field-value` of RFC 9110 section 5.5: no control characters but tabs inside. */
static bool is_field_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(refused_names); i++) {
        if (strcasecmp(name, refused_names[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < COUNT_OF(refused_prefixes); i++) {
        if (strncasecmp(name, refused_prefixes[i], strlen(refused_prefixes[i])) == 0)
            return true;
    }
    return false;
}

bool headers_is_secret(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(secret_names); i++) {
        if (strcasecmp(name, secret_names[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < COUNT_OF(secret_words); i++) {
        if (strcasestr(name, secret_words[i]))
            return true;
    }
    return false;
}

/* Adds a fault when a header of this name cannot be. The task's headers so far are those it must differ from. */
static void check_name(const struct member *m, const struct task *t, const char *name)
{
    if (is_refused(name))
        faults_add(m->ctx->faults, m->pointer, "cannot be set: Duepost or the connection decides it");
    for (size_t i = 0; i < t->header_count; i++) {
        if (strcasecmp(t->headers[i].name, name) == 0) {
            bool is_same = strcmp(t->headers[i].name, name) == 0;

            faults_add(m->ctx->faults, m->pointer, "%s",
                       is_same ? "is given more than once" : "differs only in case from another header");
            return;
        }
    }
}

/* Gives a copy of the value; NULL after a fault. */
static char *read_value(const struct member *m, size_t name_bytes)
{
    const char *s = NULL;
    size_t n = 0;

    if (!member_string(m, &s, &n))
        return NULL;
    if (name_bytes + n > HEADER_BYTES_MAX)
        faults_add(m->ctx->faults, m->pointer, "must be at most %d bytes with its name", HEADER_BYTES_MAX);
    else if (!is_field_value(s, n))
        faults_add(m->ctx->faults, m->pointer, "must not hold control characters");
    else if (n > 0 && (is_blank(s[0]) || is_blank(s[n - 1])))
        faults_add(m->ctx->faults, m->pointer, "must not begin or end with a blank");
    else
        return xstrndup(s, n);
    return NULL;
}

/* Add one header. A faulty one is kept too, so that the following names are compared with it: a task with faults is
 * thrown away in the end. */
static void read_header(const struct member *m, const char *name, size_t name_bytes, struct task *t)
{
    struct task_header header = {0};

    if (!is_token(name, name_bytes) || name_bytes > HEADER_BYTES_MAX) {
        faults_add(m->ctx->faults, m->pointer, "must have a token of at most %d bytes as its name", HEADER_BYTES_MAX);
        return;
    }
    header.name = xstrndup(name, name_bytes);
    check_name(m, t, header.name);
    header.value = read_value(m, name_bytes);
    t->headers[t->header_count++] = header;
}

static void check_total(const struct member *m, const struct task *t)
{
    size_t total = 0;

    for (size_t i = 0; i < t->header_count; i++)
        total += strlen(t->headers[i].name) + (t->headers[i].value ? strlen(t->headers[i].value) : 0);
    if (total > HEADERS_TOTAL_MAX)
        faults_add(m->ctx->faults, m->pointer, "must be at most %d bytes in all", HEADERS_TOTAL_MAX);
}

void headers_read(const struct member *m, struct task *t)
{
    char pointer[MEMBER_POINTER_SIZE];
    struct member inner = {.ctx = m->ctx, .pointer = pointer};
    struct scan_value name;
    struct scan scan;
    size_t count = 0;

    if (!member_is_object(m))
        return;
    scan_begin(&scan, &m->value);
    while (scan_next_member(&scan, &name, &inner.value)) {
        const char *s = NULL;
        size_t n = 0;

        if (++count > HEADERS_MAX) {
            faults_add(m->ctx->faults, m->pointer, "must hold at most %d headers", HEADERS_MAX);
            break;
        }
        if (!t->headers)
            t->headers = xcalloc(HEADERS_MAX, sizeof(*t->headers));
        if (scan_string(&name, m->ctx->scratch, &s, &n) != ERR_OK) {
            m->ctx->err = ERR_NOMEM;
            return;
        }
        (void)fault_pointer(pointer, sizeof(pointer), m->pointer, s, n);
        read_header(&inner, s, n, t);
    }
    check_total(m, t);
}
