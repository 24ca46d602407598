#include "http/answer_priv.h"
#include "http/connection_priv.h"
#include "http/tls.h"
#include <stdlib.h>
#include <sys/socket.h>

static struct MHD_Response *make_response(struct reply *reply)
{
    struct reply_header headers[REPLY_HEADERS_MAX];
    size_t count = reply_headers(reply, headers);
    size_t n = 0;
    char *body = buf_take(&reply->body, &n);
    struct MHD_Response *response = body ? MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE) : NULL;
    bool is_complete = response != NULL;

    if (!response)
        free(body);
    for (size_t i = 0; i < count && is_complete; i++)
        is_complete = MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    if (response && !is_complete) {
        MHD_destroy_response(response);
        response = NULL;
    }
    return response;
}

enum MHD_Result answer_queue(struct request *r)
{
    enum MHD_Result result = MHD_NO; /* closes the connection */
    struct MHD_Response *response = NULL;

    reply_finish(&r->reply);
    r->phase = REQUEST_ANSWERED;
    response = make_response(&r->reply);
    if (response) {
        result = MHD_queue_response(r->mhd, (unsigned)r->reply.status, response);
        MHD_destroy_response(response);
    }
    return result;
}

/* The socket's buffer is empty, so a text as short as a problem goes out whole; if not, the connection just ends. */
static bool send_last(const struct request *r, const char *data, size_t n)
{
    if (r->env->opts.tls_cert)
        return tls_send_last(MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session, data, n);
    return send(r->connection->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

enum MHD_Result answer_on_socket(struct request *r, int64_t now_mono_ms)
{
    enum MHD_Result result = MHD_NO;
    struct buf wire;

    buf_init(&wire, r->env->reply_max_bytes);
    request_drop_body(r);
    reply_finish(&r->reply);
    reply_put_wire(&r->reply, MHD_get_reason_phrase_for((unsigned)r->reply.status), &wire);
    r->phase = REQUEST_REFUSED;
    r->connection->refused_mono_ms = now_mono_ms;
    if (buf_status(&wire) == ERR_OK && send_last(r, wire.data, wire.len) && shutdown(r->connection->fd, SHUT_WR) == 0)
        result = MHD_YES;
    buf_deinit(&wire);
    return result;
}
