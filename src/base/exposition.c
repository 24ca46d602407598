#include "base/exposition.h"

static const char *const types[] = {
    [EXPOSITION_COUNTER] = "counter", [EXPOSITION_GAUGE] = "gauge", [EXPOSITION_HISTOGRAM] = "histogram"};

void exposition_head(struct buf *out, const char *name, enum exposition_type type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void put_label_value(struct buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '\\' || *s == '"')
            buf_putc(out, '\\');
        if (*s == '\n')
            buf_puts(out, "\\n");
        else
            buf_putc(out, *s);
    }
}

static void put_name(struct buf *out, const char *name, const struct exposition_label *labels)
{
    buf_puts(out, name);
    for (const struct exposition_label *l = labels; l && l->name; l++) {
        buf_putc(out, l == labels ? '{' : ',');
        buf_puts(out, l->name);
        buf_puts(out, "=\"");
        put_label_value(out, l->value);
        buf_putc(out, '"');
    }
    if (labels && labels->name)
        buf_putc(out, '}');
    buf_putc(out, ' ');
}

void exposition_int(struct buf *out, const char *name, const struct exposition_label *labels, int64_t value)
{
    put_name(out, name, labels);
    buf_put_int(out, value);
    buf_putc(out, '\n');
}

void exposition_real(struct buf *out, const char *name, const struct exposition_label *labels, double value)
{
    put_name(out, name, labels);
    buf_printf(out, "%.15g\n", value);
}

void exposition_counter(struct buf *out, const char *name, const char *help, int64_t value)
{
    exposition_head(out, name, EXPOSITION_COUNTER, help);
    exposition_int(out, name, NULL, value);
}

void exposition_gauge(struct buf *out, const char *name, const char *help, double value)
{
    exposition_head(out, name, EXPOSITION_GAUGE, help);
    exposition_real(out, name, NULL, value);
}

void exposition_histogram(struct buf *out, const char *name, const char *help, const struct metrics_total *total)
{
    int64_t count = 0;

    exposition_head(out, name, EXPOSITION_HISTOGRAM, help);
    for (size_t i = 0; i < METRICS_BOUNDS; i++) {
        count += total->counts[i];
        buf_printf(out, "%s_bucket{le=\"%.9g\"} %lld\n", name, (double)metrics_bounds_us[i] / 1e6, (long long)count);
    }
    count += total->counts[METRICS_BOUNDS];
    buf_printf(out, "%s_bucket{le=\"+Inf\"} %lld\n", name, (long long)count);
    buf_printf(out, "%s_sum %.9g\n", name, (double)total->sum_us / 1e6);
    buf_printf(out, "%s_count %lld\n", name, (long long)count);
}
