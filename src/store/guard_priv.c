#include "store/guard_priv.h"

#include <string.h>

/* A reader calls one of these functions for each value, an array before its elements. NULL is "out of memory" for it,
 * and ends the connection. It has one answer at a time: the next is read when the last was freed. */

/* hiredis tells free_answer() nothing but the answer. */
struct value {
    redisReply reply; /* first member */
    struct guard *guard;
};

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static struct guard *guard_of(const redisReadTask *task)
{
    return task->privdata;
}

static bool refuse(struct guard *g, const char *why)
{
    g->refusal = why;
    return false;
}

static bool is_kind(const char *text, size_t n)
{
    return text && ((n == 7 && memcmp(text, "message", n) == 0) || (n == 9 && memcmp(text, "subscribe", n) == 0));
}

/* "subscribe" or "message", the channel, a number or the text. */
static bool is_in_form(struct guard *g, const redisReadTask *task, const char *text, size_t n)
{
    if (task->type != REDIS_REPLY_STRING && task->idx < 2)
        return refuse(g, "a message that is none");
    return task->idx != 0 || is_kind(text, n) || refuse(g, "a message of another kind");
}

/* `text` and `n` are those of a string, `n` the number of elements of an array. */
static bool may_come(const redisReadTask *task, const char *text, size_t n)
{
    struct guard *g = guard_of(task);

    if (task->parent)
        return !g->is_in_message || is_in_form(g, task, text, n);
    g->is_in_message = *g->outstanding == 0 && g->takes_messages;
    /* An error that nobody asked for is why a server ends a connection; hiredis can take it. */
    if (*g->outstanding > 0 || task->type == REDIS_REPLY_ERROR)
        return true;
    if (!g->takes_messages)
        return refuse(g, "an answer that nobody asked for");
    return (task->type == REDIS_REPLY_ARRAY && n == 3) || refuse(g, "a message that is none");
}

/* The type is not always that of the task: a text or an array may be nil. */
static redisReply *make(const redisReadTask *task, int type)
{
    struct guard *g = guard_of(task);
    struct value *v = answer_memory_take(&g->memory, sizeof *v);

    if (!v)
        return NULL;
    v->guard = g;
    v->reply.type = type;
    return &v->reply;
}

/* Into its place in the array it belongs to. */
static void *placed(const redisReadTask *task, redisReply *r)
{
    if (r && task->parent)
        ((redisReply *)task->parent->obj)->element[task->idx] = r;
    return r;
}

static bool is_text(int type)
{
    return type == REDIS_REPLY_STRING || type == REDIS_REPLY_STATUS || type == REDIS_REPLY_ERROR;
}

static void *create_string(const redisReadTask *task, char *text, size_t n)
{
    redisReply *r = NULL;

    if (!is_text(task->type))
        (void)refuse(guard_of(task), "a value of RESP3");
    else if (may_come(task, text, n))
        r = make(task, task->type);
    if (r)
        r->str = answer_memory_take(&guard_of(task)->memory, n + 1);
    if (!r || !r->str)
        return NULL;
    memcpy(r->str, text, n);
    r->len = n;
    return placed(task, r);
}

/* hiredis 0.14 has a limit of its own, later ones have none; replies are freed by recursion. */
static bool is_too_deep(const redisReadTask *task)
{
    int depth = 0;

    for (; task->parent && depth < GUARD_DEPTH_MAX; task = task->parent)
        depth++;
    return depth == GUARD_DEPTH_MAX;
}

static void *create_array(const redisReadTask *task, element_count n)
{
    redisReply *r = NULL;

    if (task->type != REDIS_REPLY_ARRAY)
        (void)refuse(guard_of(task), "a value of RESP3");
    else if ((size_t)n > GUARD_ELEMENTS_MAX || is_too_deep(task))
        (void)refuse(guard_of(task), "an answer that is too large");
    else if (may_come(task, NULL, (size_t)n))
        r = make(task, REDIS_REPLY_ARRAY);
    if (r)
        r->element = answer_memory_take(&guard_of(task)->memory, (size_t)n * sizeof(redisReply *));
    if (!r || !r->element)
        return NULL;
    r->elements = (size_t)n;
    return placed(task, r);
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *r = may_come(task, NULL, 0) ? make(task, REDIS_REPLY_INTEGER) : NULL;

    if (r)
        r->integer = value;
    return placed(task, r);
}

static void *create_nil(const redisReadTask *task)
{
    return may_come(task, NULL, 0) ? placed(task, make(task, REDIS_REPLY_NIL)) : NULL;
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double value, char *text, size_t n)
{
    (void)value;
    (void)text;
    (void)n;
    (void)refuse(guard_of(task), "a value of RESP3");
    return NULL;
}

static void *create_bool(const redisReadTask *task, int value)
{
    (void)value;
    (void)refuse(guard_of(task), "a value of RESP3");
    return NULL;
}
#endif

static void free_answer(void *answer)
{
    if (answer)
        answer_memory_reset(&((struct value *)answer)->guard->memory);
}

void guard_install(struct guard *g, redisReader *reader, bool takes_messages, const int *outstanding)
{
    *g = (struct guard){
        .functions = *reader->fn, .memory = g->memory, .outstanding = outstanding, .takes_messages = takes_messages};
    g->functions.createString = create_string;
    g->functions.createArray = create_array;
    g->functions.createInteger = create_integer;
    g->functions.createNil = create_nil;
#if HIREDIS_MAJOR >= 1
    g->functions.createDouble = create_double;
    g->functions.createBool = create_bool;
#endif
    g->functions.freeObject = free_answer;
    reader->fn = &g->functions;
    reader->privdata = g;
}

void guard_deinit(struct guard *g)
{
    answer_memory_deinit(&g->memory);
}
