#ifndef RECEIVE_OPTIONS_PRIV_H
#define RECEIVE_OPTIONS_PRIV_H

#include "base/err.h"
#include "task/signature.h"
#include <stdbool.h>

/* The flags of `duepost receive`. Strings are borrowed from argv and the environment. */
struct receive_options {
    const char *listen; /* as given, "127.0.0.1:9000" */
    char host[64];      /* its host without brackets */
    char port[8];       /* its port, digits */
    int status;         /* the answer's */
    bool is_quiet;
    struct signature_secrets secrets; /* owned */
};

/* Read the flags and the secrets. ERR_INVALID: each fault has been printed to stderr, a line each, no secret in it. */
enum err receive_options_read(int argc, char **argv, struct receive_options *out) NODISCARD;
void receive_options_deinit(struct receive_options *o);

#endif
