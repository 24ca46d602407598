/* The URL in a record, and the bytes of a record that count: those of a common task. */
#include "../support/record_bytes.h"
#include "base/mem.h"
#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct buf record;
static struct task *task;

static void set_up(void)
{
    buf_init(&record, (size_t)16 << 20);
    task = task_create();
}

static void tear_down(void)
{
    task_destroy(&task);
    buf_deinit(&record);
}

TestSuite(record_url, .init = set_up, .fini = tear_down);

/* The record of a new task with this URL. */
static void compose_with(const char *url)
{
    free(task->url);
    task->url = xstrdup(url);
    buf_clear(&record);
    record_put_head(&record, task, 0);
    record_write_spec(&record, task);
}

/* Redis keeps a string of up to 252 bytes with its 3 bytes of header and its NUL in the 256-byte class of its
 * allocator; one byte more costs 64. Millions of pending tasks look like this one. */
Test(record_url, a_common_task_fits_the_256_byte_allocation_class)
{
    task->body_kind = TASK_BODY_PAYLOAD;
    task->body_bytes = 200;
    task->body = xcalloc(201, 1);
    memset(task->body, 'x', 200);
    compose_with("https://example.com/hook/1234567");
    cr_assert_eq(strlen(task->url), 32);
    cr_assert_leq(record.len, 252, "%zu bytes", record.len);
}

Test(record_url, urls_of_any_scheme_come_back_as_they_were)
{
    static const char *const urls[] = {"http://a/", "https://a/", "http://", "https://",
                                       "http:/",    "HTTP://a/",  "",        "h"};

    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        struct task *out;

        compose_with(urls[i]);
        cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
        cr_expect_str_eq(out->url, urls[i]);
        task_destroy(&out);
    }
}

Test(record_url, a_url_that_was_written_in_full_is_read)
{
    struct task *out;

    compose_with("Xttp://old.example/hook");
    char *url = memmem(record.data, record.len, "Xttp://", 7);
    cr_assert_not_null(url);
    *url = 'h';
    cr_assert_eq(record_read_copy(record.data, record.len, &out), ERR_OK);
    cr_expect_str_eq(out->url, "http://old.example/hook");
    task_destroy(&out);
}
