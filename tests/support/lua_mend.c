#include "base/mem.h"
#include "lua_fixture.h"
#include <criterion/criterion.h>
#include <stdlib.h>

char *lua_mend_step(struct lua_fixture *f, const char *at, int64_t limit, int64_t *repaired)
{
    struct call *c = lua_begin(f, SCRIPT_MEND);

    call_begin_args(c, lua_keys(f));
    call_add_str(c, at);
    call_add_int(c, limit);
    redisReply *r = lua_send(f);
    char *next = xstrdup(r->element[0]->str);
    cr_assert_eq(r->elements, 2);
    *repaired = r->element[1]->integer;
    freeReplyObject(r);
    return next;
}

int64_t lua_mend(struct lua_fixture *f, int64_t limit)
{
    int64_t sum = 0, repaired;
    char *at = xstrdup("");

    do {
        char *next = lua_mend_step(f, at, limit, &repaired);
        free(at);
        at = next;
        sum += repaired;
    } while (*at);
    free(at);
    return sum;
}
