#ifndef SUPPORT_PROCFS_H
#define SUPPORT_PROCFS_H

#include <stdbool.h>
#include <sys/types.h>

/* What /proc says about a process that the test did not start itself, or about its sockets. */

/* The TCP port that the process listens on (the first found); 0: none yet. */
int procfs_listening_port(pid_t pid);

/* A child of the process; 0: none. */
pid_t procfs_child(pid_t pid);

/* Whether there is such a process and it has not ended (a zombie has). */
bool procfs_is_alive(pid_t pid);

#endif
