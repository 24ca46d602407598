#ifndef TASK_TASK_JSON_H
#define TASK_TASK_JSON_H

#include "base/buf.h"
#include "base/netaddr.h"
#include "task/fault.h"
#include "task/task.h"
#include "task/task_patch.h"

/* The JSON face of a task (DESIGN section 2). */

/* To be called once, before any thread exists: seeds the hash tables of the JSON library, which it would else do in
 * some thread, and makes its failed allocations known, so that they are ERR_NOMEM instead of a client's fault. */
void task_json_global_init(void);

struct task_json_opts {
    const struct cidr_list *allow_net; /* keeps: what is certainly refused is a fault at the edge already */
    enum task_durability durability;   /* of a task that says nothing of it */
};

/* Read the body of POST /tasks. Strict: unknown and duplicate members, wrong types, values out of range are
 * faults, all of them reported at once (up to FAULTS_MAX). `payload` is checked but kept byte for byte.
 *
 * Ownership: gives *out, without an id when the client sent none; NULL on error.
 * Errors:    ERR_INVALID_JSON (not JSON; one fault without pointer), ERR_INVALID (faults with pointers). */
enum err task_json_parse(const char *json, size_t n, const struct task_json_opts *opts, struct faults *faults,
                         struct task **out) NODISCARD;

/* Read the body of PATCH /tasks/{id}: the same members, the same faults. None is required, and what a task keeps for
 * life cannot be given. Initializes *out, also on error. */
enum err task_json_parse_patch(const char *json, size_t n, const struct task_json_opts *opts, struct faults *faults,
                               struct task_patch *out) NODISCARD;

/* The text of one task in a batch, borrowed from the body. */
#define TASK_JSON_BATCH_MAX 1000
struct task_json_item {
    const char *json;
    size_t bytes;
    enum err err; /* ERR_TOO_BIG, ERR_INVALID (nests too deep): found already */
};

/* Find the tasks in the body of POST /tasks/batch: {"tasks": [...]}. `items` has room for TASK_JSON_BATCH_MAX; one that
 * is larger than item_max_bytes is ERR_TOO_BIG. Errors as task_json_parse(), for the whole: what is wrong with one of
 * the tasks, if only it is JSON, task_json_parse_item() tells, which does for one what task_json_parse() does. */
enum err task_json_parse_batch(const char *json, size_t n, size_t item_max_bytes, struct faults *faults,
                               struct task_json_item *items, size_t *count) NODISCARD;
enum err task_json_parse_item(const struct task_json_item *item, const struct task_json_opts *opts,
                              struct faults *faults, struct task **out) NODISCARD;

/* How much of a task an answer shows. */
enum task_json_form {
    TASK_JSON_SUMMARY = 0, /* what every answer has */
    TASK_JSON_FULL,        /* GET /tasks/{id}: with headers (secrets masked) and body */
};

/* Append the task as a JSON object. */
void task_json_write(struct buf *out, const struct task *t, enum task_json_form form);

/* The answer to its creation: a summary that says whether what was asked for was reached. */
void task_json_write_created(struct buf *out, const struct task *t, bool is_durable);

#endif
