#ifndef TASK_TARGET_H
#define TASK_TARGET_H

#include "base/netaddr.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which URLs a task may have. libcurl's URL parser decides, here and when dialling, so no second parser can
 * disagree about the host. */

#define TARGET_DETAIL_SIZE 160

/* Check a URL: http or https, ASCII without blanks and control characters, no user info, at most TASK_URL_MAX
 * bytes, a valid port, and no address literal (in any spelling: decimal, octal, hex, short) that is certainly
 * refused. True and *clean (gives; the URL without fragment, otherwise as given) when fine; false with one
 * sentence in `detail` otherwise. Names are not resolved: their addresses are checked when connected. */
bool target_check(const char *url, size_t n, const struct cidr_list *allow_net, char **clean,
                  char detail[TARGET_DETAIL_SIZE]);

/* Where a URL that target_check has found good leads: its destination. */
struct target_place {
    bool is_https;
    const char *host; /* borrowed from the URL: as it stands there, IPv6 in brackets; not NUL-terminated */
    size_t host_bytes;
    int port;
};
void target_place(const char *url, struct target_place *out);

/* As 64 bits, the same in any case of letters; never 0. That two hosts share them is as good as impossible. */
uint64_t target_host_hash(const struct target_place *p);
uint64_t target_place_hash(const struct target_place *p); /* of scheme, host and port */

/* "https://host:port" in lower case; gives, free(). */
char *target_place_name(const struct target_place *p);

#endif
