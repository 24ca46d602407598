#include "base/log.h"
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME_CHARS 24

static int log_pipe[2];
static char line[16384];

static void set_up(void)
{
    cr_assert_eq(pipe(log_pipe), 0);
}

TestSuite(log, .init = set_up);

/* What `write` printed to stderr. A test runs in a process of its own, so its stderr may be turned away. */
#define CAPTURE(write)                          \
    do {                                        \
        int saved = dup(STDERR_FILENO);         \
        (void)dup2(log_pipe[1], STDERR_FILENO); \
        write;                                  \
        (void)dup2(saved, STDERR_FILENO);       \
        (void)close(saved);                     \
        read_line();                            \
    } while (0)

static void read_line(void)
{
    ssize_t n = 0;

    cr_assert_eq(write(log_pipe[1], "", 1), 1); /* so that reading never blocks */
    n = read(log_pipe[0], line, sizeof(line) - 1);
    cr_assert_gt(n, 0);
    line[n] = '\0';
}

static json_t *read_json(void)
{
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);

    cr_assert_not_null(object, "%s in %s", error.text, line);
    return object;
}

static const char *member(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "(none)";
}

Test(log, a_text_line_is_time_level_event_and_pairs)
{
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
    CAPTURE(LOG_INFO("task.dead", "task=%s attempts=%d", "abc", 10));
    cr_expect_str_eq(line + TIME_CHARS, " info task.dead task=abc attempts=10\n");
    cr_expect_eq(line[10], 'T');
    cr_expect_eq(line[TIME_CHARS - 1], 'Z');
}

Test(log, a_text_line_without_pairs_has_no_trailing_blank)
{
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
    CAPTURE(LOG_WARN("store.down", "%s", ""));
    cr_expect_str_eq(line + TIME_CHARS, " warn store.down\n");
}

Test(log, levels_below_the_one_set_are_silent)
{
    log_setup(LOG_LEVEL_WARN, LOG_FORMAT_TEXT);
    CAPTURE(LOG_INFO("quiet", "a=1"));
    cr_expect_str_eq(line, "");
    CAPTURE(LOG_DEBUG("quiet", "a=1"));
    cr_expect_str_eq(line, "");
    CAPTURE(LOG_ERROR("loud", "a=1"));
    cr_expect_str_eq(line + TIME_CHARS, " error loud a=1\n");
}

Test(log, a_value_cannot_forge_a_second_line)
{
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
    CAPTURE(LOG_INFO("event", "value=%s", "a\nb\rc\x1b[31m"));
    cr_expect_str_eq(line + TIME_CHARS, " info event value=a b c [31m\n");
}

Test(log, a_json_line_has_a_member_for_each_pair)
{
    json_t *object = NULL;

    log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON);
    CAPTURE(LOG_DEBUG("task.dead", "task=%s attempts=%d", "abc", 10));
    object = read_json();
    cr_expect_eq(json_object_size(object), 5);
    cr_expect_eq(strlen(member(object, "time")), TIME_CHARS);
    cr_expect_str_eq(member(object, "level"), "debug");
    cr_expect_str_eq(member(object, "event"), "task.dead");
    cr_expect_str_eq(member(object, "task"), "abc");
    cr_expect_str_eq(member(object, "attempts"), "10");
    json_decref(object);
}

Test(log, a_quoted_value_comes_through_json_unchanged)
{
    const char *text = "a \"b\" \\ c=d\n\x01 gr\xc3\xbc\xc3\x9f";
    json_t *object = NULL;

    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(LOG_INFO("event", "before=1 text=%s after=2", log_quote(text)));
    object = read_json();
    cr_expect_str_eq(member(object, "text"), text);
    cr_expect_str_eq(member(object, "before"), "1");
    cr_expect_str_eq(member(object, "after"), "2");
    json_decref(object);
}

Test(log, bytes_that_are_no_utf8_still_give_valid_json)
{
    json_t *object = NULL;

    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(LOG_INFO("event", "raw=%s quoted=%s", "\xff\xfe", log_quote("\xc3(")));
    object = read_json();
    cr_expect_str_eq(member(object, "raw"), "\xef\xbf\xbd\xef\xbf\xbd");
    cr_expect_str_eq(member(object, "quoted"), "\xef\xbf\xbd(");
    json_decref(object);
}

Test(log, a_line_that_is_too_long_stays_valid_json_and_drops_whole_pairs)
{
    char text[6000];
    json_t *object = NULL;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(LOG_INFO("event", "first=1 long=\"%s\" last=2", text));
    object = read_json();
    cr_expect_str_eq(member(object, "first"), "1");
    cr_expect_str_eq(member(object, "long"), "(none)");
    json_decref(object);
}

Test(log, control_characters_that_swell_in_json_do_not_overflow_a_line)
{
    char text[4000];
    json_t *object = NULL;

    memset(text, '\x01', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CAPTURE(LOG_INFO("event", "first=1 swelling=%s", text));
    object = read_json();
    cr_expect_str_eq(member(object, "first"), "1");
    json_decref(object);
}

Test(log, quote_cuts_a_long_text_and_keeps_its_end_quote)
{
    char text[5000];
    const char *quoted = NULL;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    quoted = log_quote(text);
    cr_expect_lt(strlen(quoted), 1024);
    cr_expect_eq(quoted[strlen(quoted) - 1], '"');
}

Test(log, four_quotes_may_be_in_use_at_once)
{
    const char *quotes[4] = {log_quote("1"), log_quote("2"), log_quote("3"), log_quote("4")};

    cr_expect_str_eq(quotes[0], "\"1\"");
    cr_expect_str_eq(quotes[1], "\"2\"");
    cr_expect_str_eq(quotes[2], "\"3\"");
    cr_expect_str_eq(quotes[3], "\"4\"");
}

Test(log, a_limit_passes_once_per_interval_and_counts_what_it_held_back)
{
    struct log_limit limit = {0};
    long held = -1;

    cr_expect(log_limit_pass(&limit, 3600000, &held));
    cr_expect_eq(held, 0);
    for (int i = 0; i < 5; i++)
        cr_expect_not(log_limit_pass(&limit, 3600000, &held));
    limit.next_mono_ms = 1; /* the hour is over */
    cr_expect(log_limit_pass(&limit, 3600000, &held));
    cr_expect_eq(held, 5);
}
