#include "http/list_priv.h"
#include "base/mem.h"
#include "base/parse.h"
#include "http/cursor_priv.h"
#include "http/query_priv.h"
#include "http/request_priv.h"
#include "task/task_json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GET /tasks: a page of tasks, in steps that never hold Redis for long.
 *
 *   find    which tasks come next in this state (STORE_LIST); over the scheduled ones of all queues in several steps,
 *           of which the first `limit` of all are kept
 *   glance  read them without their bodies, some at a time (STORE_GLANCE); who went on to another state meanwhile is
 *           left out
 *   go on   behind the last one, until the page is full or the state has no more; then the next state, when all are
 *           asked for
 *
 * A page ends early, with a cursor, when it has taken MAX_STEPS: the tasks of one queue may be rare among the finished
 * ones, which are kept in one order for all queues. */

#define LIST_WAIT_MS 1800
#define LIMIT_DEFAULT 100
#define MAX_STEPS 100

enum { PARAMETER_STATE = 0, PARAMETER_QUEUE, PARAMETER_LIMIT, PARAMETER_CURSOR, PARAMETER_COUNT };

struct page {
    /* What was asked for. */
    bool is_one_state;
    char queue[TASK_QUEUE_MAX + 1]; /* "": all */
    size_t limit;

    /* Where we are. */
    enum task_state state; /* TASK_STATE_COUNT: past the last one */
    struct store_place after;
    int steps;
    struct store_place *places; /* found, in order, and not yet read */
    size_t place_count;
    bool has_more; /* in this state, behind the places */
    size_t read_count;
    struct store_list list;
    struct store_glance glance;

    struct task **tasks;
    size_t task_count;
};

static void page_destroy(void *work)
{
    struct page *p = work;

    for (size_t i = 0; i < p->task_count; i++)
        task_destroy(&p->tasks[i]);
    for (size_t i = 0; i < STORE_GLANCE_MAX; i++)
        task_destroy(&p->glance.tasks[i]);
    free(p->list.found);
    free(p->places);
    free(p->tasks);
    free(p);
}

/* ------------------------------------------------------------ the request */

static void read_parameters(const char *query, struct page *p, struct faults *faults)
{
    struct query_parameter q[PARAMETER_COUNT] = {
        {.name = "state"}, {.name = "queue"}, {.name = "limit"}, {.name = "cursor"}};
    enum task_state asked = TASK_SCHEDULED;
    int64_t limit = LIMIT_DEFAULT;

    query_read(query, q, PARAMETER_COUNT, faults);
    p->is_one_state = q[PARAMETER_STATE].is_given;
    if (p->is_one_state && !cursor_state_from_name(q[PARAMETER_STATE].value, &asked))
        faults_add(faults, "state", "must be scheduled, ready, delivering, delivered, dead, cancelled or expired");
    p->state = asked;
    if (q[PARAMETER_QUEUE].is_given && !task_queue_is_valid(q[PARAMETER_QUEUE].value, strlen(q[PARAMETER_QUEUE].value)))
        faults_add(faults, "queue", "is no name of a queue");
    else
        memcpy(p->queue, q[PARAMETER_QUEUE].value, strlen(q[PARAMETER_QUEUE].value) + 1);
    if (q[PARAMETER_LIMIT].is_given &&
        (!parse_int64(q[PARAMETER_LIMIT].value, strlen(q[PARAMETER_LIMIT].value), &limit) || limit < 1 ||
         limit > STORE_LIST_MAX))
        faults_add(faults, "limit", "must be a whole number from 1 to %d", STORE_LIST_MAX);
    p->limit = (size_t)limit;
    if (q[PARAMETER_CURSOR].is_given &&
        (!cursor_read(q[PARAMETER_CURSOR].value, &p->state, &p->after) || (p->is_one_state && p->state != asked)))
        faults_add(faults, "cursor", "is not the next_cursor of a page of this list");
}

/* -------------------------------------------------------------- the answer */

static void answer(struct request *r, const struct page *p)
{
    struct buf *out = reply_json(&r->reply, 200);

    buf_puts(out, "{\"tasks\":[");
    for (size_t i = 0; i < p->task_count; i++) {
        if (i > 0)
            buf_putc(out, ',');
        task_json_write(out, p->tasks[i], TASK_JSON_SUMMARY);
    }
    buf_puts(out, "],\"next_cursor\":");
    if (p->state == TASK_STATE_COUNT) {
        buf_puts(out, "null");
    } else {
        buf_putc(out, '"');
        cursor_write(out, p->state, &p->after);
        buf_putc(out, '"');
    }
    buf_puts(out, "}\n");
}

