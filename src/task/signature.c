#include "task/signature.h"

#include "base/mem.h"
#include "base/parse.h"
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Standard Webhooks, symmetric scheme: base64(HMAC-SHA256(secret, id "." timestamp "." body)).
 *
 * The body is fed to the MAC in place, never copied, since it may be large and is signed again on every attempt. One
 * MAC object is fetched per signature and used for all secrets. OpenSSL fails here only when it has no memory or no
 * SHA-256; both are programming or deployment errors which abort rather than send an unsigned webhook. */

#define MAC_BYTES 32
#define MAC_BASE64_BYTES 44
#define SECRET_PREFIX "whsec_"
#define SECRET_BASE64_MAX 88 /* 64 bytes with padding */
#define KEY_MIN 24

static void require(bool is_done)
{
    if (!is_done) {
        (void)fputs("duepost: OpenSSL cannot compute SHA-256\n", stderr);
        abort();
    }
}

struct message {
    const char *id;
    const char *timestamp;
    const void *body;
    size_t body_bytes;
};

/* Keyed hashing that is set up once for several secrets. */
struct signer {
    EVP_MAC *mac;
    EVP_MAC_CTX *ctx;
};

static void signer_init(struct signer *signer)
{
    signer->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    signer->ctx = signer->mac ? EVP_MAC_CTX_new(signer->mac) : NULL;
    require(signer->ctx);
}

static void signer_deinit(struct signer *signer)
{
    EVP_MAC_CTX_free(signer->ctx);
    EVP_MAC_free(signer->mac);
}

static void update(struct signer *signer, const void *data, size_t n)
{
    if (n > 0)
        require(EVP_MAC_update(signer->ctx, data, n) == 1);
}

static void compute(struct signer *signer, const struct signature_secret *secret, const struct message *m,
                    unsigned char mac[MAC_BYTES])
{
    char digest_name[] = "SHA256"; /* OSSL_PARAM takes no const */
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest_name, 0),
                           OSSL_PARAM_construct_end()};
    size_t n = 0;

    require(EVP_MAC_init(signer->ctx, secret->key, secret->key_bytes, params) == 1);
    update(signer, m->id, strlen(m->id));
    update(signer, ".", 1);
    update(signer, m->timestamp, strlen(m->timestamp));
    update(signer, ".", 1);
    update(signer, m->body, m->body_bytes);
    require(EVP_MAC_final(signer->ctx, mac, &n, MAC_BYTES) == 1 && n == MAC_BYTES);
}

/* Read one secret; false when it is not one. */
static bool read_secret(const char *s, size_t n, struct signature_secret *out)
{
    size_t prefix = strlen(SECRET_PREFIX);
    char padded[SECRET_BASE64_MAX];
    bool is_read = false;

    if (n <= prefix || n - prefix > SECRET_BASE64_MAX || memcmp(s, SECRET_PREFIX, prefix) != 0)
        return false;
    n -= prefix;
    memcpy(padded, s + prefix, n);
    if (!memchr(padded, '=', n)) {
        while (n % 4 != 0 && n < SECRET_BASE64_MAX) /* the padding may be left out */
            padded[n++] = '=';
    }
    /* Checked for its size first: 88 characters without padding would be 66 bytes. */
    if (parse_base64(padded, n, NULL, &out->key_bytes) && out->key_bytes >= KEY_MIN &&
        out->key_bytes <= sizeof(out->key))
        is_read = parse_base64(padded, n, out->key, &out->key_bytes);
    OPENSSL_cleanse(padded, sizeof(padded));
    return is_read;
}

enum err signature_secrets_parse(const char *text, struct signature_secrets *out, size_t *bad)
{
    static const char separators[] = ", \t\r\n";
    struct signature_secrets list = {0};
    size_t capacity = 0;

    *out = list;
    *bad = 0;
    for (const char *s = text + strspn(text, separators); *s != '\0'; s += strspn(s, separators)) {
        size_t n = strcspn(s, separators);

        if (list.count == capacity) {
            /* Not realloc: it would leave the keys behind in the old memory. */
            struct signature_secrets larger = {.count = list.count};

            capacity = capacity > 0 ? 2 * capacity : 4;
            larger.items = xcalloc(capacity, sizeof(*larger.items));
            if (list.count > 0)
                memcpy(larger.items, list.items, list.count * sizeof(*list.items));
            signature_secrets_deinit(&list);
            list = larger;
        }
        if (!read_secret(s, n, &list.items[list.count])) {
            *bad = list.count + 1;
            list.count++; /* wiped with the rest */
            signature_secrets_deinit(&list);
            return ERR_INVALID;
        }
        list.count++;
        s += n;
    }
    *out = list;
    return ERR_OK;
}

void signature_secrets_deinit(struct signature_secrets *s)
{
    if (s->items)
        OPENSSL_cleanse(s->items, s->count * sizeof(*s->items));
    free(s->items);
    *s = (struct signature_secrets){0};
}

void signature_sign(struct buf *out, const struct signature_secrets *s, const char *id, int64_t timestamp_s,
                    const void *body, size_t body_bytes)
{
    char timestamp[24];
    struct message m = {.id = id, .timestamp = timestamp, .body = body, .body_bytes = body_bytes};
    struct signer signer;

    (void)snprintf(timestamp, sizeof(timestamp), "%" PRId64, timestamp_s);
    signer_init(&signer);
    for (size_t i = 0; i < s->count; i++) {
        unsigned char mac[MAC_BYTES];

        compute(&signer, &s->items[i], &m, mac);
        buf_puts(out, i > 0 ? " v1," : "v1,");
        buf_put_base64(out, mac, sizeof(mac));
    }
    signer_deinit(&signer);
}

/* Whether the header has an entry "v1," + `mac` in base64. Looks at every entry, whatever it found before. */
static bool has_entry(const char *header, const unsigned char mac[MAC_BYTES])
{
    bool is_found = false;

    for (const char *s = header + strspn(header, " "); *s != '\0'; s += strspn(s, " ")) {
        size_t n = strcspn(s, " ");
        unsigned char given[MAC_BYTES + 1]; /* 44 characters can say 33 bytes */
        size_t given_bytes = 0;

        if (n == strlen("v1,") + MAC_BASE64_BYTES && memcmp(s, "v1,", strlen("v1,")) == 0 &&
            parse_base64(s + strlen("v1,"), MAC_BASE64_BYTES, given, &given_bytes) && given_bytes == MAC_BYTES)
            is_found |= CRYPTO_memcmp(given, mac, MAC_BYTES) == 0;
        s += n;
    }
    return is_found;
}

bool signature_verify(const struct signature_secrets *s, const char *header, const char *id, const char *timestamp,
                      const void *body, size_t body_bytes)
{
    struct message m = {.id = id, .timestamp = timestamp, .body = body, .body_bytes = body_bytes};
    struct signer signer;
    bool is_right = false;

    signer_init(&signer);
    for (size_t i = 0; i < s->count; i++) {
        unsigned char mac[MAC_BYTES];

        compute(&signer, &s->items[i], &m, mac);
        is_right |= has_entry(header, mac);
    }
    signer_deinit(&signer);
    return is_right;
}

void signature_digest(const void *data, size_t n, unsigned char out[16])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;

    require(EVP_Digest(data, n, digest, &digest_bytes, EVP_sha256(), NULL) == 1 && digest_bytes >= 16);
    memcpy(out, digest, 16);
}

bool signature_equal(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a_bytes == b_bytes && CRYPTO_memcmp(a, b, a_bytes) == 0;
}
