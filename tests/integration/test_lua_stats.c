#include "../support/lua_fixture.h"
#include "../support/wait.h"
#include "store/stats_priv.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* stats, and the small scripts: renew, probe, setup. */

#define AGE_MS 5000

static struct lua_fixture *lua;
static struct store_stats *stats;

static void set_up(void)
{
    lua = lua_fixture_create();
}

static void tear_down(void)
{
    store_stats_destroy(&stats);
    lua_fixture_destroy(&lua);
}

TestSuite(lua_stats, .init = set_up, .fini = tear_down);
TestSuite(lua_renew, .init = set_up, .fini = tear_down);
TestSuite(lua_setup, .init = set_up, .fini = tear_down);

static const struct store_queue_stats *queue_named(const char *name)
{
    for (size_t i = 0; i < stats->queue_count; i++)
        if (strcmp(stats->queues[i].name, name) == 0)
            return &stats->queues[i];
    cr_assert_fail("no queue %s", name);
    return NULL;
}

static void look(void)
{
    store_stats_destroy(&stats);
    stats = lua_stats(lua);
}

static void wait_past(int64_t ms)
{
    WAIT_UNTIL(lua_now_ms(lua) > ms, AGE_MS);
}

LUA_TEST(lua_stats, a_new_partition_has_nothing)
{
    look();
    cr_expect_leq(stats->now_ms, lua_now_ms(lua));
    cr_expect_eq(stats->next_due_in_ms, -1);
    cr_expect_eq(stats->queue_count, 0);
    cr_expect_eq(stats->all.ready, 0);
    cr_expect_eq(stats->all.delivering, 0);
    cr_expect_eq(stats->all.oldest_delivering_ms, -1);
    cr_expect_eq(stats->all.oldest_overdue_ms, -1);
    cr_expect_eq(stats->created, 0);
}

LUA_TEST(lua_stats, each_queue_is_counted_in_every_state)
{
    struct lua_entry e;

    lua_start(lua, "delivering", "mail", "g/1");
    e = lua_start(lua, "dies", "mail", "g/1");
    cr_assert_eq(lua_settle(lua, &e, 'x', 0), TASK_DEAD);
    lua_add(lua, "ready", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    lua_add(lua, "later", "+60000", "mail");
    int64_t due = lua_add(lua, "overdue", "+0", "sms");
    wait_past(due + 5);
    look();

    const struct store_queue_stats *mail = queue_named("mail"), *sms = queue_named("sms");
    cr_expect_eq(stats->queue_count, 2);
    cr_expect_str_eq(stats->queues[0].name, "mail", "by name");
    cr_expect_eq(mail->scheduled, 1);
    cr_expect_eq(mail->overdue, 0);
    cr_expect_eq(mail->oldest_overdue_ms, -1);
    cr_expect_eq(mail->ready, 1);
    cr_expect_eq(mail->delivering, 1);
    cr_expect_eq(mail->dead, 1);
    cr_expect_geq(mail->oldest_delivering_ms, 0);
    cr_expect_eq(sms->scheduled, 1);
    cr_expect_eq(sms->overdue, 1);
    cr_expect_geq(sms->oldest_overdue_ms, 5);
    cr_expect_eq(sms->ready, 0);
    cr_expect_eq(sms->delivering, 0);
    cr_expect_eq(sms->oldest_delivering_ms, -1);
    cr_expect_eq(sms->dead, 0);

    cr_expect_eq(stats->all.scheduled, 2);
    cr_expect_eq(stats->all.overdue, 1);
    cr_expect_eq(stats->all.oldest_overdue_ms, sms->oldest_overdue_ms);
    cr_expect_eq(stats->all.ready, 1);
    cr_expect_eq(stats->all.delivering, 1);
    cr_expect_eq(stats->all.oldest_delivering_ms, mail->oldest_delivering_ms);
    cr_expect_eq(stats->all.dead, 1);
    cr_expect_eq(stats->next_due_in_ms, 0);
    cr_expect_eq(stats->created, 5);
    cr_expect_eq(stats->attempts, 1);
    cr_expect_eq(stats->failed_attempts, 1);
    cr_expect_eq(stats->dead, 1);
}

LUA_TEST(lua_stats, the_totals_add_up_over_a_tasks_whole_life)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");

    lua_make_idle(lua, &e, "g/1", 60000);
    cr_assert_eq(lua_recover(lua, "h", 15000), 1);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_assert_eq(lua_settle(lua, &e, 'r', 0), TASK_SCHEDULED);
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    cr_assert_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_assert_eq(lua_claim(lua, &e, 1), 1);
    cr_assert_eq(lua_settle(lua, &e, 'd', 0), TASK_DELIVERED);
    lua_add(lua, "b", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "b"), TASK_SCHEDULED);
    freeReplyObject(lua_create(lua, &(struct lua_new){"b", "+0", "mail"}, 1));
    look();
    cr_expect_eq(stats->created, 2);
    cr_expect_eq(stats->duplicates, 1);
    cr_expect_eq(stats->recovered, 1);
    cr_expect_eq(stats->attempts, 2);
    cr_expect_eq(stats->failed_attempts, 1);
    cr_expect_eq(stats->retried, 1);
    cr_expect_eq(stats->delivered, 1);
    cr_expect_eq(stats->cancelled, 1);
    cr_expect_eq(stats->dead, 0);
    cr_expect_eq(stats->expired, 0);
}

