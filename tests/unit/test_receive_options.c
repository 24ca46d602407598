/* The flags of `duepost receive`. */
#include "receive/options_priv.h"
#include "../support/tmpdir.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <criterion/redirect.h>
#include <stdlib.h>

#define SECRET "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"
#define WORDS_MAX 4

static void setup(void)
{
    cr_redirect_stderr();
    cr_assert_eq(unsetenv("DUEPOST_SIGNING_SECRET"), 0);
    cr_assert_eq(unsetenv("DUEPOST_SIGNING_SECRET_FILE"), 0);
}

TestSuite(receive_options, .init = setup);

static enum err read_words(const char *const *words, struct receive_options *o)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    char copies[WORDS_MAX][128];
    int argc = 0;

    for (; argc < WORDS_MAX && words[argc] != NULL; argc++) {
        (void)snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    return receive_options_read(argc, argv, o);
}

#define READ(o, ...) read_words((const char *const[WORDS_MAX + 1]){__VA_ARGS__}, o)

Test(receive_options, without_flags_it_listens_on_port_9000_and_answers_200)
{
    struct receive_options o;

    cr_assert_eq(READ(&o, NULL), ERR_OK);
    cr_expect_str_eq(o.host, "127.0.0.1");
    cr_expect_str_eq(o.port, "9000");
    cr_expect_eq(o.status, 200);
    cr_expect_eq(o.secrets.count, 0);
    cr_expect(!o.is_quiet);
    receive_options_deinit(&o);
}

Test(receive_options, flags_take_their_value_after_a_blank_or_an_equals_sign)
{
    struct receive_options o;

    cr_assert_eq(READ(&o, "--listen", "[::1]:0", "--status=503", "--quiet"), ERR_OK);
    cr_expect_str_eq(o.host, "::1");
    cr_expect_str_eq(o.port, "0");
    cr_expect_eq(o.status, 503);
    cr_expect(o.is_quiet);
    receive_options_deinit(&o);
}

struct wrong {
    char first[32];
    char second[32];
};

ParameterizedTestParameters(receive_options, wrong_flags_are_faults)
{
    static struct wrong cases[] = {
        {"--nope", ""},
        {"--listen", "9000"},
        {"--listen", "127.0.0.1:70000"},
        {"--listen", "127.0.0.1:-1"},
        {"--listen", ""},
        {"--listen", ":9000"},
        {"--listen", "::1:9000"},
        {"--listen", "127.0.0.1:80 "},
        {"--status", "abc"},
        {"--status", "99"},
        {"--status", "600"},
        {"--status", "100"},
        {"--secret-file", "/x"},
        {"--listenx", "a:1"},
        {"extra", ""},
        {"--quiet=1", ""},
    };

    return cr_make_param_array(struct wrong, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct wrong *c, receive_options, wrong_flags_are_faults)
{
    struct receive_options o;

    cr_expect_eq(READ(&o, c->first, c->second[0] != '\0' ? c->second : NULL), ERR_INVALID, "%s %s", c->first,
                 c->second);
}

Test(receive_options, secrets_come_from_the_environment_or_a_file_and_the_flag_wins)
{
    struct receive_options o;
    char *dir = tmpdir_create();
    char *file = tmpdir_write(dir, "secrets", SECRET "\n" SECRET "\n");

    cr_assert_eq(setenv("DUEPOST_SIGNING_SECRET", SECRET, 1), 0);
    cr_assert_eq(READ(&o, NULL), ERR_OK);
    cr_expect_eq(o.secrets.count, 1);
    receive_options_deinit(&o);

    cr_assert_eq(READ(&o, "--secret-file", file), ERR_OK);
    cr_expect_eq(o.secrets.count, 2);
    receive_options_deinit(&o);
    free(file);
    tmpdir_destroy(&dir);
}

Test(receive_options, a_wrong_secret_is_a_fault_that_does_not_show_it)
{
    struct receive_options o;

    cr_assert_eq(setenv("DUEPOST_SIGNING_SECRET", SECRET ",hush", 1), 0);
    cr_expect_eq(READ(&o, NULL), ERR_INVALID);
    cr_assert_stderr_eq_str(
        "duepost receive: DUEPOST_SIGNING_SECRET: secret 2 is not whsec_ and the base64 of 24 to 64 bytes\n"
        "usage: duepost receive [--listen HOST:PORT] [--secret-file FILE] [--status CODE] [--quiet]\n"
        "       secrets also come from DUEPOST_SIGNING_SECRET or DUEPOST_SIGNING_SECRET_FILE\n");
}
