#ifndef SUPPORT_MANAGER_H
#define SUPPORT_MANAGER_H

#include <stdbool.h>

/* The service manager's end of sd_notify(3): a datagram socket, and what came in. */

struct manager;

/* Listen in a folder of its own; on an abstract socket instead when `is_abstract`. */
struct manager *manager_create(bool is_abstract);

/* Closes the socket and removes its folder. NULL-safe. */
void manager_destroy(struct manager **m);

/* What NOTIFY_SOCKET must be: a path, or @NAME. Borrowed. */
const char *manager_address(const struct manager *m);

/* The next datagram, "" when there is none. Valid until the next call. */
const char *manager_told(struct manager *m);

#endif
