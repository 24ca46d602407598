#ifndef STORE_FAULT_PRIV_H
#define STORE_FAULT_PRIV_H

/* What kind of trouble an error reply of Redis tells of (DESIGN section 5, "Redis errors are values"). */

enum fault_kind {
    FAULT_NO_SCRIPT = 0, /* the script cache was emptied: load and repeat */
    FAULT_NO_GROUP,      /* the Stream or its group was deleted: make it and repeat */
    FAULT_WRONG_TYPE,    /* somebody put something else in a container's place, or in a task's */
    FAULT_REPLICA,       /* this server takes no writes any more: connect anew */
    FAULT_NOT_NOW,       /* loading, busy, out of memory, disk full, ...: later */
    FAULT_OTHER,
};

/* `text` as Redis sent it. Inside a script the code may stand behind words that Redis puts before it. */
enum fault_kind fault_of(const char *text);

#endif