/* --------------------------------------------------------------- the steps */

static void find(struct request *r, struct page *p);

static void next_state(struct page *p)
{
    p->state = p->is_one_state ? TASK_STATE_COUNT : (enum task_state)(p->state + 1);
    p->after = (struct store_place){0};
}

/* All places were read. */
static void go_on(struct request *r, struct page *p)
{
    if (!p->has_more)
        next_state(p);
    if (p->state == TASK_STATE_COUNT || p->task_count == p->limit || p->steps >= MAX_STEPS || request_is_given_up(r))
        answer(r, p);
    else
        find(r, p);
}

static void finish_glance(struct request *r);

static void glance(struct request *r, struct page *p)
{
    size_t left = p->place_count - p->read_count;

    if (left == 0) {
        go_on(r, p);
        return;
    }
    p->glance.places = p->places + p->read_count;
    p->glance.count = left < STORE_GLANCE_MAX ? left : STORE_GLANCE_MAX;
    r->op.glance = &p->glance;
    request_submit(r, STORE_GLANCE, LIST_WAIT_MS, finish_glance);
}

static void finish_glance(struct request *r)
{
    struct page *p = r->work;

    if (r->op.err != ERR_OK) {
        request_reply_store_fault(r);
        return;
    }
    for (size_t i = 0; i < p->glance.count; i++) {
        struct task **t = &p->glance.tasks[i];

        if (*t && (*t)->state == p->state && (p->queue[0] == '\0' || strcmp((*t)->queue, p->queue) == 0)) {
            p->tasks[p->task_count++] = *t;
            *t = NULL;
        }
        task_destroy(t);
    }
    p->read_count += p->glance.count;
    glance(r, p);
}

static bool is_before(const struct store_place *a, const struct store_place *b)
{
    int64_t x = 0;
    int64_t y = 0;

    (void)parse_int64(a->score, strlen(a->score), &x);
    (void)parse_int64(b->score, strlen(b->score), &y);
    return x != y ? x < y : strcmp(a->id, b->id) < 0;
}

/* Merge what a step found into the places, both in order, and keep the first ones that the page has room for. */
static void merge(struct page *p)
{
    size_t room = p->limit - p->task_count;
    size_t total = p->place_count + p->list.found_count;
    size_t count = total < room ? total : room;
    struct store_place *merged = xcalloc(count, sizeof(*merged));
    size_t a = 0;
    size_t b = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_old = b == p->list.found_count || (a < p->place_count && is_before(&p->places[a], &p->list.found[b]));

        merged[i] = is_old ? p->places[a++] : p->list.found[b++];
    }
    free(p->places);
    free(p->list.found);
    p->list.found = NULL;
    p->places = merged;
    p->place_count = count;
    p->has_more = p->has_more || p->list.has_more || count < total;
}

static void submit_step(struct request *r, struct page *p);

static void finish_step(struct request *r)
{
    struct page *p = r->work;
    bool is_merged = false;

    if (r->op.err != ERR_OK) {
        request_reply_store_fault(r);
        return;
    }
    is_merged = p->state == TASK_SCHEDULED && p->queue[0] == '\0';
    merge(p);
    if (strcmp(p->list.queue_cursor, "0") != 0 && !request_is_given_up(r)) {
        submit_step(r, p);
        return;
    }
    if (!is_merged)
        p->after = p->list.last;
    else if (p->place_count > 0)
        p->after = p->places[p->place_count - 1];
    glance(r, p);
}

static void submit_step(struct request *r, struct page *p)
{
    p->steps++;
    r->op.list = &p->list;
    request_submit(r, STORE_LIST, LIST_WAIT_MS, finish_step);
}

/* Begin to look for the next tasks of this state. */
static void find(struct request *r, struct page *p)
{
    p->place_count = 0;
    p->read_count = 0;
    p->has_more = false;
    p->list = (struct store_list){.state = p->state,
                                  .queue = p->queue[0] != '\0' ? p->queue : NULL,
                                  .limit = p->limit - p->task_count,
                                  .after = p->after,
                                  .queue_cursor = "0"};
    submit_step(r, p);
}

void list_tasks(struct request *r)
{
    struct page *p = xcalloc(1, sizeof(*p));
    struct faults faults;

    request_keep(r, p, page_destroy);
    faults_init(&faults);
    read_parameters(r->match.query, p, &faults);
    if (faults.count > 0) {
        reply_problem_faults(&r->reply, ERR_INVALID_QUERY, "parameter", &faults);
    } else {
        p->tasks = xcalloc(p->limit, sizeof(struct task *));
        find(r, p);
    }
    faults_deinit(&faults);
}
