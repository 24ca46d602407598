#include "base/mem.h"
#include "store/batch_priv.h"
#include "store/fault_priv.h"
#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replies that no script gives, written in Redis' protocol: another version's, a proxy's, a damaged one. They are
 * refused whole, before the first operation is touched. */

#define COUNT 2

static struct store_op ops[COUNT];
static struct store_op *list[COUNT] = {&ops[0], &ops[1]};
static redisReply *reply;

static void set_up(void)
{
    for (int i = 0; i < COUNT; i++) {
        memset(&ops[i], 0, sizeof(ops[i]));
        ops[i].err = ERR_COUNT; /* untouched */
        ops[i].id = "an-id";
    }
}

static void tear_down(void)
{
    if (reply)
        freeReplyObject(reply);
    reply = NULL;
}

TestSuite(store_replies, .init = set_up, .fini = tear_down);

static void read_protocol(const char *text)
{
    redisReader *reader = redisReaderCreate();

    tear_down();
    cr_assert_eq(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, (void **)&reply), REDIS_OK, "%s", reader->errstr);
    cr_assert_not_null(reply, "not a whole reply: %s", text);
    redisReaderFree(reader);
}

static const struct {
    enum store_kind kind;
    size_t count;
    const char *text;
} odd[] = {
    {STORE_CREATE, 2, "+OK\r\n"},
    {STORE_CREATE, 2, "$-1\r\n"},
    {STORE_CREATE, 2, "*0\r\n"},
    {STORE_CREATE, 2, "*2\r\n:1\r\n:2\r\n"},
    {STORE_CREATE, 2, "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n"},
    {STORE_CREATE, 2, "*3\r\n$1\r\n1\r\n:2\r\n:3\r\n"},
    {STORE_CREATE, 2, "*3\r\n:1\r\n:2\r\n$-1\r\n"},
    {STORE_GET, 2, "*1\r\n$-1\r\n"},
    {STORE_GET, 2, ":1\r\n"},
    {STORE_CANCEL, 2, "*1\r\n*2\r\n:0\r\n$-1\r\n"},
    {STORE_CANCEL, 2, "*2\r\n*2\r\n:0\r\n$-1\r\n*1\r\n:0\r\n"},
    {STORE_CANCEL, 2, "*2\r\n*2\r\n:0\r\n$-1\r\n:0\r\n"},
    {STORE_CANCEL, 2, "*2\r\n*2\r\n:0\r\n$-1\r\n*2\r\n:7\r\n$-1\r\n"},
    {STORE_CANCEL, 2, "*2\r\n*2\r\n:0\r\n$-1\r\n*2\r\n:-2\r\n$-1\r\n"},
    {STORE_CANCEL, 2, "*2\r\n*2\r\n:0\r\n$-1\r\n*2\r\n:2\r\n$-1\r\n"},
    {STORE_SETTLE, 2, "*1\r\n:3\r\n"},
    {STORE_SETTLE, 2, "*2\r\n:3\r\n:9\r\n"},
    {STORE_SETTLE, 2, "*2\r\n:3\r\n:0\r\n"},
    {STORE_SETTLE, 2, "*2\r\n:3\r\n:-2\r\n"},
    {STORE_SETTLE, 2, "*2\r\n:3\r\n$1\r\n3\r\n"},
    {STORE_SETTLE, 2, "*2\r\n:3\r\n*2\r\n:3\r\n:0\r\n"},
    {STORE_SETTLE, 2, ":3\r\n"},
};

Test(store_replies, an_odd_reply_is_refused_and_sets_nothing)
{
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        int64_t due;
        read_protocol(odd[i].text);
        cr_expect_eq(batch_read(odd[i].kind, list, odd[i].count, reply, &due), ERR_INVALID, "%s", odd[i].text);
        for (int k = 0; k < COUNT; k++)
            cr_expect(ops[k].err == ERR_COUNT && !ops[k].task, "%s set something", odd[i].text);
    }
}

static const char *const odd_stats[] = {
    "+OK\r\n",
    "*0\r\n",
    "*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:-1\r\n:0\r\n*0\r\n*4\r\n:0\r\n:0\r\n:-1\r\n:0\r\n",
    "*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n$1\r\n1\r\n*0\r\n*0\r\n*4\r\n:0\r\n:0\r\n:-1\r\n:0\r\n",
    "*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:-1\r\n*0\r\n:0\r\n*4\r\n:0\r\n:0\r\n:-1\r\n:0\r\n",
    "*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:-1\r\n*0\r\n*0\r\n*3\r\n:0\r\n:0\r\n:-1\r\n",
    "*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:-1\r\n*0\r\n*1\r\n*2\r\n$1\r\nq\r\n:1\r\n*4\r\n:0\r\n:0\r\n:-1\r\n:0\r\n",
    ("*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:-1\r\n*0\r\n*1\r\n*8\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"
     "*4\r\n:0\r\n:0\r\n:-1\r\n:0\r\n"),
};

