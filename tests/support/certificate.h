#ifndef SUPPORT_CERTIFICATE_H
#define SUPPORT_CERTIFICATE_H

/* A certificate signed by itself and its private key, in a folder of the test. */
struct certificate {
    char *cert; /* paths of PEM files */
    char *key;
};

/* Make one for this name and 127.0.0.1, in files called NAME.pem and NAME.key. */
struct certificate certificate_create(const char *folder, const char *name);
void certificate_deinit(struct certificate *c); /* the files stay */

#endif
