#ifndef TASK_SIGNATURE_H
#define TASK_SIGNATURE_H

#include "base/buf.h"
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Webhook signatures by the Standard Webhooks specification (symmetric, `v1`), and digests. */

struct signature_secret {
    unsigned char key[64];
    size_t key_bytes; /* 24..64 */
};

struct signature_secrets {
    struct signature_secret *items;
    size_t count;
};

/* Secrets separated by commas or blanks (line ends included): "whsec_" + standard base64 of 24 to 64 bytes, with or
 * without padding. Gives out->items. ERR_INVALID with the 1-based position of the bad one in *bad; the text itself is
 * never shown. An empty text gives an empty list. */
enum err signature_secrets_parse(const char *text, struct signature_secrets *out, size_t *bad) NODISCARD;
void signature_secrets_deinit(struct signature_secrets *s); /* wipes the keys */

/* Append the value of `webhook-signature`: one "v1,<base64>" for each secret, separated by one blank. */
void signature_sign(struct buf *out, const struct signature_secrets *s, const char *id, int64_t timestamp_s,
                    const void *body, size_t body_bytes);

/* Whether `header` holds a right `v1` signature by any secret; compared in constant time. */
bool signature_verify(const struct signature_secrets *s, const char *header, const char *id, const char *timestamp,
                      const void *body, size_t body_bytes);

/* The first TASK_DIGEST_BYTES of SHA-256. */
void signature_digest(const void *data, size_t n, unsigned char out[16]);

/* Whether two secrets are equal, in time that depends on their lengths only. */
bool signature_equal(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

#endif
