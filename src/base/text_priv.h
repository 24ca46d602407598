#ifndef BASE_TEXT_PRIV_H
#define BASE_TEXT_PRIV_H

#include <stddef.h>

/* Characters of UTF-8 and their JSON escapes: shared by buf, log and parse. Threads: any. */

/* Length (1..4) of the well-formed UTF-8 sequence that begins at `s`; 0 when it is ill-formed or cut by `n`. */
size_t text_utf8_length(const char *s, size_t n);

#define TEXT_ESCAPE_SIZE 6

/* The JSON form of the character at `s` (n >= 1) into `out`: itself, an escape, or \ufffd for a byte that is no
 * UTF-8. Returns the bytes written (1..TEXT_ESCAPE_SIZE); *used is the number of bytes read (1..4). */
size_t text_escape(const char *s, size_t n, char out[TEXT_ESCAPE_SIZE], size_t *used);

#endif
