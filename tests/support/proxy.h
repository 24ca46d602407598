#ifndef SUPPORT_PROXY_H
#define SUPPORT_PROXY_H

/* Stands between a gateway and its Redis, on a unix socket of its own, and passes everything on, until some of its
 * connections fall silent: what the server says is swallowed, and neither side learns of it, as when a link dies
 * without a FIN. Connections made later are not affected. */

struct proxy;

enum proxy_kind {
    PROXY_WAKE = 1,  /* has sent SUBSCRIBE */
    PROXY_READER = 2 /* has sent XREADGROUP */
};

struct proxy *proxy_create(const char *target_socket);
void proxy_destroy(struct proxy **p);
const char *proxy_url(const struct proxy *p); /* "unix:///..." */

/* Silence the connections of this kind; how many there were. */
int proxy_silence(struct proxy *p, enum proxy_kind kind);

#endif
