#include "store/callback_priv.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "task/task_json.h"

#include <stdlib.h>

static const char *url_to_tell(const struct task *ended)
{
    if (ended->state == TASK_DELIVERED)
        return ended->on_success;
    return ended->state == TASK_DEAD || ended->state == TASK_EXPIRED ? ended->on_failure : NULL;
}

static void write_news(struct buf *out, const struct task *ended)
{
    char finished_at[PARSE_RFC3339_SIZE];

    parse_format_rfc3339(ended->when_ms, finished_at);
    buf_printf(out, "{\"type\":\"task.%s\",\"timestamp\":\"%s\",\"data\":", task_state_name(ended->state), finished_at);
    task_json_write(out, ended, TASK_JSON_SUMMARY);
    buf_putc(out, '}');
}

struct task *callback_create(const struct task *ended)
{
    const char *url = url_to_tell(ended);
    struct buf body;

    if (!url)
        return NULL;
    struct task *t = task_create();

    free(t->queue);
    t->queue = xstrdup(ended->queue);
    t->url = xstrdup(url);
    t->traceparent = ended->traceparent ? xstrdup(ended->traceparent) : NULL;
    buf_init(&body, SIZE_MAX);
    write_news(&body, ended);
    t->body_kind = TASK_BODY_PAYLOAD;
    t->body_bytes = body.len;
    t->body = buf_take(&body, NULL);
    return t;
}
