#ifndef HTTP_QUERY_PRIV_H
#define HTTP_QUERY_PRIV_H

#include "base/err.h"
#include "task/fault.h"
#include <stdbool.h>
#include <stddef.h>

/* The parameters of a query string: name=value pairs with '&' between them, percent-encoded (RFC 3986; a '+' stays a
 * plus). A pure reader. */

#define QUERY_VALUE_SIZE 256

struct query_parameter {
    const char *name;
    bool is_given;
    char value[QUERY_VALUE_SIZE]; /* decoded */
};

/* Read `query` (NULL: none) into the parameters of a call. Adds a fault for each that is unknown, given twice, too long
 * or badly encoded. */
void query_read(const char *query, struct query_parameter *parameters, size_t count, struct faults *faults);

/* Decode one percent-encoded character at *s and move on; -1 for a bad escape or a NUL. */
int query_decode_char(const char **s, const char *end);

#endif
