#ifndef SUPPORT_HTTP_FIXTURE_H
#define SUPPORT_HTTP_FIXTURE_H

#include "http/server.h"
#include "store_fake.h"
#include "wire.h"

/* The real HTTP server over a store in memory, for tests that ask it by hand. One at a time in a process. */

#define HTTP_MAX_BODY 4096
#define HOST "Host: test\r\n"
#define JSON "Content-Type: application/json\r\n"
#define TASK "{\"url\":\"http://127.0.0.1:9000/hook\",\"delay\":\"1h\"}" /* 49 bytes */
#define ASK(METHOD, TARGET) METHOD " " TARGET " HTTP/1.1\r\n" HOST "\r\n"
#define POST(HEADERS, BODY) "POST /tasks HTTP/1.1\r\n" HOST HEADERS "\r\n" BODY
#define POST_TASK POST(JSON "Content-Length: 49\r\n", TASK)
#define GET_HEALTH ASK("GET", "/healthz")

/* For .init and .fini of a suite: the store before every test, and its end and the server's after it. */
void http_set_up(void);
void http_tear_down(void);

struct store *http_store(void);

/* The options most tests use: a small limit for bodies, no tokens. */
struct server_opts http_opts(void);

/* Start it; the port. */
int http_start(const struct server_opts *opts);
int http_start_plain(void);
void http_stop(int64_t deadline_mono_ms); /* server_stop() */

/* What the server's write_unready() appends from now on; static. */
void http_set_unready(const char *reasons);

/* One request on a connection of its own; the status. */
int http_ask(int port, const char *request);

/* A string member of an answer; "(none)" when it is not there. */
const char *http_text(const struct wire_answer *a, const char *name);

/* Check the shape that every problem has, and this one's status and code. */
void http_expect_problem(struct wire *w, const struct wire_answer *a, int status, const char *code);

#endif
