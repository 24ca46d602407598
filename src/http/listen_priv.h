#ifndef HTTP_LISTEN_PRIV_H
#define HTTP_LISTEN_PRIV_H

#include "base/err.h"
#include "http/server.h"

/* Bind and listen. Gives *fd, and where it listens in *bound. ERR_IO with one line in `detail`. */
enum err listen_open(const char *host, int port, int *fd, struct endpoint *bound,
                     char detail[SERVER_DETAIL_SIZE]) NODISCARD;

#endif
