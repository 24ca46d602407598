#include "http/cursor_priv.h"
#include <string.h>

#define DIGITS_MAX 19

/* Tasks in the Stream are found by their entry alone. */
static bool is_in_stream(enum task_state state)
{
    return state == TASK_READY || state == TASK_DELIVERING;
}

void cursor_write(struct buf *out, enum task_state state, const struct store_place *after)
{
    buf_puts(out, task_state_name(state));
    if (after->score[0] == '\0')
        return;
    buf_printf(out, ".%s", after->score);
    if (!is_in_stream(state))
        buf_printf(out, ".%s", after->id);
}

bool cursor_state_from_name(const char *name, enum task_state *out)
{
    for (int s = 0; s < TASK_STATE_COUNT; s++) {
        if (strcmp(name, task_state_name((enum task_state)s)) == 0) {
            *out = (enum task_state)s;
            return true;
        }
    }
    return false;
}

/* Copy up to the next '.' or the end and move behind it; false when it does not fit, or when nothing is behind a '.'.
 */
static bool take_field(const char **s, char *out, size_t size)
{
    size_t n = strcspn(*s, ".");

    if (n >= size)
        return false;
    memcpy(out, *s, n);
    out[n] = '\0';
    *s += n;
    if (**s == '\0')
        return true;
    (*s)++;
    return **s != '\0';
}

/* Digits, for an entry of the Stream with digits behind a '-'. More of them than DIGITS_MAX no clock shows, and Redis
 * reads 64 bits. */
static bool is_score(const char *s, bool is_entry)
{
    size_t n = strspn(s, "0123456789");

    if (n == 0 || n > DIGITS_MAX || (s[n] == '-') != is_entry)
        return false;
    s += n + is_entry;
    n = is_entry ? strspn(s, "0123456789") : 0;
    return s[n] == '\0' && (!is_entry || (n > 0 && n <= DIGITS_MAX));
}

bool cursor_read(const char *s, enum task_state *state, struct store_place *after)
{
    char name[16];

    memset(after, 0, sizeof(*after));
    if (!take_field(&s, name, sizeof(name)) || !cursor_state_from_name(name, state))
        return false;
    if (*s == '\0')
        return true;
    if (!take_field(&s, after->score, sizeof(after->score)) || !is_score(after->score, is_in_stream(*state)))
        return false;
    if (is_in_stream(*state))
        return *s == '\0';
    if (!task_id_is_valid(s, strlen(s)))
        return false;
    memcpy(after->id, s, strlen(s) + 1);
    return true;
}
