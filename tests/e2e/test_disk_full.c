/* A Redis whose disk is full: a real file system without a free block, and, where a test may not mount one, a limit on
 * the size of files, which fails the same writes of Redis half-way in the same manner.
 *
 *   appendfsync everysec   Redis goes on without taking writes (MISCONF) until the disk has room again
 *   appendfsync always     Redis ends itself at the first write that fails, and at each start until there is room */
#include "../support/gateway.h"
#include "../support/json_expect.h"
#include "../support/procfs.h"
#include "../support/small_disk.h"
#include "../support/tmpdir.h"
#include "../support/wait.h"
#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define ARRIVE_MS 15000
#define RECOVER_MS 5000
#define REFUSE_MS 2000
#define RESTART_MAX_MS 5000 /* the longest pause of the embedded Redis */
#define POSTS_MAX 3000
#define FILE_SPARE 2000 /* bytes that may still be written */

enum way { WAY_DISK, WAY_FILE_LIMIT };

static enum way way;
static struct small_disk *disk;
static char *dir; /* of a Redis under WAY_FILE_LIMIT */
static struct redis_fixture *redis;
static struct sink *sink;
static struct gateway *gateway, *second;
static size_t accepted;

static void setup_disk(void)
{
    way = WAY_DISK;
    disk = small_disk_create();
    if (!disk)
        cr_skip_test("this process may not mount a file system; the limit on files is tested instead");
    sink = sink_create();
}

static void setup_file_limit(void)
{
    way = WAY_FILE_LIMIT;
    dir = tmpdir_create();
    /* Inherited by Redis: a write beyond the limit is an error then, not the end of the process. */
    cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    sink = sink_create();
}

static void teardown(void)
{
    sink_destroy(&sink);
    gateway_destroy(&gateway);
    gateway_destroy(&second);
    redis_fixture_destroy(&redis);
    small_disk_destroy(&disk);
    tmpdir_destroy(&dir);
}

TestSuite(disk_full, .init = setup_disk, .fini = teardown, .timeout = 300);
TestSuite(file_limit, .init = setup_file_limit, .fini = teardown, .timeout = 300);

/* ----------------------------------------------------------- the disk */

static const char *data_dir(void)
{
    return disk ? small_disk_dir(disk) : dir;
}

static void limit_files(pid_t pid, rlim_t bytes)
{
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};

    cr_assert_eq(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

/* How long the append-only file of the Redis in data_dir() is now. */
static rlim_t aof_bytes(void)
{
    char *path = tmpdir_path(data_dir(), "redis.sock");
    redisContext *c = redisConnectUnix(path);
    redisReply *r = c->err == 0 ? redisCommand(c, "INFO persistence") : NULL;

    cr_assert_not_null(r);
    const char *at = strstr(r->str, "aof_current_size:");
    cr_assert_not_null(at);
    rlim_t bytes = strtoull(at + strlen("aof_current_size:"), NULL, 10);
    freeReplyObject(r);
    redisFree(c);
    free(path);
    return bytes;
}

static void fill_disk(pid_t server)
{
    if (disk)
        small_disk_fill(disk);
    else
        limit_files(server, aof_bytes() + FILE_SPARE);
}

static void make_room(pid_t server)
{
    if (disk)
        small_disk_clear(disk);
    else if (server > 0)
        limit_files(server, RLIM_INFINITY);
}

/* -------------------------------------------------------------- tasks */

static const struct reply *try_post(const char *id, const char *path, int delay_ms)
{
    return client_post_task(gateway->api, "{\"id\":\"%s\",\"url\":\"%s\",\"delay\":%d,\"retry\":{\"schedule\":[50]}}",
                            id, sink_url(sink, path), delay_ms);
}

/* Two attempts that are under way when the disk becomes full: one that will succeed and one that will fail. */
static void hold_two(void)
{
    SINK_SCRIPT(sink, "/good", {.status = 200, .is_held = true});
    SINK_SCRIPT(sink, "/bad", {.status = 500, .is_held = true}, {.status = 200});
    cr_assert_eq(try_post("good", "/good", 0)->status, 201);
    cr_assert_eq(try_post("bad", "/bad", 0)->status, 201);
    sink_wait(sink, "/good", 1, ARRIVE_MS);
    sink_wait(sink, "/bad", 1, ARRIVE_MS);
}

static void expect_refusal(const struct reply *r)
{
    cr_assert_eq(r->status, 503, "%d %s", r->status, r->body);
    cr_expect_leq(r->duration_ms, wait_scaled_ms(REFUSE_MS), "503 took %ld ms", r->duration_ms);
    cr_expect_str_eq(json_text_at(r->json, "code"), "store_unavailable");
    cr_assert_not_null(reply_header(r, "retry-after"), "no Retry-After");
}

/* Post until Redis can write no more. What was answered 201 by then is "task-0" to "task-(accepted - 1)". */
static void post_until_full(void)
{
    const struct reply *r = NULL;
    char id[32];

    for (int i = 0; i < POSTS_MAX; i++) {
        (void)snprintf(id, sizeof(id), "task-%d", i);
        r = try_post(id, "/task", 1500);
        if (r->status != 201)
            break;
        accepted++;
    }
    expect_refusal(r);
}

static void expect_live_but_not_ready(void)
{
    expect_refusal(try_post("refused", "/refused", 0));
    cr_expect_eq(client_get(gateway->api, "/healthz")->status, 200);
    cr_expect_eq(client_get(gateway->api, "/readyz")->status, 503);
}

static long long stat_of(const char *name)
{
    return json_integer_at(client_get(gateway->api, "/stats")->json, name);
}

/* By itself, all goes on: what was accepted is delivered, what ended meanwhile was written down and is not repeated. */
static void expect_all_is_well(void)
{
    char id[32];

    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, RECOVER_MS);
    cr_assert_eq(try_post("after", "/after", 0)->status, 201);
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
    cr_expect_gt(accepted, 0, "the disk was full before the first task");
    for (size_t i = 0; i < accepted; i++) {
        (void)snprintf(id, sizeof(id), "task-%zu", i);
        task_reaches(gateway->api, id, "delivered", ARRIVE_MS);
    }
    task_reaches(gateway->api, "good", "delivered", ARRIVE_MS);
    json_t *bad = task_reaches(gateway->api, "bad", "delivered", ARRIVE_MS);
    cr_expect_eq(json_integer_at(bad, "attempts"), 2);
    cr_expect_eq(sink_count(sink, "/good"), 1);
    cr_expect_eq(sink_count(sink, "/bad"), 2);
    cr_expect_eq(sink_count(sink, "/refused"), 0);
    /* The POST that was refused may have been stored: its outcome was unknown. */
    cr_expect_geq(sink_count(sink, "/task"), accepted);
    cr_expect_leq(sink_count(sink, "/task"), accepted + 1);
    cr_expect_eq(stat_of("totals.recovered"), 0);
    cr_expect(proc_is_running(gateway->proc));
}

