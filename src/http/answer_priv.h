#ifndef HTTP_ANSWER_PRIV_H
#define HTTP_ANSWER_PRIV_H

#include "http/request_priv.h"
#include <microhttpd.h>
#include <stdint.h>

/* How a reply leaves. Threads: the server's. */

/* By libmicrohttpd, which takes one before the body (and ends the connection after it) or after all of it. MHD_NO when
 * it takes none: the connection ends. */
enum MHD_Result answer_queue(struct request *r);

/* On the socket, past libmicrohttpd, which then only reads and drops what still comes: in the middle of a body, or of a
 * head that it has no room for. The connection ends; connections_sweep() sees to it when the client does not. MHD_NO
 * when the answer did not go out whole. */
enum MHD_Result answer_on_socket(struct request *r, int64_t now_mono_ms);

#endif
