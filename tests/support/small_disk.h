#ifndef SUPPORT_SMALL_DISK_H
#define SUPPORT_SMALL_DISK_H

/* A file system of 8 MiB that can really be full: a tmpfs, mounted where only this process and its children see it, so
 * that nothing is left behind however the test ends. */

struct small_disk;

/* NULL when this process may not mount: that takes root, and a container that lets it. */
struct small_disk *small_disk_create(void);
void small_disk_destroy(struct small_disk **d); /* when nobody has files open there; NULL-safe */

const char *small_disk_dir(const struct small_disk *d); /* borrowed */

void small_disk_fill(struct small_disk *d);  /* no block is left */
void small_disk_clear(struct small_disk *d); /* and now there are again */

#endif