LUA_TEST(lua_stats, a_renewed_delivery_still_shows_its_whole_age)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    int64_t started = strtoll(e.lease.entry_id, NULL, 10);

    wait_past(started + 30);
    cr_assert_eq(lua_renew(lua, "g/1", &e, 1), 1);
    look();
    cr_expect_geq(stats->all.oldest_delivering_ms, 30);
    cr_expect_geq(queue_named("mail")->oldest_delivering_ms, 30);
}

LUA_TEST(lua_stats, the_time_until_the_next_task_is_due_is_told)
{
    lua_add(lua, "a", "+60000", "mail");
    lua_add(lua, "b", "+30000", "sms");
    look();
    cr_expect(stats->next_due_in_ms > 20000 && stats->next_due_in_ms <= 30000);
    cr_expect_eq(stats->all.overdue, 0);
}

LUA_TEST(lua_stats, a_queue_vanishes_with_its_last_record)
{
    lua_add(lua, "a", "+60000", "mail");
    cr_assert_eq(lua_cancel(lua, "a"), TASK_SCHEDULED);
    look();
    cr_expect_eq(stats->queue_count, 1);
    cr_assert_eq(lua_sweep(lua, 0, 1000, 100), 1);
    look();
    cr_expect_eq(stats->queue_count, 0);
}

LUA_TEST(lua_stats, the_sums_hold_with_more_queues_than_are_listed)
{
    char id[24];

    for (int i = 0; i < 12; i++) {
        (void)snprintf(id, sizeof(id), "q%02d", i);
        lua_add(lua, id, "+60000", id);
    }
    int64_t due = lua_add(lua, "overdue", "+0", "z-last");
    wait_past(due + 5);
    struct call *c = lua_begin(lua, SCRIPT_STATS);
    call_begin_args(c, lua_keys(lua));
    call_add_int(c, 10);
    redisReply *r = lua_send(lua);
    cr_assert_eq(stats_read(r, &stats), ERR_OK);
    freeReplyObject(r);
    cr_expect_eq(stats->queue_count, 10);
    cr_expect_eq(stats->all.scheduled, 13);
    cr_expect_eq(stats->all.overdue, 1);
    cr_expect_geq(stats->all.oldest_overdue_ms, 5);
}

LUA_TEST(lua_stats, asking_changes_nothing)
{
    lua_start(lua, "a", "mail", "g/1");
    lua_add(lua, "b", "+60000", "sms");
    long long before = redis_fixture_info(lua_redis(lua), "rdb_changes_since_last_save");
    look();
    cr_expect_eq(redis_fixture_info(lua_redis(lua), "rdb_changes_since_last_save"), before);
}

/* ----------------------------------------------------------------------- renew */

static int64_t idle_ms(const struct lua_entry *e, char *consumer, size_t size)
{
    redisReply *r = redis_fixture_command(lua_redis(lua), "XPENDING %s %s %s %s 1", lua_keys(lua)->ready, KEYS_GROUP,
                                          e->lease.entry_id, e->lease.entry_id);

    cr_assert_eq(r->elements, 1);
    int64_t idle = r->element[0]->element[2]->integer;
    (void)snprintf(consumer, size, "%s", r->element[0]->element[1]->str);
    freeReplyObject(r);
    return idle;
}

LUA_TEST(lua_renew, own_entries_are_fresh_again)
{
    char owner[24];
    struct lua_entry e[2] = {lua_start(lua, "a", "mail", "g/1"), lua_start(lua, "b", "mail", "g/1")};

    for (int i = 0; i < 2; i++)
        lua_make_idle(lua, &e[i], "g/1", 60000);
    cr_expect_eq(lua_renew(lua, "g/1", e, 2), 2);
    for (int i = 0; i < 2; i++)
        cr_expect_lt(idle_ms(&e[i], owner, sizeof(owner)), 30000);
    cr_expect_eq(lua_renew(lua, "g/1", e, 2), 2, "as often as wanted");
}

