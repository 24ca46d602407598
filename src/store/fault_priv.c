#include "store/fault_priv.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Some codes are words that a message could hold by chance, so those count only where a code stands. */
static const struct {
    const char *code;
    bool is_anywhere;
    enum fault_kind kind;
} CODES[] = {
    {"NOSCRIPT", false, FAULT_NO_SCRIPT},  {"NOGROUP", true, FAULT_NO_GROUP}, {"UNBLOCKED", false, FAULT_NO_GROUP},
    {"READONLY", true, FAULT_REPLICA},     {"LOADING", true, FAULT_NOT_NOW},  {"MASTERDOWN", true, FAULT_NOT_NOW},
    {"CLUSTERDOWN", true, FAULT_NOT_NOW},  {"TRYAGAIN", true, FAULT_NOT_NOW}, {"NOREPLICAS", true, FAULT_NOT_NOW},
    {"MISCONF", true, FAULT_NOT_NOW},      {"BUSY ", true, FAULT_NOT_NOW},    {"OOM", true, FAULT_NOT_NOW},
    {"WRONGTYPE", true, FAULT_WRONG_TYPE},
};

enum fault_kind fault_of(const char *text)
{
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        const char *at = strstr(text, CODES[i].code);
        if (at == text || (at && CODES[i].is_anywhere))
            return CODES[i].kind;
    }
    return FAULT_OTHER;
}
