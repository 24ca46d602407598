#include "http/cursor_priv.h"
#include "http/query_priv.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Any text as a query string, and what is in its `cursor` as the cursor of a list: one that is read is the one that
 * would be written. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void read_cursor(const char *s)
{
    struct store_place after;
    enum task_state state;
    struct buf out;

    if (!cursor_read(s, &state, &after))
        return;
    assert(state < TASK_STATE_COUNT && (after.score[0] != '\0' || after.id[0] == '\0'));
    buf_init(&out, QUERY_VALUE_SIZE);
    cursor_write(&out, state, &after);
    assert(buf_status(&out) == ERR_OK && strcmp(out.data, s) == 0);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct query_parameter parameters[] = {{.name = "state"}, {.name = "limit"}, {.name = "cursor"}};
    char *query = strndup((const char *)data, size);
    struct faults faults;

    assert(query);
    faults_init(&faults);
    query_read(query, parameters, 3, &faults);
    for (size_t i = 0; i < 3; i++) {
        assert(strlen(parameters[i].value) < QUERY_VALUE_SIZE);
        assert(parameters[i].is_given || parameters[i].value[0] == '\0');
    }
    read_cursor(parameters[2].value);
    read_cursor(query);
    faults_deinit(&faults);
    free(query);
    return 0;
}
