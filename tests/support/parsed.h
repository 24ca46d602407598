#ifndef TESTS_SUPPORT_PARSED_H
#define TESTS_SUPPORT_PARSED_H

#include "task/task_json.h"

/* A request body as task_json_parse() understood it, with 127.0.0.0/8 and ::1 allowed. In the texts of the tests
 * single quotes stand for double quotes; parsed_from_bytes() takes a body as it is. */
struct parsed {
    enum err err;
    struct faults faults;
    struct task *task; /* NULL on error */
    char *pointers;    /* those of the faults in their order, with a blank between two; "-" for the empty one */
};

void parsed_from_bytes(struct parsed *p, const void *json, size_t n);
void parsed_from_quoted(struct parsed *p, const char *json);

/* A body with this text as further members beside a good url: ",'delay':5". */
void parsed_with(struct parsed *p, const char *more_members);

void parsed_deinit(struct parsed *p);

#endif