LUA_TEST(lua_renew, the_entries_of_others_are_left_to_them)
{
    char owner[24];
    struct lua_entry mine = lua_start(lua, "a", "mail", "g/1"), other = lua_start(lua, "b", "mail", "h/1");

    lua_make_idle(lua, &other, "h/1", 60000);
    cr_expect_eq(lua_renew(lua, "g/1", (struct lua_entry[]){mine, other}, 2), 1);
    cr_expect_geq(idle_ms(&other, owner, sizeof(owner)), 60000);
    cr_expect_str_eq(owner, "h/1");
}

LUA_TEST(lua_renew, what_was_settled_or_taken_over_is_not_brought_back)
{
    struct lua_entry settled = lua_start(lua, "a", "mail", "g/1"), taken = lua_start(lua, "b", "mail", "g/1");

    cr_assert_eq(lua_settle(lua, &settled, 'd', 0), TASK_DELIVERED);
    lua_make_idle(lua, &taken, "g/1", 60000);
    cr_assert_eq(lua_recover(lua, "h", 15000), 1);
    cr_expect_eq(lua_renew(lua, "g/1", (struct lua_entry[]){settled, taken}, 2), 0);
}

LUA_TEST(lua_renew, a_full_call_is_renewed)
{
    static struct lua_entry e[STORE_CALL_MAX];
    char id[24];

    for (int i = 0; i < STORE_CALL_MAX; i++) {
        (void)snprintf(id, sizeof(id), "t%d", i);
        e[i] = lua_start(lua, id, "mail", "g/1");
    }
    cr_expect_eq(lua_renew(lua, "g/1", e, STORE_CALL_MAX), STORE_CALL_MAX);
}

LUA_TEST(lua_renew, nothing_to_renew_is_fine)
{
    cr_expect_eq(lua_renew(lua, "g/1", NULL, 0), 0);
}

/* --------------------------------------------------------------- probe and setup */

static redisReply *probe(void)
{
    struct call *c = lua_begin(lua, SCRIPT_PROBE);

    call_add_str(c, lua_keys(lua)->probe);
    call_begin_args(c, lua_keys(lua));
    return lua_try(lua);
}

LUA_TEST(lua_setup, a_probe_writes_and_leaves_nothing_for_long)
{
    redisReply *r = probe();

    cr_expect_eq(r->integer, 1);
    freeReplyObject(r);
    long long ttl = redis_fixture_integer(lua_redis(lua), "PTTL %s", lua_keys(lua)->probe);
    cr_expect(ttl > 0 && ttl <= 60000, "%lld ms", ttl);
}

LUA_TEST(lua_setup, a_probe_fails_when_nothing_can_be_written)
{
    redis_fixture_run(lua_redis(lua), "CONFIG SET maxmemory 1");
    redisReply *r = probe();

    cr_expect_eq(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
    redis_fixture_run(lua_redis(lua), "CONFIG SET maxmemory 0");
}

static char *set_up_again(const char *layout)
{
    struct call *c = lua_begin(lua, SCRIPT_SETUP);

    call_add_str(c, lua_keys(lua)->meta);
    call_begin_args(c, lua_keys(lua));
    call_add_str(c, layout);
    redisReply *r = lua_send(lua);
    char *found = strdup(r->str);
    freeReplyObject(r);
    return found;
}

LUA_TEST(lua_setup, setting_up_again_keeps_what_is_there)
{
    struct lua_entry e = lua_start(lua, "a", "mail", "g/1");
    char *found = set_up_again("a layout");

    cr_expect_str_eq(found, "a layout");
    cr_expect_eq(lua_claim_again(lua, &e, 1), 1, "the group and its list are still there");
    free(found);
}

LUA_TEST(lua_setup, another_layout_gives_the_one_found_and_changes_nothing)
{
    char *found = set_up_again("another layout");

    cr_expect_str_eq(found, "a layout");
    free(found);
    found = set_up_again("a layout");
    cr_expect_str_eq(found, "a layout");
    free(found);
}

LUA_TEST(lua_setup, a_lost_group_is_made_again_with_what_is_unread)
{
    struct lua_entry e;

    lua_add(lua, "a", "+0", "mail");
    cr_assert_eq(lua_move(lua, 100, 100).moved, 1);
    redis_fixture_run(lua_redis(lua), "XGROUP DESTROY %s %s", lua_keys(lua)->ready, KEYS_GROUP);
    free(set_up_again("a layout"));
    cr_expect_eq(lua_read(lua, "g/1", &e, 1), 1);
    cr_expect_eq(lua_claim(lua, &e, 1), 1);
}
