#include "store/batch_priv.h"
#include "store/guard_priv.h"
#include "store/stats_priv.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes as Redis's answer to each kind of call: hiredis' parser with its guard, then the readers of the store. The
 * first byte, a digit in the seeds, chooses the kind, the second one for how many operations. Whatever came, each
 * operation has an error or what its kind promises. An operation may have been given up by its owner meanwhile. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define OPS_MAX 4

static void begin_op(struct store_op *op, enum store_kind kind, bool was_sent)
{
    *op = (struct store_op){.kind = kind, .id = "id", .err = ERR_INTERNAL, .was_sent = was_sent};
    if (kind != STORE_CREATE && kind != STORE_SETTLE)
        return;
    op->task = task_create();
    op->task->id = strdup("id");
    op->task->url = strdup("http://receiver.example/");
    assert(op->task->id && op->task->url);
}

static void check_task(const struct task *t)
{
    assert(t->id && t->url && t->queue && t->state < TASK_STATE_COUNT);
}

static void check_op(const struct store_op *op)
{
    switch (op->kind) {
    case STORE_CREATE:
        if (op->err == ERR_ID_CONFLICT || op->err == ERR_KEY_CONFLICT || (op->err == ERR_OK && op->is_repeat))
            assert(op->existing || op->gone_id);
        break;
    case STORE_GET:
        assert((op->err == ERR_OK) == (op->task != NULL));
        break;
    case STORE_CANCEL:
        assert(op->err != ERR_OK || op->state == TASK_CANCELLED || (op->state == TASK_DELIVERING && op->task));
        break;
    case STORE_STATS:
        assert((op->err == ERR_OK) == (op->stats != NULL));
        break;
    case STORE_SETTLE:
    case STORE_RENEW:
    case STORE_PROBE:
    case STORE_KIND_COUNT:
        break;
    }
    assert(op->state < TASK_STATE_COUNT);
    if (op->existing)
        check_task(op->existing);
    if (op->task)
        check_task(op->task);
}

static void end_op(struct store_op *op)
{
    task_destroy(&op->task);
    task_destroy(&op->existing);
    free(op->gone_id);
    store_stats_destroy(&op->stats);
}

static void read_reply(enum store_kind kind, unsigned choice, const redisReply *reply)
{
    struct store_op ops[OPS_MAX];
    struct store_op *list[OPS_MAX];
    bool is_single = kind == STORE_RENEW || kind == STORE_STATS || kind == STORE_PROBE;
    size_t count = is_single ? 1 : 1 + choice % OPS_MAX;
    int64_t earliest_ms = 0;

    for (size_t i = 0; i < count; i++) {
        begin_op(&ops[i], kind, (choice & 8) != 0);
        list[i] = (choice & 16) != 0 && i == 0 ? NULL : &ops[i];
    }
    enum err err = batch_read(kind, list, count, reply, &earliest_ms);

    for (size_t i = 0; i < count; i++) {
        if (err == ERR_OK && list[i])
            check_op(&ops[i]);
        end_op(&ops[i]);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const int outstanding = 1;
    redisReader *reader = redisReaderCreate();
    struct guard guard;
    void *reply = NULL;

    assert(reader);
    guard_install(&guard, reader, false, &outstanding);
    if (size < 2 || redisReaderFeed(reader, (const char *)data + 2, size - 2) != REDIS_OK)
        goto out;
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        enum store_kind kind = (unsigned char)(data[0] - '0') % STORE_KIND_COUNT;

        read_reply(kind, (unsigned char)(data[1] - '0'), reply);
        freeReplyObject(reply);
        reply = NULL;
    }
out:
    redisReaderFree(reader);
    return 0;
}
