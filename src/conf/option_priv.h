#ifndef CONF_OPTION_PRIV_H
#define CONF_OPTION_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The table of settings: everything that is known about one stands in its row. */

enum option_kind {
    OPTION_TEXT = 0,  /* char *: any text that is not empty, often a path */
    OPTION_LISTEN,    /* char *: HOST:PORT */
    OPTION_REDIS,     /* char *: a Redis URL or "embedded" */
    OPTION_SECRETS,   /* char *: one or more secrets */
    OPTION_NETWORKS,  /* char *: CIDRs, may be empty */
    OPTION_PREFIX,    /* char *: the beginning of every key */
    OPTION_INT,       /* int64_t */
    OPTION_DURATION,  /* int64_t, milliseconds */
    OPTION_CHOICE,    /* int: the position in `choices` */
    OPTION_BOOL,      /* bool */
    OPTION_KIND_COUNT /* number of kinds, not one of them */
};

enum option_flags {
    OPTION_NO_FLAG = 1,   /* a secret: never in argv, where every user of the machine can read it */
    OPTION_NO_MEMBER = 2, /* cannot stand in the file */
};

struct option {
    const char *key; /* "max-body": the flag is --max-body, the variable DUEPOST_MAX_BODY */
    enum option_kind kind;
    unsigned flags;
    size_t offset;        /* of its field in struct config */
    const char *fallback; /* the default; NULL: none */
    const char *shown;    /* how the default is called when `fallback` is NULL */
    int64_t min, max;     /* of OPTION_INT and OPTION_DURATION */
    const char *choices;  /* of OPTION_CHOICE, separated by blanks */
    const char *help;
};

#define OPTION_COUNT ((size_t)35)
#define OPTION_NONE OPTION_COUNT /* the index of no option */

/* The row at `index` (below OPTION_COUNT). */
const struct option *option_at(size_t index);

/* The index of the setting with this key (n bytes), or OPTION_NONE. */
size_t option_find(const char *key, size_t n);

/* The index of the setting with this variable ("DUEPOST_MAX_BODY", n bytes), or OPTION_NONE. */
size_t option_find_env(const char *name, size_t n);

/* "DUEPOST_MAX_BODY" for "max-body". */
#define OPTION_ENV_SIZE 48
void option_env_name(const struct option *o, char out[OPTION_ENV_SIZE]);

#endif
