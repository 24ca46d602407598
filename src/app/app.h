#ifndef APP_APP_H
#define APP_APP_H

struct config;

/* The composition root: builds everything in order, runs until a signal ends it, stops it in reverse. */

/* To be called first in main, before any thread: blocks the signals that app_run takes from a descriptor, ignores
 * SIGPIPE and SIGHUP, and initialises the libraries that must be before threads exist. */
void app_init(void);

/* Run the gateway. Returns the exit code: 0 after a signal, 1 when it could not start, 78 for a wrong setting. */
int app_run(const struct config *c);

#endif
