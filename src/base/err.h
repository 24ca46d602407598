#ifndef BASE_ERR_H
#define BASE_ERR_H

/* The one error enum of the program.
 *
 * Each value carries the `code` and HTTP status that a client sees when the error leaves through the API
 * (DESIGN section 2, RFC 9457), so a new error is one line here and nowhere else. */

#define ERR_MAP(X)                                                                                         \
    X(ERR_OK, "ok", 200, "OK")                                                                             \
    X(ERR_INVALID, "invalid_request", 400, "The request is not valid")                                     \
    X(ERR_INVALID_JSON, "invalid_json", 400, "The body is not valid JSON")                                 \
    X(ERR_INVALID_QUERY, "invalid_query", 400, "The query string is not valid")                            \
    X(ERR_INVALID_HEADER, "invalid_header", 400, "A header of the request is not valid")                   \
    X(ERR_BAD_FRAMING, "bad_framing", 400, "The request's framing headers are not valid")                  \
    X(ERR_UNAUTHORIZED, "unauthorized", 401, "A valid bearer token is needed")                             \
    X(ERR_FORBIDDEN, "forbidden", 403, "This token may only read")                                         \
    X(ERR_NOT_FOUND, "not_found", 404, "There is nothing at this path")                                    \
    X(ERR_TASK_NOT_FOUND, "task_not_found", 404, "There is no such task")                                  \
    X(ERR_QUEUE_NOT_FOUND, "queue_not_found", 404, "There is no such queue")                               \
    X(ERR_METHOD_NOT_ALLOWED, "method_not_allowed", 405, "This path does not have that method")            \
    X(ERR_ID_CONFLICT, "id_conflict", 409, "This id belongs to a task made by another request")            \
    X(ERR_KEY_CONFLICT, "idempotency_key_conflict", 409, "This Idempotency-Key came with another request") \
    X(ERR_STATE_CONFLICT, "state_conflict", 409, "The task's state does not allow this")                   \
    X(ERR_QUEUE_NOT_EMPTY, "queue_not_empty", 409, "The queue has pending tasks")                          \
    X(ERR_TOO_BIG, "body_too_large", 413, "The body is over the limit")                                    \
    X(ERR_TARGET_TOO_LONG, "target_too_long", 414, "The request target is over the limit")                 \
    X(ERR_UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", 415, "The body must be application/json")      \
    X(ERR_EXPECTATION_FAILED, "expectation_failed", 417, "Only 100-continue can be expected")              \
    X(ERR_HEAD_TOO_LARGE, "head_too_large", 431, "The request's headers are over the limit")               \
    X(ERR_INTERNAL, "internal", 500, "Something went wrong in the gateway")                                \
    X(ERR_NOMEM, "out_of_memory", 503, "The gateway is out of memory")                                     \
    X(ERR_IO, "io", 500, "Something went wrong in the gateway")                                            \
    X(ERR_UNAVAILABLE, "store_unavailable", 503, "The store cannot be reached or does not take writes")    \
    X(ERR_TOO_MANY_PENDING, "too_many_pending", 503, "The limit of pending tasks is reached")              \
    X(ERR_TOO_MANY_CONNECTIONS, "too_many_connections", 503, "The connection limit is reached")            \
    X(ERR_SHUTTING_DOWN, "shutting_down", 503, "The gateway is shutting down")

enum err {
#define X(name, code, status, title) name,
    ERR_MAP(X)
#undef X
        ERR_COUNT /* number of errors, not one of them */
};

#define NODISCARD __attribute__((warn_unused_result))

/* The stable snake_case code, e.g. "state_conflict". Static string; "unknown" out of range. */
const char *err_code(enum err err);

/* The HTTP status of this error, e.g. 409. */
int err_status(enum err err);

/* One plain sentence for people. Static string. */
const char *err_title(enum err err);

#endif
