#include "conf/config.h"
#include "base/parse.h"
#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Any bytes as the file of --config. Either all of it is taken, and the settings can be shown, as JSON and without
 * their secrets; or there are faults, each on a line of its own. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_settings(const struct config *c)
{
    struct buf shown;

    buf_init(&shown, (size_t)4 << 20);
    config_print(c, &shown);
    assert(buf_status(&shown) == ERR_OK);
    json_t *json = json_loadb(shown.data, shown.len, JSON_REJECT_DUPLICATES, NULL);

    assert(json_is_object(json));
    const char *secret = json_string_value(json_object_get(json, "signing-secret"));
    const char *token = json_string_value(json_object_get(json, "token"));

    assert(!c->signing_secret || (secret && strcmp(secret, "***") == 0));
    assert(!c->token || (token && strcmp(token, "***") == 0));
    assert(c->threads > 0 && c->concurrency > 0 && c->max_body_bytes > 0 && c->port >= 0 && c->port <= 65535);
    json_decref(json);
    buf_deinit(&shown);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    int fd = memfd_create("config", MFD_CLOEXEC);
    char path[64];
    char flag[] = "--config";
    char *argv[] = {flag, path, NULL};
    char *env[] = {NULL};
    struct config config;
    struct buf faults;

    assert(fd != -1 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    buf_init(&faults, (size_t)16 << 20);
    if (config_load(2, argv, env, &config, &faults) == ERR_OK) {
        assert(faults.len == 0);
        check_settings(&config);
    } else {
        assert(faults.len > 0 && buf_status(&faults) == ERR_OK && faults.data[faults.len - 1] == '\n');
        assert(parse_is_utf8(faults.data, faults.len));
    }
    config_deinit(&config);
    buf_deinit(&faults);
    (void)close(fd);
    return 0;
}
