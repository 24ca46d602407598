#include "http/tls.h"
#include "base/clock.h"
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

static gnutls_datum_t datum_of(const char *text)
{
    union {
        const char *in;
        unsigned char *out; /* GnuTLS only reads it */
    } bytes = {.in = text};

    return (gnutls_datum_t){.data = bytes.out, .size = (unsigned)strlen(text)};
}

static bool is_certificate(const gnutls_datum_t *pem)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned count = 0;

    if (gnutls_x509_crt_list_import2(&list, &count, pem, GNUTLS_X509_FMT_PEM, 0) < 0)
        return false;
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    return count > 0;
}

static bool is_private_key(const gnutls_datum_t *pem)
{
    gnutls_x509_privkey_t key = NULL;
    bool is_fine = gnutls_x509_privkey_init(&key) == 0 &&
                   gnutls_x509_privkey_import2(key, pem, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN) == 0;

    gnutls_x509_privkey_deinit(key);
    return is_fine;
}

static bool do_fit(const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
    gnutls_certificate_credentials_t both = NULL;
    bool is_fine = gnutls_certificate_allocate_credentials(&both) == 0 &&
                   gnutls_certificate_set_x509_key_mem2(both, cert, key, GNUTLS_X509_FMT_PEM, NULL, 0) >= 0;

    if (both)
        gnutls_certificate_free_credentials(both);
    return is_fine;
}

enum err tls_check(const char *cert, const char *key, const char **setting, char detail[TLS_DETAIL_SIZE])
{
    gnutls_datum_t cert_pem = datum_of(cert);
    gnutls_datum_t key_pem = datum_of(key);
    const char *why = NULL;

    *setting = "tls-cert";
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        why = "the libmicrohttpd of this system was built without TLS";
    } else if (!is_certificate(&cert_pem)) {
        why = "the file holds no certificate in PEM form";
    } else if (!is_private_key(&key_pem)) {
        *setting = "tls-key";
        why = "the file holds no private key in PEM form without a passphrase";
    } else if (!do_fit(&cert_pem, &key_pem)) {
        *setting = "tls-key";
        why = "the key does not belong to the first certificate of tls-cert";
    }
    (void)snprintf(detail, TLS_DETAIL_SIZE, "%s", why ? why : "");
    return why ? ERR_INVALID : ERR_OK;
}

bool tls_send_last(void *session, const char *data, size_t n)
{
    return gnutls_record_send(session, data, n) == (ssize_t)n && gnutls_bye(session, GNUTLS_SHUT_WR) == 0;
}

/* Whether a call is to be made again. On a socket with a timeout GNUTLS_E_AGAIN is either that timeout or a message of
 * TLS itself, so the clock decides. */
static bool is_to_be_repeated(ssize_t rc, int64_t deadline_mono_ms)
{
    return (rc == GNUTLS_E_INTERRUPTED || rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_WARNING_ALERT_RECEIVED) &&
           clock_mono_ms() < deadline_mono_ms;
}

static void exchange(gnutls_session_t session, const char *request, char *answer, size_t size, int64_t deadline_mono_ms)
{
    size_t len = 0;
    ssize_t n = 0;

    do
        n = gnutls_handshake(session);
    while (is_to_be_repeated(n, deadline_mono_ms));
    if (n != 0 || gnutls_record_send(session, request, strlen(request)) != (ssize_t)strlen(request))
        return;
    do {
        n = gnutls_record_recv(session, answer + len, size - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && len < size - 1) || is_to_be_repeated(n, deadline_mono_ms));
}

void tls_ask(int fd, const char *request, char *answer, size_t size, int64_t deadline_mono_ms)
{
    gnutls_session_t session = NULL;
    gnutls_certificate_credentials_t none = NULL;

    memset(answer, 0, size);
    if (gnutls_init(&session, GNUTLS_CLIENT) == 0 && gnutls_certificate_allocate_credentials(&none) == 0 &&
        gnutls_set_default_priority(session) == 0 &&
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, none) == 0) {
        gnutls_transport_set_int(session, fd);
        exchange(session, request, answer, size, deadline_mono_ms);
    }
    if (session)
        gnutls_deinit(session);
    if (none)
        gnutls_certificate_free_credentials(none);
}
