#ifndef SUPPORT_WIRE_H
#define SUPPORT_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* HTTP by hand: what is sent is exactly what is written here, right or wrong. Everything has a deadline, and one that
 * passes fails the test. */

struct wire;

/* One answer; borrowed, valid until the next one is read. */
struct wire_answer {
    int status;
    char *head; /* with the status line, up to the empty line */
    char *body; /* NUL-terminated */
    size_t body_bytes;
    json_t *json; /* NULL when the body is not JSON */
};

struct wire *wire_dial(int port); /* 127.0.0.1 */
void wire_hang_up(struct wire **w);

/* Whether nobody listens there. */
bool wire_is_refused(int port);

void wire_puts(struct wire *w, const char *text);
void wire_printf(struct wire *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool wire_try_send(struct wire *w, const char *data, size_t n); /* false: the other end has gone */
void wire_half_close(struct wire *w);

/* Whether something has come that was not read yet. */
bool wire_has_answer(const struct wire *w);

/* The next answer. `has_body` is false for the answer to HEAD. */
const struct wire_answer *wire_read(struct wire *w, bool has_body);

/* Dial, send, read one answer; *w stays open for more. */
const struct wire_answer *wire_ask(int port, const char *request, struct wire **w);

/* Whether the other end closes within ms (scaled) without sending anything more. */
bool wire_is_closed(struct wire *w, int ms);

/* A header's value, trimmed, in a buffer of the answer; NULL when it is not there. */
const char *wire_header(struct wire *w, const char *name);

#endif
