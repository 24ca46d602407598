#include "task/syntax_priv.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

/* jansson reports most failed allocations as wrong syntax, so they are noted here. Its hooks have no context argument;
 * a request is parsed by one thread, which makes the note the thread's. */
static _Thread_local bool is_memory_out;

static void *noting_malloc(size_t n)
{
    void *p = malloc(n);

    if (!p)
        is_memory_out = true;
    return p;
}

void syntax_global_init(void)
{
    json_set_alloc_funcs(noting_malloc, free);
    json_object_seed(0);
}

enum err syntax_check(const char *json, size_t n, struct faults *faults)
{
    /* Integers are read as doubles so that any number of digits passes; the scanner keeps the digits themselves. */
    size_t flags = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    json_error_t error;

    is_memory_out = false;
    json_t *tree = json_loadb(n > 0 ? json : "", n, flags, &error);

    if (tree) {
        json_decref(tree);
        return ERR_OK;
    }
    if (is_memory_out || json_error_code(&error) == json_error_out_of_memory)
        return ERR_NOMEM;
    if (json_error_code(&error) == json_error_stack_overflow) {
        faults_add(faults, "", "must not nest more than %d levels", SYNTAX_NESTING_MAX);
        return ERR_INVALID;
    }
    faults_add(faults, "", "%s (line %d, column %d)", error.text, error.line, error.column);
    return ERR_INVALID_JSON;
}