Test(store_replies, odd_statistics_are_refused)
{
    for (size_t i = 0; i < sizeof(odd_stats) / sizeof(*odd_stats); i++) {
        int64_t due;
        read_protocol(odd_stats[i]);
        cr_expect_eq(batch_read(STORE_STATS, list, 1, reply, &due), ERR_INVALID, "%zu", i);
        cr_expect_null(ops[0].stats);
    }
}

Test(store_replies, unknown_totals_and_odd_ones_are_passed_over)
{
    int64_t due;

    read_protocol("*8\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:-1\r\n"
                  "*7\r\n$7\r\ncreated\r\n$1\r\n5\r\n$6\r\nfuture\r\n$1\r\n6\r\n$4\r\ndead\r\n$1\r\nx\r\n$4\r\nodd.\r\n"
                  "*0\r\n*4\r\n:0\r\n:0\r\n:-1\r\n:0\r\n");
    cr_assert_eq(batch_read(STORE_STATS, list, 1, reply, &due), ERR_OK);
    cr_expect_eq(ops[0].stats->created, 5);
    cr_expect_eq(ops[0].stats->dead, 0);
    store_stats_destroy(&ops[0].stats);
}

/* Answered already: what their answer brings is still right for the others, and the mover hears of what was scheduled.
 */
Test(store_replies, operations_that_gave_up_waiting_are_passed_over)
{
    struct store_op *only_second[COUNT] = {NULL, &ops[1]};
    int64_t due;

    ops[1].task = task_create();
    read_protocol("*3\r\n:1000\r\n:5000\r\n:7000\r\n");
    cr_assert_eq(batch_read(STORE_CREATE, only_second, COUNT, reply, &due), ERR_OK);
    cr_expect_eq(due, 5000);
    cr_expect_eq(ops[1].err, ERR_OK);
    cr_expect_eq(ops[1].task->run_at_ms, 7000);
    task_destroy(&ops[1].task);
    read_protocol("*2\r\n:1700000004000\r\n:-1\r\n");
    cr_assert_eq(batch_read(STORE_SETTLE, only_second, COUNT, reply, &due), ERR_OK);
    cr_expect_eq(due, 1700000004000);
    cr_expect(ops[1].is_stale);
    read_protocol("*2\r\n$-1\r\n$-1\r\n");
    cr_assert_eq(batch_read(STORE_GET, only_second, COUNT, reply, &due), ERR_OK);
    cr_expect_eq(due, -1);
    cr_expect_eq(ops[1].err, ERR_TASK_NOT_FOUND);
    cr_expect_eq(ops[0].err, ERR_COUNT);
}

static const struct {
    const char *text;
    enum fault_kind kind;
} faults[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", FAULT_NO_SCRIPT},
    {"NOGROUP No such key 'duepost{0}:ready' or consumer group 'workers'", FAULT_NO_GROUP},
    {"ERR Error running script: NOGROUP No such key", FAULT_NO_GROUP},
    {"-NOGROUP the consumer group this client was blocked on no longer exists", FAULT_NO_GROUP},
    {"UNBLOCKED the stream key no longer exists", FAULT_NO_GROUP},
    {"READONLY You can't write against a read only replica.", FAULT_REPLICA},
    {"LOADING Redis is loading the dataset in memory", FAULT_NOT_NOW},
    {"BUSY Redis is busy running a script.", FAULT_NOT_NOW},
    {"OOM command not allowed when used memory > 'maxmemory'.", FAULT_NOT_NOW},
    {"MISCONF Redis is configured to save RDB snapshots", FAULT_NOT_NOW},
    {"MASTERDOWN Link with MASTER is down", FAULT_NOT_NOW},
    {"CLUSTERDOWN The cluster is down", FAULT_NOT_NOW},
    {"TRYAGAIN Multiple keys request during rehashing of slot", FAULT_NOT_NOW},
    {"NOREPLICAS Not enough good replicas to write.", FAULT_NOT_NOW},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", FAULT_WRONG_TYPE},
    {"BUSYGROUP Consumer Group name already exists", FAULT_OTHER},
    {"ERR unknown command", FAULT_OTHER},
    {"", FAULT_OTHER},
};

Test(store_replies, error_replies_are_told_apart_by_their_code)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        cr_expect_eq(fault_of(faults[i].text), faults[i].kind, "%s", faults[i].text);
}
