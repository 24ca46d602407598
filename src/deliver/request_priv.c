#include "deliver/request_priv.h"
#include "base/mem.h"
#include "base/parse.h"
#include <string.h>
#include <strings.h>

/* The header lines of a request.
 *
 * libcurl wants a linked list of strings. One buffer holds all lines, each with its NUL, and the list nodes are an
 * array that points into it: no allocation for a header, and both are used again by the next attempt.
 *
 * A task's headers were checked at the edge. What is stored may still be older than a check, so a control character
 * becomes a blank here: no value can begin a new line, whatever is in the store. */

#define OUR_LINES 11 /* at most, beside the task's own */

/* Which of our defaults the task replaces. */
struct given {
    bool content_type;
    bool user_agent;
    bool traceparent;
};

static void end_line(struct buf *lines)
{
    buf_putc(lines, '\0');
}

static void put_line(struct buf *lines, const char *name, const char *value)
{
    buf_puts(lines, name);
    buf_puts(lines, value);
    end_line(lines);
}

static void put_our_lines(struct attempt *a, int attempt_number, int64_t now_mono_us)
{
    const struct task *t = a->task;
    const struct signature_secrets *secrets = a->env->opts->secrets;
    int64_t timestamp_s = (now_mono_us + a->wall_offset_us) / 1000000;
    char due[PARSE_RFC3339_SIZE];
    struct buf *lines = &a->lines;

    put_line(lines, "webhook-id: ", t->id);
    buf_puts(lines, "webhook-timestamp: ");
    buf_put_int(lines, timestamp_s);
    end_line(lines);
    if (secrets != NULL && secrets->count > 0) {
        buf_puts(lines, "webhook-signature: ");
        signature_sign(lines, secrets, t->id, timestamp_s, t->body != NULL ? t->body : "", t->body_bytes);
        end_line(lines);
    }
    buf_puts(lines, "Duepost-Attempt: ");
    buf_put_int(lines, attempt_number);
    end_line(lines);
    put_line(lines, "Duepost-Queue: ", t->queue);
    parse_format_rfc3339(t->run_at_ms, due);
    put_line(lines, "Duepost-Due: ", due);
}

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t")] == '\0';
}

static void put_task_header(struct buf *lines, const struct task_header *h)
{
    size_t start = lines->len;

    buf_puts(lines, h->name);
    /* "Name:" would make libcurl leave the header out; "Name;" is its way to send one without a value. */
    buf_puts(lines, is_blank(h->value) ? ";" : ": ");
    if (!is_blank(h->value))
        buf_puts(lines, h->value);
    for (size_t i = start; i < lines->len; i++) {
        unsigned char c = (unsigned char)lines->data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            lines->data[i] = ' ';
    }
    end_line(lines);
}

static void put_task_headers(struct attempt *a, struct given *given)
{
    const struct task *t = a->task;

    for (size_t i = 0; i < t->header_count; i++) {
        const struct task_header *h = &t->headers[i];
        if (strcasecmp(h->name, "Content-Type") == 0)
            given->content_type = true;
        else if (strcasecmp(h->name, "User-Agent") == 0)
            given->user_agent = true;
        else if (strcasecmp(h->name, "traceparent") == 0)
            given->traceparent = true;
        put_task_header(&a->lines, h);
    }
}

static const char *default_content_type(enum task_body_kind kind)
{
    switch (kind) {
    case TASK_BODY_PAYLOAD:
        return "Content-Type: application/json";
    case TASK_BODY_TEXT:
        return "Content-Type: text/plain; charset=utf-8";
    case TASK_BODY_BYTES:
        return "Content-Type: application/octet-stream";
    case TASK_BODY_NONE:
        break;
    }
    return "Content-Type:"; /* none: libcurl would send its own for a POST */
}

static void put_defaults(struct attempt *a, const struct given *given)
{
    char trace_name[] = "traceparent";

    if (!given->user_agent)
        put_line(&a->lines, a->env->agent_line, "");
    if (!given->content_type)
        put_line(&a->lines, default_content_type(a->task->body_kind), "");
    if (!given->traceparent && a->task->traceparent)
        put_task_header(&a->lines, &(struct task_header){trace_name, a->task->traceparent});
    put_line(&a->lines, "Expect:", ""); /* no wait for a 100 before a large body */
}

/* Point the nodes at the lines; only now, since the buffer may have moved while it grew. */
static void link_nodes(struct attempt *a)
{
    size_t count = 0;
    char *line = a->lines.data;
    char *end = a->lines.data + a->lines.len;

    for (; line < end; line += strlen(line) + 1, count++) {
        a->nodes[count].data = line;
        a->nodes[count].next = &a->nodes[count + 1];
    }
    a->nodes[count - 1].next = NULL;
}

enum err request_headers(struct attempt *a, int attempt_number, int64_t now_mono_us)
{
    size_t needed = a->task->header_count + OUR_LINES;
    struct given given = {false, false, false};

    buf_clear(&a->lines);
    if (a->node_capacity < needed) {
        a->nodes = xrealloc(a->nodes, needed * sizeof(*a->nodes));
        a->node_capacity = needed;
    }
    put_our_lines(a, attempt_number, now_mono_us);
    put_task_headers(a, &given);
    put_defaults(a, &given);
    if (buf_status(&a->lines) != ERR_OK)
        return ERR_NOMEM;
    link_nodes(a);
    return ERR_OK;
}
