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

/* An operation and what its kind borrows. */
struct part {
    struct store_op op;
    struct store_list list;
    struct store_place places[2];
    struct store_glance glance;
    struct store_queue queue;
    struct store_sweep sweep;
};

static struct task *new_task(void)
{
    struct task *t = task_create();

    t->id = strdup("id");
    t->url = strdup("http://receiver.example/");
    assert(t->id && t->url);
    return t;
}

static void begin_part(struct part *p, enum store_kind kind, unsigned choice)
{
    struct store_op *op = &p->op;

    memset(p, 0, sizeof(*p));
    *op = (struct store_op){.kind = kind, .id = "id", .err = ERR_INTERNAL};
    op->was_sent = op->was_repeated = (choice & 8) != 0;
    op->wants_spec = (choice & 2) != 0;
    if (kind == STORE_CREATE || kind == STORE_SETTLE || kind == STORE_PATCH)
        op->task = new_task();
    p->list = (struct store_list){.limit = STORE_LIST_MAX, .queue_cursor = "0"};
    p->glance = (struct store_glance){.places = p->places, .count = 2};
    p->queue = (struct store_queue){.action = choice & 2 ? STORE_QUEUE_DELETE : STORE_QUEUE_READ, .name = "mail"};
    p->sweep = (struct store_sweep){.queue = "mail", .limit = 100};
    op->list = &p->list;
    op->glance = &p->glance;
    op->queue = &p->queue;
    op->sweep = &p->sweep;
}

static void check_task(const struct task *t)
{
    assert(t->id && t->url && t->queue && t->state < TASK_STATE_COUNT);
}

static void check_place(const struct store_place *p)
{
    assert(memchr(p->score, 0, sizeof(p->score)) && memchr(p->id, 0, sizeof(p->id)));
}

static void check_list(const struct store_list *l)
{
    assert(memchr(l->queue_cursor, 0, sizeof(l->queue_cursor)) && l->found_count <= STORE_LIST_MAX);
    check_place(&l->last);
    for (size_t i = 0; i < l->found_count; i++)
        check_place(&l->found[i]);
}

static void check_op(const struct store_op *op)
{
    switch (op->kind) {
    case STORE_CREATE:
        if (op->err == ERR_ID_CONFLICT || op->err == ERR_KEY_CONFLICT || (op->err == ERR_OK && op->is_repeat))
            assert(op->existing || op->gone_id);
        break;
    case STORE_GET:
        assert((op->err == ERR_OK) == (op->task != NULL) &&
               (op->err == ERR_OK && op->wants_spec) == (op->spec != NULL));
        break;
    case STORE_RUN:
    case STORE_REDRIVE:
        assert((op->err == ERR_OK) == (op->task != NULL));
        break;
    case STORE_PATCH:
        assert((op->err == ERR_OK) == (op->existing != NULL) && (op->err == ERR_STATE_CONFLICT || !op->is_stale));
        break;
    case STORE_CANCEL:
        assert(op->err != ERR_OK || op->state == TASK_CANCELLED || (op->state == TASK_DELIVERING && op->task));
        break;
    case STORE_STATS:
        assert((op->err == ERR_OK) == (op->stats != NULL));
        break;
    case STORE_LIST:
        assert(op->err == ERR_OK);
        check_list(op->list);
        break;
    case STORE_QUEUE:
        assert(op->err != ERR_OK || op->queue->found || op->queue->action == STORE_QUEUE_DELETE);
        assert(!op->queue->found || op->queue->found->name);
        break;
    case STORE_PURGE:
        assert(memchr(op->sweep->cursor, 0, sizeof(op->sweep->cursor)));
        assert(op->sweep->is_done == (op->err != ERR_OK || op->sweep->cursor[0] == '\0'));
        break;
    case STORE_REDRIVE_QUEUE:
        assert(op->err == ERR_OK || op->sweep->is_done);
        break;
    case STORE_GLANCE:
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

static void end_part(struct part *p)
{
    task_destroy(&p->op.task);
    task_destroy(&p->op.existing);
    free(p->op.gone_id);
    free(p->op.spec);
    store_stats_destroy(&p->op.stats);
    free(p->list.found);
    for (size_t i = 0; i < STORE_GLANCE_MAX; i++)
        task_destroy(&p->glance.tasks[i]);
    store_queue_stats_destroy(&p->queue.found);
}

static void read_reply(enum store_kind kind, unsigned choice, const redisReply *reply)
{
    struct part parts[OPS_MAX];
    struct store_op *list[OPS_MAX];
    size_t count = batch_max(kind) == 1 ? 1 : 1 + choice % OPS_MAX;
    int64_t earliest_ms = 0;

    for (size_t i = 0; i < count; i++) {
        begin_part(&parts[i], kind, choice);
        list[i] = (choice & 16) != 0 && i == 0 ? NULL : &parts[i].op;
    }
    enum err err = batch_read(kind, list, count, reply, &earliest_ms);

    for (size_t i = 0; i < count; i++) {
        if (err == ERR_OK && list[i])
            check_op(list[i]);
        end_part(&parts[i]);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const int outstanding = 1;
    redisReader *reader = redisReaderCreate();
    struct guard guard = {.refusal = NULL};
    void *reply = NULL;

    assert(reader);
    guard_install(&guard, reader, false, &outstanding);
    if (size < 2 || redisReaderFeed(reader, (const char *)data + 2, size - 2) != REDIS_OK)
        goto out;
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        enum store_kind kind = (unsigned char)(data[0] - '0') % STORE_KIND_COUNT;

        read_reply(kind, (unsigned char)(data[1] - '0'), reply);
        guard.functions.freeObject(reply);
        reply = NULL;
    }
out:
    redisReaderFree(reader);
    guard_deinit(&guard);
    return 0;
}
