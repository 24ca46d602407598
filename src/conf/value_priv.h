#ifndef CONF_VALUE_PRIV_H
#define CONF_VALUE_PRIV_H

#include "base/buf.h"
#include "base/err.h"
#include "conf/config.h"
#include "conf/option_priv.h"
#include <stdbool.h>
#include <stddef.h>

/* Values of settings: from text into the struct, and from the struct to what may be shown. */

/* Check `text` and put it into its field. ERR_INVALID: the field is as it was, and `why` got half a sentence that
 * follows the value, "is not an integer from 1 to 5". It never holds the value. */
enum err value_set(const struct option *o, struct config *c, const char *text, struct buf *why) NODISCARD;

/* Append the field's value as JSON, secrets as "***". */
void value_write_json(const struct option *o, const struct config *c, struct buf *out);

/* Append a given text as it may be shown in a fault: quoted, a password in a URL masked, a secret not at all. */
void value_show(const struct option *o, const char *text, struct buf *out);

/* Where a checked HOST:PORT is cut: *host_bytes from *host on, without brackets. ERR_INVALID as in value_set(). */
enum err value_split_listen(const char *text, const char **host, size_t *host_bytes, int *port,
                            struct buf *why) NODISCARD;

/* The next item of a list separated by commas or blanks (line ends included), NULL at its end; *at moves behind it. */
const char *value_next_item(const char **at, size_t *bytes);

#endif
