#include "certificate.h"
#include "proc.h"
#include "tmpdir.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct certificate certificate_create(const char *folder, const char *name)
{
    char subject[80], alt_name[128], file[80];
    struct certificate c = {0};

    (void)snprintf(subject, sizeof(subject), "/CN=%s", name);
    (void)snprintf(alt_name, sizeof(alt_name), "subjectAltName=DNS:%s,IP:127.0.0.1", name);
    (void)snprintf(file, sizeof(file), "%s.pem", name);
    c.cert = tmpdir_path(folder, file);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    c.key = tmpdir_path(folder, file);

    const char *const argv[] = {"openssl", "req",   "-x509", "-newkey", "ec",    "-pkeyopt", "ec_paramgen_curve:P-256",
                                "-nodes",  "-days", "2",     "-subj",   subject, "-addext",  alt_name,
                                "-keyout", c.key,   "-out",  c.cert,    NULL};
    struct proc *p = proc_start(argv, NULL, folder);
    cr_assert_eq(proc_wait(p, 10000), 0, "%s", proc_stderr(p));
    proc_destroy(&p);
    return c;
}

void certificate_deinit(struct certificate *c)
{
    free(c->cert);
    free(c->key);
    *c = (struct certificate){0};
}
