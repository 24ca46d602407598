#include "record_bytes.h"

#include "store/record_priv.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void record_put_number(struct buf *out, uint64_t v, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        buf_putc(out, (char)(v >> shift));
}

void record_put_head(struct buf *out, const struct task *t, size_t history_bytes)
{
    record_put_number(out, 16u + (unsigned)t->state, 1);
    record_put_number(out, (t->cancel_requested ? 128u : 0u) + (unsigned)t->takeovers, 1);
    record_put_number(out, (uint64_t)t->attempts, 2);
    record_put_number(out, t->generation, 2);
    record_put_number(out, (uint64_t)t->run_at_ms, 6);
    record_put_number(out, (uint64_t)t->created_at_ms, 6);
    record_put_number(out, history_bytes, 2);
}

enum err record_read_copy(const char *data, size_t n, struct task **out)
{
    char *copy = malloc(n ? n : 1);

    cr_assert_not_null(copy);
    memcpy(copy, data, n);
    enum err err = record_read("some-id", copy, n, out);
    free(copy);
    return err;
}
