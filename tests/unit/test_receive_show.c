/* What `duepost receive` prints about a request. */
#include "receive/show_priv.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#define SECRET "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"
#define OTHER_SECRET "whsec_TkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVXTkU="
#define DUE_MS INT64_C(1764525600000)
#define DUE_TEXT "2025-11-30T18:00:00.000Z"

static struct shown webhook(void)
{
    return (struct shown){.method = "POST",
                          .target = "/hook",
                          .id = "reminder-1",
                          .attempt = "1",
                          .due = DUE_TEXT,
                          .arrived_ms = DUE_MS + 3};
}

/* The text shown; in static memory. */
static const char *shown_text(const struct shown *s, enum shown_signature judgement)
{
    static char text[8192];
    struct buf out;

    buf_init(&out, sizeof(text) - 1);
    show_request(&out, s, judgement);
    cr_assert_eq(buf_status(&out), ERR_OK);
    memcpy(text, out.data, out.len + 1);
    buf_deinit(&out);
    return text;
}

Test(receive_show, a_webhook_is_a_line_with_its_id_attempt_lateness_signature_and_path)
{
    struct shown s = webhook();

    cr_expect_str_eq(shown_text(&s, SHOWN_RIGHT),
                     "2025-11-30T18:00:00.003Z  reminder-1  attempt 1  3 ms late  signature right  POST /hook\n");
}

Test(receive_show, a_retry_is_not_called_late_but_says_how_long_ago_its_task_was_due)
{
    struct shown s = webhook();
    int64_t late_ms = 0;

    s.attempt = "2";
    cr_expect_not_null(strstr(shown_text(&s, SHOWN_RIGHT), "reminder-1  attempt 2  due 3 ms ago  signature right"));
    cr_expect_not(show_lateness(&s, &late_ms));
    s.attempt = "1";
    cr_expect(show_lateness(&s, &late_ms));
    cr_expect_eq(late_ms, 3);
}

Test(receive_show, the_body_follows_on_a_line_of_its_own)
{
    struct shown s = webhook();

    s.body = "{\"hello\":\"w\xc3\xb6rld\"}";
    s.body_bytes = strlen(s.body);
    cr_expect_not_null(
        strstr(shown_text(&s, SHOWN_UNSIGNED), "unsigned  POST /hook\n    {\"hello\":\"w\xc3\xb6rld\"}\n"));
}

Test(receive_show, an_early_webhook_is_called_early)
{
    struct shown s = webhook();

    s.arrived_ms = DUE_MS - 5;
    cr_expect_not_null(strstr(shown_text(&s, SHOWN_RIGHT), "  5 ms EARLY  "));
}

Test(receive_show, a_due_time_that_is_none_is_left_out)
{
    struct shown s = webhook();

    s.due = "soon";
    cr_expect_null(strstr(shown_text(&s, SHOWN_RIGHT), "late"));
}

Test(receive_show, a_request_without_an_id_is_no_webhook)
{
    struct shown s = {.method = "GET", .target = "/favicon.ico", .arrived_ms = DUE_MS};

    cr_expect_str_eq(shown_text(&s, SHOWN_UNSIGNED), "2025-11-30T18:00:00.000Z  no webhook  GET /favicon.ico\n");
}

struct foreign {
    char text[24];
    size_t bytes;
    char shown[64];
};

ParameterizedTestParameters(receive_show, nothing_that_a_terminal_obeys_gets_through)
{
    static struct foreign cases[] = {
        {"plain", 5, "    plain\n"},
        {"a\nb\r\tc", 6, "    a\\nb\\r\\tc\n"},
        {"\x1b[2J", 4, "    \\x1b[2J\n"},
        {"a\0b", 3, "    a\\x00b\n"},
        {"\x7f", 1, "    \\x7f\n"},
        {"\xc2\x9b", 2, "    \\xc2\\x9b\n"}, /* C1 control sequence introducer */
        {"\xff\xfe", 2, "    \\xff\\xfe\n"},
        {"\xc3", 1, "    \\xc3\n"},                /* cut in the middle of a character */
        {"\xe2\x82\xac", 3, "    \xe2\x82\xac\n"}, /* the euro sign */
    };

    return cr_make_param_array(struct foreign, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct foreign *c, receive_show, nothing_that_a_terminal_obeys_gets_through)
{
    struct shown s = webhook();
    const char *text = NULL;

    s.body = c->text;
    s.body_bytes = c->bytes;
    text = shown_text(&s, SHOWN_RIGHT);
    cr_expect_str_eq(strchr(text, '\n') + 1, c->shown);
}

Test(receive_show, a_long_body_is_cut_and_its_size_told)
{
    static char body[5000];
    struct shown s = webhook();
    const char *text = NULL;

    memset(body, 'x', sizeof(body));
    s.body = body;
    s.body_bytes = sizeof(body);
    text = shown_text(&s, SHOWN_RIGHT);
    cr_expect_not_null(strstr(text, "x... (5000 bytes)\n"));
    cr_expect_lt(strlen(text), SHOW_BODY_BYTES + 200);
}

static enum shown_signature judged_with(const char *secrets_here, const char *timestamp)
{
    struct signature_secrets signer, here;
    struct shown s = webhook();
    enum shown_signature judgement = SHOWN_UNSIGNED;
    struct buf header;
    size_t bad = 0;

    cr_assert_eq(signature_secrets_parse(SECRET, &signer, &bad), ERR_OK);
    cr_assert_eq(signature_secrets_parse(secrets_here, &here, &bad), ERR_OK);
    buf_init(&header, 1024);
    signature_sign(&header, &signer, s.id, 1764525600, "body", 4);
    s.signature = header.data;
    s.timestamp = timestamp;
    s.body = "body";
    s.body_bytes = 4;
    judgement = show_judge(&s, &here);
    buf_deinit(&header);
    signature_secrets_deinit(&signer);
    signature_secrets_deinit(&here);
    return judgement;
}

Test(receive_show, a_signature_is_judged_by_any_of_the_secrets_here)
{
    struct signature_secrets none = {0};
    struct shown unsigned_one = webhook();

    cr_expect_eq(judged_with(SECRET, "1764525600"), SHOWN_RIGHT);
    cr_expect_eq(judged_with(OTHER_SECRET " " SECRET, "1764525600"), SHOWN_RIGHT);
    cr_expect_eq(judged_with(OTHER_SECRET, "1764525600"), SHOWN_WRONG);
    cr_expect_eq(judged_with(SECRET, "1764525601"), SHOWN_WRONG);
    cr_expect_eq(judged_with(SECRET, NULL), SHOWN_WRONG);
    cr_expect_eq(judged_with("", "1764525600"), SHOWN_UNCHECKED);
    cr_expect_eq(show_judge(&unsigned_one, &none), SHOWN_UNSIGNED);
}
