#include "base/mem.h"
#include "task/task_json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The body of POST /tasks/batch. In these texts ' stands for ". */

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define ITEM_MAX 200

struct batch {
    enum err err;
    struct faults faults;
    struct task_json_item items[TASK_JSON_BATCH_MAX];
    size_t count;
    char *text; /* no NUL behind it, so that a sanitizer sees a read past the end */
};

static struct batch b;

static void parse_bytes(const char *json, size_t n)
{
    b.text = xcalloc(n > 0 ? n : 1, 1);
    for (size_t i = 0; i < n; i++)
        b.text[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    faults_init(&b.faults);
    b.err = task_json_parse_batch(b.text, n, ITEM_MAX, &b.faults, b.items, &b.count);
    cr_expect_eq(b.err == ERR_OK, b.faults.count == 0, "faults come exactly with an error");
}

static void parse(const char *json)
{
    parse_bytes(json, strlen(json));
}

static void done(void)
{
    faults_deinit(&b.faults);
    free(b.text);
}

/* The error of one task in the batch, and the pointer of its first fault. */
static enum err item_error(size_t i, char pointer[64])
{
    static const struct cidr_list nothing_allowed = {0};
    struct task_json_opts opts = {.allow_net = &nothing_allowed};
    struct faults faults;
    struct task *t = NULL;

    faults_init(&faults);
    enum err err = task_json_parse_item(&b.items[i], &opts, &faults, &t);
    pointer[0] = '\0';
    if (faults.count > 0)
        (void)snprintf(pointer, 64, "%s", faults.items[0].pointer);
    cr_expect_eq(err == ERR_OK, t != NULL);
    task_destroy(&t);
    faults_deinit(&faults);
    return err;
}

Test(task_json_batch, tasks_are_found_in_their_order)
{
    parse(" { 'tasks' : [ {'url':'http://a.example/'} ,{'delay':5}, 5 , 'x', null,[],{} ] } ");
    cr_assert_eq(b.err, ERR_OK);
    cr_assert_eq(b.count, 7);
    cr_expect_eq(b.items[0].bytes, strlen("{'url':'http://a.example/'}"));
    cr_expect(memcmp(b.items[0].json, "{\"url\":\"http://a.example/\"}", b.items[0].bytes) == 0);
    cr_expect(memcmp(b.items[2].json, "5", 1) == 0 && b.items[2].bytes == 1);
    cr_expect(memcmp(b.items[6].json, "{}", 2) == 0 && b.items[6].bytes == 2);
    done();
}

Test(task_json_batch, each_task_is_judged_alone)
{
    static const struct {
        enum err err;
        const char *pointer;
    } rows[] = {{ERR_OK, ""}, {ERR_INVALID, "/frob"}, {ERR_INVALID, ""}, {ERR_INVALID, "/url"}, {ERR_TOO_BIG, ""}};
    char json[1024], long_one[ITEM_MAX + 1] = {0};

    memset(long_one, 'x', ITEM_MAX);
    (void)snprintf(json, sizeof(json),
                   "{'tasks':[{'url':'http://a.example/'},{'frob':1,'url':'http://a.example/'},5,{},{'body':'%s'}]}",
                   long_one);
    parse(json);
    cr_assert_eq(b.err, ERR_OK);
    cr_assert_eq(b.count, COUNT(rows));
    for (size_t i = 0; i < COUNT(rows); i++) {
        char pointer[64];

        cr_expect_eq(item_error(i, pointer), rows[i].err, "%zu", i);
        cr_expect_str_eq(pointer, rows[i].pointer, "%zu", i);
    }
    done();
}

Test(task_json_batch, a_name_may_be_escaped)
{
    parse("{'t\\u0061sks':[{}]}");
    cr_expect_eq(b.err, ERR_OK);
    cr_expect_eq(b.count, 1);
    done();
}

Test(task_json_batch, the_digest_of_a_task_is_that_of_its_own_text)
{
    static const struct cidr_list nothing_allowed = {0};
    struct task_json_opts opts = {.allow_net = &nothing_allowed};
    static const char alone[] = "{\"id\":\"a\",\"url\":\"http://a.example/\"}";
    struct task *in_batch = NULL, *by_itself = NULL;

    parse("{'tasks':[ {'id':'a','url':'http://a.example/'} ]}");
    cr_assert_eq(task_json_parse_item(&b.items[0], &opts, &b.faults, &in_batch), ERR_OK);
    cr_assert_eq(task_json_parse(alone, strlen(alone), &opts, &b.faults, &by_itself), ERR_OK);
    cr_expect(in_batch->has_digest);
    cr_expect(memcmp(in_batch->digest, by_itself->digest, TASK_DIGEST_BYTES) == 0);
    task_destroy(&in_batch);
    task_destroy(&by_itself);
    done();
}

Test(task_json_batch, a_wrong_frame_is_refused_as_a_whole)
{
    static const struct {
        const char *json;
        enum err err;
        const char *pointer; /* of the first fault */
    } rows[] = {
        {"{}", ERR_INVALID, "/tasks"},
        {"{'tasks':5}", ERR_INVALID, "/tasks"},
        {"{'tasks':null}", ERR_INVALID, "/tasks"},
        {"{'tasks':{}}", ERR_INVALID, "/tasks"},
        {"{'tasks':'x'}", ERR_INVALID, "/tasks"},
        {"{'Tasks':[]}", ERR_INVALID, "/Tasks"},
        {"{'tasks':[],'tasks':[]}", ERR_INVALID, "/tasks"},
        {"{'tasks':[],'x':{}}", ERR_INVALID, "/x"},
        {"{'a/b':1,'tasks':[]}", ERR_INVALID, "/a~1b"},
        {"[]", ERR_INVALID, ""},
        {"[{}]", ERR_INVALID, ""},
        {"5", ERR_INVALID, ""},
        {"null", ERR_INVALID, ""},
        {"'tasks'", ERR_INVALID, ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        parse(rows[i].json);
        cr_expect_eq(b.err, rows[i].err, "%s: %s", rows[i].json, err_code(b.err));
        cr_assert_gt(b.faults.count, 0, "%s", rows[i].json);
        cr_expect_str_eq(b.faults.items[0].pointer, rows[i].pointer, "%s", rows[i].json);
        done();
    }
}

Test(task_json_batch, what_is_no_json_is_refused_as_a_whole)
{
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "x",
        "{'tasks'",
        "{'tasks':",
        "{'tasks':[",
        "{'tasks':[]",
        "{'tasks':[{}",
        "{'tasks':[{},",
        "{'tasks':[{},]}",
        "{'tasks':[,{}]}",
        "{'tasks':[{} {}]}",
        "{'tasks':[{}}]",
        "{'tasks':[]]}",
        "{'tasks':[{'a':tru}]}",
        "{'tasks':[{'a':01}]}",
        "{'tasks':[{'a':1,}]}",
        "{'tasks':[{]}]}",
        "{'tasks':[{'a':'\x01'}]}",
        "{'tasks':[{'a':'\xff'}]}",
        "{'tasks':[{'a':'\\ud800'}]}",
        "{'tasks':[{'a':1e999}]}",
        "{'tasks':[tru]}",
        "{'tasks' []}",
        "{'tasks':[],}",
        "{,'tasks':[]}",
        "{'tasks':[]} x",
        "{'tasks':[]}{}",
        "{tasks:[]}",
        "{'tasks\\x':[]}",
        "{'tasks':[],'x':}",
        "{'tasks':[],'x':nul}",
        "{'x':1,'y':2,'tasks':[}",
        "{'tasks':tru}",
        "tru",
        "{'tasks':[{'url'}]}",
        "\xef\xbb\xbf{'tasks':[]}",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        parse(rows[i]);
        cr_expect_eq(b.err, ERR_INVALID_JSON, "%s: %s", rows[i], err_code(b.err));
        cr_expect_eq(b.faults.count, 1, "%s: that is all there is to say", rows[i]);
        done();
    }
    parse_bytes("{'tasks':[]}\0", 13);
    cr_expect_eq(b.err, ERR_INVALID_JSON, "a NUL byte behind it");
    done();
}

/* Which of the tasks is no JSON is said by its pointer. */
Test(task_json_batch, a_syntax_error_says_in_which_task_it_is)
{
    parse("{'tasks':[{},{},{'a':tru}]}");
    cr_assert_eq(b.faults.count, 1);
    cr_expect_str_eq(b.faults.items[0].pointer, "/tasks/2");
    done();
}

static void parse_many(size_t count)
{
    static const char begin[] = "{'tasks':[";
    char *json = xcalloc(count * 3 + 16, 1);
    size_t at = sizeof(begin) - 1;

    memcpy(json, begin, at);
    for (size_t i = 0; i < count; i++) {
        memcpy(json + at, i > 0 ? ",{}" : "{}", i > 0 ? 3 : 2);
        at += i > 0 ? 3 : 2;
    }
    memcpy(json + at, "]}", 2);
    parse(json);
    free(json);
}

Test(task_json_batch, a_thousand_tasks_are_the_most)
{
    parse_many(1000);
    cr_expect_eq(b.err, ERR_OK);
    cr_expect_eq(b.count, 1000);
    done();
    parse_many(1001);
    cr_expect_eq(b.err, ERR_INVALID);
    cr_assert_eq(b.faults.count, 1);
    cr_expect_str_eq(b.faults.items[0].pointer, "/tasks");
    cr_expect_not_null(strstr(b.faults.items[0].detail, "1000"));
    done();
    parse("{'tasks':[]}");
    cr_expect_eq(b.err, ERR_OK);
    cr_expect_eq(b.count, 0);
    done();
}

Test(task_json_batch, a_task_that_nests_too_deep_is_refused_alone)
{
    static const char begin[] = "{\"tasks\":[{},", end[] = "]}";
    const size_t levels = 3000, n = sizeof(begin) - 1 + 2 * levels + sizeof(end) - 1;
    char *json = xcalloc(n, 1);
    char pointer[64];
    struct faults faults;

    memcpy(json, begin, sizeof(begin) - 1);
    memset(json + sizeof(begin) - 1, '[', levels);
    memset(json + sizeof(begin) - 1 + levels, ']', levels);
    memcpy(json + n - sizeof(end) + 1, end, sizeof(end) - 1);
    faults_init(&faults);
    cr_assert_eq(task_json_parse_batch(json, n, 2 * levels, &faults, b.items, &b.count), ERR_OK);
    cr_assert_eq(b.count, 2);
    cr_expect_eq(item_error(1, pointer), ERR_INVALID);
    cr_expect_str_eq(pointer, "");
    faults_deinit(&faults);
    free(json);
}
