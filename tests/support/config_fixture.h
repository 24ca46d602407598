#ifndef SUPPORT_CONFIG_FIXTURE_H
#define SUPPORT_CONFIG_FIXTURE_H

#include "base/buf.h"
#include "base/err.h"
#include "conf/config.h"

/* Loading settings in a test: words in, a struct or fault lines out. A test runs in a process of its own, so one of
 * each is enough. */

extern struct config config_fixture;     /* of the last load */
extern struct buf config_fixture_faults; /* of the last load */
extern char config_fixture_folder[];     /* of this test, removed at its end */

void config_fixture_set_up(void);
void config_fixture_tear_down(void);

/* A file in this test's folder; its path is good until the end of the test. */
const char *config_fixture_file_with(const char *text);

/* Lists of words. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS ((const char *const[]){NULL})

/* Arguments and environment ("NAME=value"). */
enum err config_fixture_load(const char *const *args, const char *const *env);

void config_fixture_expect_ok(const char *const *args, const char *const *env);

/* Exactly these lines, and nothing loaded. */
void config_fixture_expect_faults(const char *const *args, const char *const *env, const char *lines);

/* One flag whose value is wrong for this reason. */
void config_fixture_expect_refused(const char *flag, const char *value, const char *reason);

#endif