/* Two gateways, so that one could rob the other of what cannot be renewed now. */
static void start_with_redis(const char *appendfsync)
{
    redis = redis_fixture_create_in(data_dir(), appendfsync);
    redis_fixture_start(redis);
    gateway = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
    second = gateway_run(redis_fixture_url(redis), "--claim-idle", "1s", NULL);
}

/* ---------------------------------------------------------- the cases */

static void redis_refuses_writes(void)
{
    start_with_redis("everysec");
    hold_two();
    fill_disk(redis_fixture_pid(redis));
    post_until_full();
    WAIT_UNTIL(stat_of("tasks.oldest_delivering_ms") > 2500, ARRIVE_MS); /* longer than claim-idle */
    sink_release(sink);
    expect_live_but_not_ready();
    cr_expect_str_eq(json_text_at(client_get_task(gateway->api, "task-0")->json, "state"), "scheduled",
                     "what is there can be read");
    make_room(redis_fixture_pid(redis));
    expect_all_is_well();
    /* The file it has written is whole. */
    redis_fixture_run(redis, "CONFIG SET appendfsync always");
    redis_fixture_run(redis, "SET written 1");
    redis_fixture_kill(redis);
    redis_fixture_start(redis);
    task_reaches(gateway->api, "task-0", "delivered", ARRIVE_MS);
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
}

static void await_end_of_redis(void)
{
    WAIT_UNTIL(!procfs_is_alive(redis_fixture_pid(redis)), ARRIVE_MS);
    redis_fixture_kill(redis);
}

static void redis_ends_itself(void)
{
    start_with_redis("always");
    hold_two();
    fill_disk(redis_fixture_pid(redis));
    post_until_full();
    await_end_of_redis();
    sink_release(sink);
    expect_live_but_not_ready();
    if (way == WAY_DISK) {
        redis_fixture_launch(redis); /* as whoever watches over it does; the gateway's next write ends it again */
        await_end_of_redis();
        expect_live_but_not_ready();
    }
    make_room(0);
    redis_fixture_start(redis);
    expect_all_is_well();
}

static void embedded_redis_refuses_writes(void)
{
    gateway = gateway_start(&(struct gateway_opts){.data_dir = data_dir()});
    pid_t server = procfs_child(proc_pid(gateway->proc));
    hold_two();
    fill_disk(server);
    post_until_full();
    sink_release(sink);
    expect_live_but_not_ready();
    make_room(server);
    expect_all_is_well();
    cr_expect_eq(procfs_child(proc_pid(gateway->proc)), server, "it was not needed to start Redis again");
    gateway_stop(gateway);
    gateway_destroy(&gateway);
    gateway = gateway_start(&(struct gateway_opts){.data_dir = data_dir()});
    task_reaches(gateway->api, "task-0", "delivered", ARRIVE_MS);
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
}

Test(disk_full, a_redis_that_refuses_writes_is_waited_for)
{
    redis_refuses_writes();
}

Test(disk_full, a_redis_that_ends_itself_and_is_started_again_has_lost_nothing)
{
    redis_ends_itself();
}

Test(disk_full, the_embedded_redis_is_waited_for)
{
    embedded_redis_refuses_writes();
}

/* The embedded Redis cannot even begin its files: it ends, and is started again with growing pauses. */
Test(disk_full, a_gateway_that_begins_on_a_full_disk_is_ready_when_there_is_room)
{
    small_disk_fill(disk);
    gateway = gateway_start_unready(&(struct gateway_opts){.data_dir = data_dir()});
    WAIT_UNTIL(strstr(proc_stderr(gateway->proc), "redis.died"), RECOVER_MS);
    expect_live_but_not_ready();
    small_disk_clear(disk);
    WAIT_UNTIL(client_get(gateway->api, "/readyz")->status == 200, RESTART_MAX_MS + RECOVER_MS);
    cr_assert_eq(try_post("after", "/after", 0)->status, 201);
    task_reaches(gateway->api, "after", "delivered", ARRIVE_MS);
}

Test(file_limit, a_redis_that_refuses_writes_is_waited_for)
{
    redis_refuses_writes();
}

Test(file_limit, a_redis_that_ends_itself_and_is_started_again_has_lost_nothing)
{
    redis_ends_itself();
}

Test(file_limit, the_embedded_redis_is_waited_for)
{
    embedded_redis_refuses_writes();
}
