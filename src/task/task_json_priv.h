#ifndef TASK_TASK_JSON_PRIV_H
#define TASK_TASK_JSON_PRIV_H

#include "task/scan_priv.h"
#include "task/task_json.h"

/* As task_json_parse(), of a value in text that is JSON for sure, and without a digest. */
enum err task_json_read(const struct scan_value *value, const struct task_json_opts *opts, struct faults *faults,
                        struct task **out) NODISCARD;

/* Take the digest of the request that asked for this task, when it has an id of the client's choice. */
void task_json_digest(struct task *t, const char *json, size_t n);

#endif
