#include "conf/config.h"
#include "conf/option_priv.h"
#include "conf/value_priv.h"
#include <string.h>

#define USAGE_COLUMN 37

void config_print(const struct config *c, struct buf *out)
{
    buf_puts(out, "{\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        buf_printf(out, "  \"%s\": ", option_at(i)->key);
        value_write_json(option_at(i), c, out);
        buf_puts(out, i + 1 < OPTION_COUNT ? ",\n" : "\n");
    }
    buf_puts(out, "}\n");
}

/* What stands behind the flag in --help. */
static const char *placeholder(const struct option *o)
{
    switch (o->kind) {
    case OPTION_LISTEN:
        return " HOST:PORT";
    case OPTION_REDIS:
        return " URL";
    case OPTION_NETWORKS:
        return " CIDRS";
    case OPTION_INT:
        return " N";
    case OPTION_DURATION:
        return " DURATION";
    case OPTION_TEXT:
        return strcmp(o->key, "data-dir") == 0 ? " FOLDER" : " FILE";
    case OPTION_PREFIX:
        return " NAME";
    case OPTION_CHOICE: /* its choices are shown */
    case OPTION_SECRETS:
    case OPTION_BOOL:
    case OPTION_KIND_COUNT:
        break;
    }
    return "";
}

static void put_choices(const char *choices, struct buf *out)
{
    buf_putc(out, ' ');
    for (const char *c = choices; *c; c++)
        buf_append(out, *c == ' ' ? "|" : c, 1);
}

static const char *shown_default(const struct option *o)
{
    if (o->fallback)
        return o->fallback;
    return o->shown ? o->shown : "none";
}

void config_usage(struct buf *out)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *o = option_at(i);
        char variable[OPTION_ENV_SIZE];
        size_t start = out->len;

        option_env_name(o, variable);
        if (o->flags & OPTION_NO_FLAG)
            buf_printf(out, "  %s", variable);
        else
            buf_printf(out, "  --%s%s", o->key, placeholder(o));
        if (o->kind == OPTION_CHOICE)
            put_choices(o->choices, out);
        do
            buf_putc(out, ' ');
        while (out->len - start < USAGE_COLUMN && buf_status(out) == ERR_OK);
        buf_puts(out, o->help);
        if (o->kind != OPTION_BOOL)
            buf_printf(out, " (%s)", shown_default(o));
        buf_putc(out, '\n');
    }
    buf_puts(out, "\n"
                  "Every flag is also an environment variable (--max-body is DUEPOST_MAX_BODY) and a member of the "
                  "file\n"
                  "named by --config (\"max-body\"). A flag goes before a variable, a variable before the file.\n"
                  "Secrets have no flag. A duration is an integer of milliseconds, or has units: 15s, 1h30m, 7d.\n");
}

void config_markdown(struct buf *out)
{
    buf_puts(out, "| setting | variable | default | |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *o = option_at(i);
        char variable[OPTION_ENV_SIZE];

        option_env_name(o, variable);
        buf_printf(out, o->flags & OPTION_NO_FLAG ? "| `%s` (no flag) " : "| `--%s` ", o->key);
        buf_printf(out, "| `%s` ", variable);
        buf_printf(out, o->fallback ? "| `%s` " : "| %s ", shown_default(o));
        buf_printf(out, "| %s |\n", o->help);
    }
}
