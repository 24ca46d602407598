#include "store/redis_opts.h"
#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *url;
    const char *host, *socket_path, *username, *password;
    int port, db;
} good[] = {
    {"redis://localhost", .host = "localhost", .port = 6379},
    {"redis://localhost:1", .host = "localhost", .port = 1},
    {"redis://10.0.0.1:65535/", .host = "10.0.0.1", .port = 65535},
    {"redis://r/3", .host = "r", .port = 6379, .db = 3},
    {"redis://r:7000/15", .host = "r", .port = 7000, .db = 15},
    {"redis://:secret@r", .host = "r", .port = 6379, .password = "secret"},
    {"redis://me:secret@r:1/2", .host = "r", .port = 1, .db = 2, .username = "me", .password = "secret"},
    {"redis://me:@r", .host = "r", .port = 6379, .username = "me", .password = ""},
    {"redis://:a%40b%3Ac%2fd%25@r", .host = "r", .port = 6379, .password = "a@b:c/d%"},
    {"redis://m%65:x@r", .host = "r", .port = 6379, .username = "me", .password = "x"},
    {"redis://:a@b@r", .host = "r", .port = 6379, .password = "a@b"},
    {"redis://:a:b@r", .host = "r", .port = 6379, .password = "a:b"},
    {"redis://[::1]", .host = "::1", .port = 6379},
    {"redis://[fd00::2]:7000/1", .host = "fd00::2", .port = 7000, .db = 1},
    {"redis://:x@[::1]:7000", .host = "::1", .port = 7000, .password = "x"},
    {"unix:///run/redis.sock", .socket_path = "/run/redis.sock"},
    {"unix:///a b/@:%41", .socket_path = "/a b/@:%41"},
};

static const char *const bad[] = {
    "",
    "redis",
    "redis:",
    "redis:/r",
    "redis://",
    "redis:///0",
    "redis://:6379",
    "redis://@r",
    "redis://me@r",
    "redis://r:",
    "redis://r:0",
    "redis://r:65536",
    "redis://r:99999999999999999999",
    "redis://r:-1",
    "redis://r:+1",
    "redis://r: 1",
    "redis://r:1x",
    "redis://r:1:2",
    "redis://r/x",
    "redis://r/-1",
    "redis://r/1000001",
    "redis://r/1/2",
    "redis://[::1",
    "redis://[::1]x",
    "redis://[::1]:",
    "redis://[]",
    "redis://:secret%@r",
    "redis://:secret%4@r",
    "redis://:secret%4g@r",
    "redis://:secret%00@r",
    "redis://:secret%+1@r",
    "redis://:secret%-1@r",
    "redis://:secret% 1@r",
    "redis://%zz:secret@r",
    "redis://me:secret@r:secret",
    "unix://",
    "unix://run/redis.sock",
    "http://r",
    "REDIS",
};

static void expect_same_text(const char *got, const char *want, const char *url, const char *what)
{
    cr_expect_eq(!got, !want, "%s: %s is %s", url, what, got ? got : "missing");
    if (got && want)
        cr_expect_str_eq(got, want, "%s: %s is %s", url, what, got);
}

Test(redis_opts, a_good_url_gives_its_parts)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct redis_opts o = {0};
        char detail[REDIS_OPTS_DETAIL_SIZE] = "";
        cr_assert_eq(redis_opts_parse(good[i].url, &o, detail), ERR_OK, "%s: %s", good[i].url, detail);
        expect_same_text(o.host, good[i].host, good[i].url, "host");
        expect_same_text(o.socket_path, good[i].socket_path, good[i].url, "socket");
        expect_same_text(o.username, good[i].username, good[i].url, "user");
        expect_same_text(o.password, good[i].password, good[i].url, "password");
        cr_expect_eq(o.port, good[i].port, "%s: port %d", good[i].url, o.port);
        cr_expect_eq(o.db, good[i].db, "%s: db %d", good[i].url, o.db);
        redis_opts_deinit(&o);
    }
}

Test(redis_opts, a_bad_url_is_refused_with_a_reason_that_holds_no_secret)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct redis_opts o = {0};
        char detail[REDIS_OPTS_DETAIL_SIZE] = "";
        cr_expect_eq(redis_opts_parse(bad[i], &o, detail), ERR_INVALID, "%s", bad[i]);
        cr_expect_str_neq(detail, "", "%s has no reason", bad[i]);
        cr_expect_null(strstr(detail, "secret"), "%s: %s", bad[i], detail);
        cr_expect(!o.host && !o.socket_path && !o.username && !o.password, "%s left something", bad[i]);
        redis_opts_deinit(&o);
    }
}

Test(redis_opts, parsing_leaves_the_other_settings_alone)
{
    struct redis_opts o = {.prefix = "p", .gateway = "g", .claim_idle_ms = 5, .max_finished = 6};
    char detail[REDIS_OPTS_DETAIL_SIZE];

    cr_assert_eq(redis_opts_parse("redis://r", &o, detail), ERR_OK);
    cr_expect_str_eq(o.prefix, "p");
    cr_expect_str_eq(o.gateway, "g");
    cr_expect_eq(o.claim_idle_ms, 5);
    cr_expect_eq(o.max_finished, 6);
    redis_opts_deinit(&o);
    cr_expect_null(o.host);
}
