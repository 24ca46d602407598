#ifndef HTTP_HEAD_PRIV_H
#define HTTP_HEAD_PRIV_H

#include "base/err.h"
#include "task/task.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The head of a request: the headers this API looks at, and what is wrong with them. Pure decisions. All texts are
 * borrowed and live as long as the request. */

#define HEAD_BODY_CHUNKED (-1)

struct head {
    bool is_http_1_0;
    bool has_bad_name;          /* some header's name is no token */
    const char *content_length; /* NULL: absent; the last one when given twice */
    const char *transfer_encoding;
    const char *content_type;
    const char *content_encoding;
    const char *expect; /* "" when given twice; so is content_encoding */
    const char *authorization;
    const char *idempotency_key; /* its first idempotency_key_bytes are the value */
    size_t idempotency_key_bytes;
    const char *traceparent; /* "" when given twice */
    uint8_t host_count;      /* these count to two */
    uint8_t content_length_count;
    uint8_t transfer_encoding_count;
    uint8_t content_type_count;
    uint8_t authorization_count;
    uint8_t idempotency_key_count;
    int64_t body_bytes; /* by head_check_framing(): what is declared; HEAD_BODY_CHUNKED: not known before its end */
};

/* Look at one header line. */
void head_note(struct head *h, const char *name, const char *value);

/* Whether the body's end is beyond doubt and Host is there once: what differs between two parsers of one request is how
 * requests are smuggled. ERR_BAD_FRAMING with one sentence in *detail otherwise; sets body_bytes. */
enum err head_check_framing(struct head *h, const char **detail) NODISCARD;

enum head_access {
    HEAD_ACCESS_NONE = 0,
    HEAD_ACCESS_READ,
    HEAD_ACCESS_FULL,
    HEAD_ACCESS_COUNT /* number of levels, not one of them */
};

/* What `Authorization: Bearer T` opens: everything with one of `tokens` (NULL-terminated; NULL: no token is needed),
 * reading with one of `read_tokens` (the same; NULL: there is none). Takes the same time for every wrong token of one
 * length. */
enum head_access head_access(const struct head *h, const char *const *tokens, const char *const *read_tokens);

bool head_expects_continue(const struct head *h);
bool head_expects_something_else(const struct head *h);

/* Whether the body is declared as application/json, UTF-8, and not compressed. ERR_UNSUPPORTED_MEDIA_TYPE with one
 * sentence in *detail otherwise. */
enum err head_check_json(const struct head *h, const char **detail) NODISCARD;

/* Whether Idempotency-Key is absent or given once and 1 to HEAD_KEY_MAX printable ASCII characters. ERR_INVALID_HEADER
 * with half a sentence in *detail otherwise. */
#define HEAD_KEY_MAX 255
enum err head_check_idempotency_key(const struct head *h, const char **detail) NODISCARD;

/* The traceparent header in the form of its version 00 in `out`; false when there is none to keep: it is absent, given
 * twice or wrong, which is no fault. */
bool head_traceparent(const struct head *h, char out[TASK_TRACEPARENT_BYTES + 1]);

/* Whether the body is not compressed; the same. */
enum err head_check_encoding(const struct head *h, const char **detail) NODISCARD;

#endif
