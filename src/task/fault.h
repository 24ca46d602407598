#ifndef TASK_FAULT_H
#define TASK_FAULT_H

#include "base/buf.h"
#include <stddef.h>

/* What is wrong with a request: a list of {pointer, detail}, at most FAULTS_MAX, the rest counted. */

#define FAULTS_MAX 100

struct fault {
    char *pointer; /* JSON Pointer (RFC 6901), already escaped: "" is the whole body */
    char *detail;  /* one sentence, valid UTF-8 */
};

struct faults {
    struct fault *items;
    size_t count;   /* listed */
    size_t dropped; /* beyond FAULTS_MAX */
};

void faults_init(struct faults *f);
void faults_deinit(struct faults *f);

/* Copies both. Bytes that are not UTF-8 are replaced. */
void faults_add(struct faults *f, const char *pointer, const char *detail_fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Append one reference token to a pointer prefix in `out` (cap `size`, cut with "..." when too long): '~' and '/'
 * are escaped, bytes that are not UTF-8 replaced. Returns `out`. E.g. ("/headers", "a/b") gives "/headers/a~1b". */
char *fault_pointer(char *out, size_t size, const char *prefix, const char *token, size_t token_bytes);

#endif
