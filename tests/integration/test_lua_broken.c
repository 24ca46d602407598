#include "../support/lua_ends.h"
#include "../support/lua_fixture.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What somebody has broken by hand harms at most the queue or the task it belongs to: every script still does its work
 * for the others. */

static struct lua_fixture *lua;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    lua_fixture_destroy(&lua);
}

TestSuite(lua_broken, .init = set_up, .fini = tear_down, .timeout = 120);

#define KEY(name) "duepost{0}" name

/* Claim an entry, whatever its record holds; whether it was given out. */
static bool take(const struct lua_entry *e)
{
    struct call *c = lua_begin(lua, SCRIPT_CLAIM);

    call_add_record_key(c, lua_keys(lua), e->id);
    call_begin_args(c, lua_keys(lua));
    call_add_str(c, "0");
    call_add_str(c, e->lease.entry_id);
    call_add_int(c, e->lease.generation);
    redisReply *r = lua_send(lua);
    bool is_ours = r->elements == 2 && r->element[1]->type == REDIS_REPLY_STRING;

    freeReplyObject(r);
    return is_ours;
}

/* A task of another queue goes its way, through every script on it. */
static void expect_a_whole_life(const char *id, const char *what)
{
    struct lua_entry e;
    int64_t next_us;

    lua_add(lua, id, "+0", "good");
    cr_expect_geq(lua_move(lua, 100, 100).moved, 1, "%s", what);
    size_t count;
    bool is_done = false;

    while ((count = lua_read(lua, "g/1", &e, 1)) > 0) {
        if (!take(&e))
            continue;
        if (strcmp(e.id, id) == 0)
            is_done = lua_settle(lua, &e, 'd', 0) == TASK_DELIVERED;
        else
            lua_make_idle(lua, &e, "g/1", 60000); /* as a gateway that cannot read it: recovery is next */
    }
    cr_expect(is_done, "%s: the other task is not delivered", what);
    (void)lua_expire(lua, 100, &next_us);
    (void)lua_recover(lua, "g", 15000);
    (void)lua_sweep(lua, 60000, 1000, 100);
    (void)lua_orphans(lua, 15000, false);
    (void)lua_mend(lua, 100);
    struct store_stats *s = lua_stats(lua);

    cr_expect_not_null(s, "%s", what);
    store_stats_destroy(&s);
}

Test(lua_broken, settings_that_cannot_be_read_hold_nobody)
{
    static const char *const texts[] = {
        "x",
        "0",
        "0 0",
        "0 0 ",
        "0 0 x {}",
        "0 0 nan {}",
        "0 0 -nan {}",
        "0 0 inf {}",
        "0 0 -1 {}",
        "0 0 1e308 {}",
        "0 0 1e-308 {}",
        "2 0 0 {}",
        "9 9 9 9",
        "-1 0 0 {}",
        "0 -1 0 {}",
        "0 x 0 {}",
        "0 0 0x {}",
        "0 0 0 ",
        "\n",
        "0 99999999999999999999999999 0 {}",
    };
    char id[32];

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        (void)snprintf(id, sizeof(id), "bad-%zu", i);
        redisReply *r = redis_fixture_command(lua_redis(lua), "HSET " KEY(":settings") " bad %s", texts[i]);
        freeReplyObject(r);
        lua_add(lua, id, "+0", "bad");
        (void)snprintf(id, sizeof(id), "good-%zu", i);
        expect_a_whole_life(id, texts[i]);
        cr_expect_eq(lua_queue_do(lua, "read", "bad", NULL), 2, "%s", texts[i]);
        cr_expect_eq(lua_queue_do(lua, "pause", "bad", NULL), 2, "%s", texts[i]);
        cr_expect_eq(lua_queue_do(lua, "put", "bad", "0 0 5 {}"), 2, "%s", texts[i]);
        cr_expect_eq(lua_queue_do(lua, "put", "bad", "0 0 0 {}"), 2, "%s", texts[i]);
        expect_a_whole_life(texts[i][0] == 'x' ? "again-x" : id + 1, texts[i]);
    }
    lua_check(lua);
}

Test(lua_broken, a_bucket_that_is_no_time_holds_nobody_for_long)
{
    static const char *const values[] = {"x", "", "nan", "inf", "-inf", "-5", "1e300", "99999999999999999999", "0x"};
    char id[32];

    cr_assert_eq(lua_queue_do(lua, "put", "bad", "0 0 50 {}"), 3);
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        redisReply *r = redis_fixture_command(lua_redis(lua), "HSET " KEY(":rates") " bad %s", values[i]);
        freeReplyObject(r);
        (void)snprintf(id, sizeof(id), "bad-%zu", i);
        lua_add(lua, id, "+0", "bad");
        (void)snprintf(id, sizeof(id), "good-%zu", i);
        expect_a_whole_life(id, values[i]);
        /* As long as an empty bucket takes at most: a tenth of a second, and a token. */
        struct lua_moved m = lua_move(lua, 100, 100);
        cr_expect_leq(m.next_us, 200000, "%s: %lld", values[i], (long long)m.next_us);
        cr_expect_eq(lua_queue_do(lua, "put", "bad", "0 0 51 {}"), 2, "%s", values[i]);
        cr_expect_eq(lua_queue_do(lua, "put", "bad", "0 0 50 {}"), 2, "%s", values[i]);
    }
}

