#ifndef BASE_EMBEDDED_H
#define BASE_EMBEDDED_H

#include <stddef.h>

/* Files of the tree that are inside the binary; written by lua/embed.sh at build time. */

struct embedded_script {
    const char *name; /* "create" for lua/create.lua; NULL ends the table */
    const char *text; /* with what it needs of lua/common.lua in front */
    size_t bytes;
};

extern const struct embedded_script embedded_scripts[];
extern const char embedded_openapi[]; /* api/openapi.yaml */
extern const size_t embedded_openapi_bytes;

#endif
