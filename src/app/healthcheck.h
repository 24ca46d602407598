#ifndef APP_HEALTHCHECK_H
#define APP_HEALTHCHECK_H

#include <stdbool.h>

/* `duepost healthcheck`: ask GET /readyz of the gateway on this host. Returns the exit code: 0 when it is ready, else 1
 * with one line on stderr. `host` is what the gateway listens on; a wildcard address is asked on loopback. */
int healthcheck_run(const char *host, int port, bool is_tls);

#endif
