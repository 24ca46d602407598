#ifndef CONF_TEXTFILE_PRIV_H
#define CONF_TEXTFILE_PRIV_H

#include "base/buf.h"
#include "base/err.h"

/* Append the whole file to `out`, whose cap is the file's limit. ERR_INVALID: `why` got half a sentence that follows
 * the path, "does not exist"; `out` may then hold a part. Also refused: a NUL byte inside. */
enum err textfile_read(const char *path, struct buf *out, struct buf *why) NODISCARD;

#endif