Test(lua_broken, a_count_of_changes_that_is_none_is_zero_and_can_change)
{
    static const char *const counts[] = {"", "x", "-1", "1.5", "9223372036854775807", "12345678901234567890123456"};
    char id[32];

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        redisReply *r = redis_fixture_command(lua_redis(lua), "HSET " KEY(":settings") " : %s", counts[i]);
        freeReplyObject(r);
        if (strtoll(counts[i], NULL, 10) == 0) { /* else the fixture reads more into it */
            (void)snprintf(id, sizeof(id), "good-%zu", i);
            expect_a_whole_life(id, counts[i]);
        }
        cr_expect_leq(lua_queue_do(lua, "put", "mail", "0 0 0 {\"timeout\":1000}"), 3, "%s", counts[i]);
        cr_expect_leq(lua_queue_do(lua, "put", "mail", "0 0 0 {}"), 3, "%s", counts[i]);
        int64_t count = lua_counter(lua, "settings", ":");
        cr_expect(count > 0 && count < 3, "%s: %lld", counts[i], (long long)count);
    }
}

Test(lua_broken, something_else_in_a_lanes_place_goes)
{
    static const char *const keys[] = {KEY(":q:bad"), KEY(":dead:bad")};
    char id[32];

    for (size_t i = 0; i < 2; i++) {
        redis_fixture_run(lua_redis(lua), "SET %s x", keys[i]);
        redis_fixture_run(lua_redis(lua), "ZADD " KEY(":lanes") " 0 bad");
        struct store_stats *s = lua_stats(lua);
        store_stats_destroy(&s);
        (void)snprintf(id, sizeof(id), "good-%zu", i);
        expect_a_whole_life(id, keys[i]);
        struct lua_entry e;
        redis_fixture_run(lua_redis(lua), "SET %s x", keys[i]);
        (void)snprintf(id, sizeof(id), "bad-%zu", i);
        lua_add(lua, id, "+0", "bad");
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
        redis_fixture_run(lua_redis(lua), "DEL %s", keys[i]);
        redis_fixture_run(lua_redis(lua), "SET %s x", keys[i]);
        cr_expect_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED, "%s", keys[i]);
        cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
        cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
        cr_assert_eq(lua_claim(lua, &e, 1), 1);
        cr_expect_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD, "%s", keys[i]);
    }
    (void)lua_mend(lua, 100);
    lua_check(lua);
}

/* Each record cut at each length, under a task that is due, and one that has expired. */
/* What was changed already when a call meets it must not stay half done. */
Test(lua_broken, something_else_in_a_containers_place_leaves_no_task_half_done)
{
    static const char *const containers[] = {"delivered", "totals", "out", "busy", "queues"};

    for (size_t i = 0; i < sizeof(containers) / sizeof(*containers); i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "t%zu", i);
        struct lua_entry e = lua_start(lua, id, "mail", "g/1");
        redis_fixture_run(lua_redis(lua), "DEL " KEY(":%s"), containers[i]);
        redis_fixture_run(lua_redis(lua), "SET " KEY(":%s") " x", containers[i]);
        cr_expect_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED, "%s", containers[i]);
        cr_expect_eq(lua_state(lua, id), TASK_DELIVERED, "%s", containers[i]);
        cr_expect_geq(redis_fixture_integer(lua_redis(lua), "ZRANK " KEY(":delivered") " %s", id), 0, "%s",
                      containers[i]);
        cr_expect_eq(lua_counter(lua, "out", "mail"), 0, "%s", containers[i]);
        cr_expect_eq(lua_counter(lua, "busy", "mail"), 0, "%s", containers[i]);
    }
}

Test(lua_broken, a_record_that_was_cut_stops_nobody)
{
    char id[32];

    for (int keep = 0; keep < 60; keep++) {
        (void)snprintf(id, sizeof(id), "cut-%d", keep);
        lua_add_ending(lua, &(struct lua_ending){.id = id,
                                                 .due = "+0",
                                                 .queue = "bad",
                                                 .expires_in_ms = keep % 2 ? 100000 : -5,
                                                 .on_success = "http://receiver/s",
                                                 .on_failure = "http://receiver/f"});
        redisReply *r = redis_fixture_command(lua_redis(lua), "GETRANGE " KEY("%s") " 0 %d", id, keep);
        redisReply *set = redis_fixture_command(lua_redis(lua), "SET " KEY("%s") " %b", id, r->str, (size_t)r->len);
        freeReplyObject(set);
        freeReplyObject(r);
        lua_cancel(lua, keep % 5 == 0 ? id : "none");
        (void)snprintf(id, sizeof(id), "good-%d", keep);
        expect_a_whole_life(id, "cut");
    }
}

/* Any head before a queue's name. */
Test(lua_broken, a_head_of_any_bytes_stops_nobody)
{
    unsigned char record[40];
    char id[32];

    for (int i = 0; i < 400; i++) {
        (void)snprintf(id, sizeof(id), "odd-%d", i);
        lua_add(lua, id, "+0", "bad");
        for (size_t b = 0; b < sizeof(record); b++)
            record[b] = (unsigned char)((unsigned)(i + 1) * 2654435761u >> (b % 24));
        record[0] = (unsigned char)(16 + i % 8);
        record[18] = 0;
        record[19] = (unsigned char)(i % 25);
        redisReply *set =
            redis_fixture_command(lua_redis(lua), "SET " KEY("%s") " %b", id, record, sizeof(record) - (size_t)i % 21);
        freeReplyObject(set);
        lua_cancel(lua, i % 3 == 0 ? id : "none");
    }
    expect_a_whole_life("good-1", "odd");
    expect_a_whole_life("good-2", "odd");
}
