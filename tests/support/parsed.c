#include "parsed.h"

#include "base/mem.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *join_pointers(const struct faults *faults)
{
    struct buf out;

    buf_init(&out, SIZE_MAX);
    for (size_t i = 0; i < faults->count; i++) {
        const char *pointer = faults->items[i].pointer;

        buf_puts(&out, i > 0 ? " " : "");
        buf_puts(&out, pointer[0] != '\0' ? pointer : "-");
    }
    return buf_take(&out, NULL);
}

void parsed_from_bytes(struct parsed *p, const void *json, size_t n)
{
    struct cidr_list allow_net;
    const char *bad = NULL;
    size_t bad_bytes = 0;
    char *exact = malloc(n > 0 ? n : 1); /* no NUL behind it, so that a sanitizer sees a read past the end */

    cr_assert_not_null(exact);
    memcpy(exact, json, n);
    cr_assert_eq(cidr_list_parse("127.0.0.0/8,::1/128", &allow_net, &bad, &bad_bytes), ERR_OK);
    struct task_json_opts opts = {.allow_net = &allow_net};

    faults_init(&p->faults);
    p->err = task_json_parse(exact, n, &opts, &p->faults, &p->task);
    p->pointers = join_pointers(&p->faults);
    cr_expect_eq(p->err == ERR_OK, p->task != NULL, "a task comes exactly without an error");
    cr_expect_eq(p->err == ERR_OK, p->faults.count == 0, "faults come exactly with an error");
    cidr_list_deinit(&allow_net);
    free(exact);
}

void parsed_from_quoted(struct parsed *p, const char *json)
{
    char *text = xstrdup(json);

    for (char *s = text; *s != '\0'; s++)
        *s = *s == '\'' ? '"' : *s;
    parsed_from_bytes(p, text, strlen(text));
    free(text);
}

void parsed_with(struct parsed *p, const char *more_members)
{
    struct buf body;

    buf_init(&body, SIZE_MAX);
    buf_puts(&body, "{'url':'http://127.0.0.1:9000/hook'");
    buf_puts(&body, more_members);
    buf_putc(&body, '}');
    parsed_from_quoted(p, body.data);
    buf_deinit(&body);
}

void parsed_deinit(struct parsed *p)
{
    faults_deinit(&p->faults);
    task_destroy(&p->task);
    free(p->pointers);
    p->pointers = NULL;
}
