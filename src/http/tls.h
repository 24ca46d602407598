#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TLS on the listener, by GnuTLS, which libmicrohttpd uses for it. Nothing older than TLS 1.2, and forward secrecy
 * only. */

#define TLS_PRIORITIES "SECURE128:-RSA:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"
#define TLS_DETAIL_SIZE 200

/* Whether a certificate (or a chain of them, the gateway's own first) and its private key, both as PEM text, can be
 * used. ERR_INVALID with the name of the setting that is wrong in *setting (static) and half a sentence in `detail`. */
enum err tls_check(const char *cert, const char *key, const char **setting, char detail[TLS_DETAIL_SIZE]) NODISCARD;

/* Send the last bytes of a connection of libmicrohttpd's, and say that they were the last; `session` is its
 * GNUTLS_SESSION. False when they did not go out at once. */
bool tls_send_last(void *session, const char *data, size_t n);

/* Ask on a connected socket with timeouts, and read the answer until its end, `size` - 1 bytes or the deadline; it is
 * NUL-terminated, and "" when there was none. The certificate is not verified: only for asking this machine's own
 * gateway something that is no secret. */
void tls_ask(int fd, const char *request, char *answer, size_t size, int64_t deadline_mono_ms);

#endif
