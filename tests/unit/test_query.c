#include "http/query_priv.h"
#include <criterion/criterion.h>
#include <string.h>

static struct query_parameter parameters[2];
static struct faults faults;

static void read_query(const char *query)
{
    parameters[0] = (struct query_parameter){.name = "state"};
    parameters[1] = (struct query_parameter){.name = "limit"};
    faults_init(&faults);
    query_read(query, parameters, 2, &faults);
}

static void tear_down(void)
{
    faults_deinit(&faults);
}

TestSuite(query, .fini = tear_down);

Test(query, values_are_read_and_decoded)
{
    static const struct {
        const char *query;
        const char *state; /* NULL: not given */
        const char *limit;
    } rows[] = {
        {NULL, NULL, NULL},
        {"", NULL, NULL},
        {"&&", NULL, NULL},
        {"state=dead", "dead", NULL},
        {"limit=5&state=dead", "dead", "5"},
        {"state", "", NULL},
        {"state=", "", NULL},
        {"state=a%2Fb%26c", "a/b&c", NULL},
        {"state=a+b", "a+b", NULL},
        {"state=a=b", "a=b", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        read_query(rows[i].query);
        cr_expect_eq(faults.count, 0, "row %zu", i);
        cr_expect_eq(parameters[0].is_given, rows[i].state != NULL, "row %zu", i);
        cr_expect_eq(parameters[1].is_given, rows[i].limit != NULL, "row %zu", i);
        cr_expect_str_eq(parameters[0].value, rows[i].state ? rows[i].state : "", "row %zu", i);
        cr_expect_str_eq(parameters[1].value, rows[i].limit ? rows[i].limit : "", "row %zu", i);
        faults_deinit(&faults);
    }
    faults_init(&faults);
}

Test(query, each_fault_names_its_parameter)
{
    static const struct {
        const char *query;
        const char *name;
        const char *detail;
    } rows[] = {
        {"color=1", "color", "is no parameter of this call"},
        {"state=a&state=a", "state", "is given more than once"},
        {"state=%", "state", "is badly encoded or longer than 255 bytes"},
        {"state=%4", "state", "is badly encoded or longer than 255 bytes"},
        {"state=%zz", "state", "is badly encoded or longer than 255 bytes"},
        {"state=%00", "state", "is badly encoded or longer than 255 bytes"},
        {"=1", "", "is no parameter of this call"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        read_query(rows[i].query);
        cr_assert_eq(faults.count, 1, "row %zu", i);
        cr_expect_str_eq(faults.items[0].pointer, rows[i].name, "row %zu", i);
        cr_expect_str_eq(faults.items[0].detail, rows[i].detail, "row %zu", i);
        faults_deinit(&faults);
    }
    faults_init(&faults);
}

Test(query, a_value_has_at_most_255_bytes)
{
    char query[6 + QUERY_VALUE_SIZE + 1] = "state=";

    memset(query + 6, 'x', QUERY_VALUE_SIZE - 1);
    read_query(query);
    cr_expect_eq(faults.count, 0);
    cr_expect_eq(strlen(parameters[0].value), QUERY_VALUE_SIZE - 1);
    faults_deinit(&faults);
    query[6 + QUERY_VALUE_SIZE - 1] = 'x';
    read_query(query);
    cr_expect_eq(faults.count, 1);
}
