#ifndef SUPPORT_CLIENT_H
#define SUPPORT_CLIENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A small HTTP client for one base URL, over one kept connection. */

struct client;

/* An answer; borrowed, valid until the client is destroyed. */
struct reply {
    int status; /* 0: no answer came */
    char *body; /* NUL-terminated */
    size_t body_bytes;
    json_t *json;    /* NULL when the body is not JSON */
    json_t *headers; /* an object: names in lower case -> value */
    long duration_ms;
};

struct client_request {
    const char *method;
    const char *path;
    const char *body;           /* NULL: none */
    const char *content_type;   /* NULL: application/json when there is a body */
    const char *const *headers; /* "Name: value", NULL ends; may be NULL */
};

struct client *client_create(const char *base_url);
void client_destroy(struct client **c);

/* Every later request carries `Authorization: Bearer token`; NULL: none. */
void client_set_token(struct client *c, const char *token);

/* Later requests to an https:// URL believe this certificate (a PEM file) only. */
void client_set_ca(struct client *c, const char *path);

struct reply *client_request(struct client *c, const struct client_request *request);
struct reply *client_get(struct client *c, const char *path);
struct reply *client_delete(struct client *c, const char *path);
struct reply *client_post(struct client *c, const char *path, const char *body);

/* POST /tasks with a body built by printf, and the same for the path of GET and DELETE. */
struct reply *client_post_task(struct client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct reply *client_get_task(struct client *c, const char *id);
struct reply *client_delete_task(struct client *c, const char *id);

/* ms in which `requests` one after the other are surely done, by the time that a few take now: 3 s at least. */
int64_t client_time_for(struct client *c, int requests);

/* A header's value by its lower-case name; NULL when it is not there. */
const char *reply_header(const struct reply *r, const char *name);

/* The answer is a whole problem+json with this status and code. */
void reply_expect_problem(const struct reply *r, int status, const char *code);

#endif
