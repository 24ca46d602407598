#ifndef SUPPORT_REDIS_FIXTURE_H
#define SUPPORT_REDIS_FIXTURE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

/* A private redis-server on a unix socket in a folder of its own, no TCP port; ready in about 15 ms. */

struct redis_fixture;

/* Start one and wait until it answers. With `aof` every write is on disk before it is answered (appendfsync always),
 * so a kill loses nothing; without it nothing is kept. */
struct redis_fixture *redis_fixture_create(bool aof);

/* The same, but not started yet: redis_fixture_start() does that. */
struct redis_fixture *redis_fixture_create_stopped(bool aof);

/* The same in a folder of the caller's, which is emptied at the end. Its append-only file is written as `appendfsync`
 * says ("always", "everysec"). */
struct redis_fixture *redis_fixture_create_in(const char *dir, const char *appendfsync);

/* Kills the server and removes its folder. NULL-safe. */
void redis_fixture_destroy(struct redis_fixture **f);

/* More environment ("NAME=value", NULL ends) for later starts. Borrowed. */
void redis_fixture_set_env(struct redis_fixture *f, const char *const *env);

/* How long later starts take over each command of the append-only file; it answers LOADING meanwhile. */
void redis_fixture_load_slowly(struct redis_fixture *f, int delay_us);

void redis_fixture_start(struct redis_fixture *f);
void redis_fixture_launch(struct redis_fixture *f); /* the same, but does not wait: it may end again */
void redis_fixture_kill(struct redis_fixture *f);   /* SIGKILL, waits for its end */
void redis_fixture_pause(struct redis_fixture *f);  /* SIGSTOP */
void redis_fixture_resume(struct redis_fixture *f); /* SIGCONT */
pid_t redis_fixture_pid(const struct redis_fixture *f);

const char *redis_fixture_socket(const struct redis_fixture *f); /* the path */
const char *redis_fixture_url(const struct redis_fixture *f);    /* "unix:///..." */

/* Let it listen on a free TCP port of 127.0.0.1 too, from now on; the port. Not kept over a restart. */
int redis_fixture_open_port(struct redis_fixture *f);

/* The test's own connection, made anew after a restart. Borrowed. */
redisContext *redis_fixture_connection(struct redis_fixture *f);

/* Run a command (hiredis format); gives the reply, freeReplyObject(). An error reply fails the test. */
redisReply *redis_fixture_command(struct redis_fixture *f, const char *format, ...);

/* The same for a command that answers with an integer. */
long long redis_fixture_integer(struct redis_fixture *f, const char *format, ...);

/* The same for a command whose answer does not matter, except that it is no error. */
void redis_fixture_run(struct redis_fixture *f, const char *format, ...);

/* One number of INFO, for instance "total_commands_processed". Fails the test when there is none. */
long long redis_fixture_info(struct redis_fixture *f, const char *field);

#endif
