#ifndef RECEIVE_RECEIVE_H
#define RECEIVE_RECEIVE_H

/* `duepost receive`: a small receiver for trying things out. It answers every request and prints what came: id,
 * attempt, lateness, whether the signature is right, and the body.
 *
 * `argv` is what follows the subcommand. SIGINT and SIGTERM end it; they are blocked here before the first thread.
 * Returns the exit code: 0 after a signal, 1 when it cannot listen, 78 for a wrong flag or secret. */
int receive_main(int argc, char **argv);

#endif
