#include "pool_fixture.h"
#include "base/clock.h"
#include "base/mem.h"
#include "wait.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TURN_MS 20

static void on_done(void *ctx, void *owner, const struct webhook_result *result)
{
    struct pool_fixture *f = ctx;

    cr_assert_lt(f->done, POOL_FIXTURE_RESULTS);
    f->owners[f->done] = owner;
    f->results[f->done++] = *result;
    if (f->then != NULL)
        f->then(f);
}

struct pool_fixture *pool_fixture_create(const struct pool_fixture_opts *opts)
{
    static const struct pool_fixture_opts defaults = {0};
    struct pool_fixture *f = xcalloc(1, sizeof(*f));
    const struct pool_fixture_opts *o = opts != NULL ? opts : &defaults;
    struct pool_opts pool_opts = {.ca_file = o->ca_file, .version = "1.2.3", .on_done = on_done, .ctx = f};
    const char *bad = NULL;
    size_t n = 0;

    cr_assert_eq(pool_global_init(), ERR_OK);
    cr_assert_eq(cidr_list_parse(o->allow_net != NULL ? o->allow_net : "127.0.0.0/8,::1", &f->allow_net, &bad, &n),
                 ERR_OK);
    cr_assert_eq(signature_secrets_parse(o->secrets != NULL ? o->secrets : "", &f->secrets, &n), ERR_OK);
    f->loop = loop_create();
    f->receiver = receiver_create();
    pool_opts.loop = f->loop;
    pool_opts.capacity = o->capacity != 0 ? o->capacity : 256;
    pool_opts.allow_net = &f->allow_net;
    pool_opts.own = &f->own;
    pool_opts.secrets = &f->secrets;
    cr_assert_eq(pool_create(&pool_opts, &f->pool), ERR_OK);
    return f;
}

void pool_fixture_destroy(struct pool_fixture **f)
{
    if (*f == NULL)
        return;
    pool_destroy(&(*f)->pool);
    receiver_destroy(&(*f)->receiver);
    loop_destroy(&(*f)->loop);
    cidr_list_deinit(&(*f)->allow_net);
    signature_secrets_deinit(&(*f)->secrets);
    free(*f);
    *f = NULL;
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = xstrdup(with);
}

struct task *pool_fixture_task(struct pool_fixture *f, const char *url)
{
    struct task *t = task_create();

    replace(&t->id, "task-1");
    replace(&t->queue, "lane-1");
    replace(&t->url, url != NULL ? url : receiver_url(f->receiver));
    t->timeout_ms = 5000;
    t->run_at_ms = 1764525600123;
    return t;
}

void pool_fixture_add_header(struct task *t, const char *name, const char *value)
{
    t->headers = xrealloc(t->headers, (t->header_count + 1) * sizeof(*t->headers));
    t->headers[t->header_count++] = (struct task_header){.name = xstrdup(name), .value = xstrdup(value)};
}

void pool_fixture_set_body(struct task *t, enum task_body_kind kind, const char *body, size_t n)
{
    free(t->body);
    t->body = xstrndup(body, n);
    t->body_bytes = n;
    t->body_kind = kind;
}

void pool_fixture_start(struct pool_fixture *f, const struct task *t, bool is_last)
{
    /* The owner comes back as it went in; nothing writes through it. */
    union {
        const struct task *in;
        void *out;
    } owner = {.in = t};
    int64_t offset_us = clock_wall_us() - clock_mono_us();

    cr_assert_eq(pool_start(f->pool, t, 3, offset_us, is_last, owner.out), ERR_OK);
}

void pool_fixture_turn(struct pool_fixture *f)
{
    int64_t wait_ms = pool_run(f->pool);

    loop_turn(f->loop, wait_ms < 0 || wait_ms > TURN_MS ? TURN_MS * 1000 : wait_ms * 1000);
}

void pool_fixture_wait(struct pool_fixture *f, int done)
{
    int64_t end_ms = wait_mono_ms() + wait_scaled_ms(20000);

    while (f->done < done) {
        cr_assert_lt(wait_mono_ms(), end_ms, "%d of %d attempts have ended", f->done, done);
        pool_fixture_turn(f);
    }
}

static const struct webhook_result *send(struct pool_fixture *f, const struct task *t, bool is_last)
{
    int i = f->done;

    pool_fixture_start(f, t, is_last);
    pool_fixture_wait(f, i + 1);
    return &f->results[i];
}

const struct webhook_result *pool_fixture_send(struct pool_fixture *f, const struct task *t)
{
    return send(f, t, false);
}

const struct webhook_result *pool_fixture_send_last(struct pool_fixture *f, const struct task *t)
{
    return send(f, t, true);
}

const struct webhook_result *pool_fixture_answered(struct pool_fixture *f, const struct receiver_answer *answer)
{
    struct task *t = pool_fixture_task(f, NULL);
    const struct webhook_result *result = NULL;

    receiver_script(f->receiver, answer);
    result = pool_fixture_send(f, t);
    task_destroy(&t);
    return result;
}
