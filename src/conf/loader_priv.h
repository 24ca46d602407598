#ifndef CONF_LOADER_PRIV_H
#define CONF_LOADER_PRIV_H

#include "base/buf.h"
#include "conf/config.h"
#include "conf/option_priv.h"
#include <stdbool.h>

/* One run of config_load(): what has been read so far. Every fault goes through here, so that all look alike:
 * WHERE: VALUE REASON, for example `DUEPOST_THREADS: "many" is not an integer from 1 to 256`. */
struct loader {
    struct config *config;
    struct buf *faults;
    bool is_given[OPTION_COUNT];         /* some source named it, be its value right or wrong */
    const char *flags[OPTION_COUNT];     /* borrowed from argv; NULL: not there */
    const char *variables[OPTION_COUNT]; /* borrowed from the environment; NULL: not there */
};

/* Append one line to the faults. */
void loader_fault(struct loader *l, const char *where, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Set a field from a text that stood at `where`, or report why not. */
void loader_set(struct loader *l, size_t index, const char *text, const char *where);

/* The members of the file named by --config or DUEPOST_CONFIG. */
void loader_read_file(struct loader *l, const char *path);

/* What follows from several settings together: secrets out of files, lists taken apart, rules across settings. To
 * be called when all sources are in. */
void loader_resolve(struct loader *l);

#endif
